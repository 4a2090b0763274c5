"""From a graph to a session: through ONNX Runtime's model editor, or through the model's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from zrt._common.arguments import shown
from zrt._common.public import public_in
from zrt._native import callback_errors, status
from zrt._native.handle import Handle
from zrt.environment.environment import current
from zrt.environment.thread_factory import PoolOptions
from zrt.errors import ArgumentError, CallbackError, Error, UnsupportedError
from zrt.graph.engine import BUILT_IN, Assembly, Borrowed, editor_api, refusals
from zrt.loading import caller_weights, model_source
from zrt.loading.session_options import SessionOptions
from zrt.providers.node_assignment import Strictness
from zrt.providers.selection import ProvidersLike, parse
from zrt.session.session import Session, prepare_options

EDITOR, ONNX = "editor", "onnx"


@public_in("zrt.graph")
@dataclass(frozen=True, slots=True)
class Engine:
    """What a graph's session is made through.

    `name` is "editor" for ONNX Runtime's model editor and "onnx" for the model's bytes; `reasons` say what the editor
    cannot be given.
    """

    name: str
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Any, borrowed: Borrowed, options: SessionOptions | None = None) -> Engine:
        """What serves a model, under these options."""
        graph = model.graph
        values = (*graph.input, *graph.output)
        reasons = [*refusals(model, graph.node, graph.initializer, values), *_whole(graph)]
        if options is not None:
            reasons.extend(weights_given(options))
            if options.optimized_model_filepath is not None:
                reasons.append("the optimized model that is to be written would lack the model's metadata")
            if options.prepacked_weights is not None:
                reasons.append("prepacked weights are for models that come as bytes")
        return cls.because(reasons)

    @classmethod
    def because(cls, reasons: Iterable[str]) -> Engine:
        """The editor, unless there are reasons against it."""
        found = tuple(reasons)
        return cls(ONNX if found else EDITOR, found)

    def insisted(self, wanted: str | None) -> Engine:
        """The engine that the caller insists on; `UnsupportedError` where it will not do."""
        if wanted is None or wanted == self.name:
            return self
        if wanted == ONNX:
            return Engine(ONNX, ("the caller asked for it",))
        if wanted == EDITOR:
            raise UnsupportedError(f"ONNX Runtime's model editor cannot be given this: {'; '.join(self.reasons)}")
        raise ArgumentError(f"engine: {shown(wanted)} is neither {EDITOR!r} nor {ONNX!r}")


def _whole(graph: Any) -> Iterable[str]:
    """What else the editor would lose where the whole model goes through it."""
    if graph.sparse_initializer:
        yield "the graph has sparse initializers"
    if graph.value_info:
        yield "the graph says types of values in between"
    for domain in sorted({node.domain for node in graph.node} - BUILT_IN):
        yield f"domain {domain!r} may be of custom operators, which a session of the editor's model does not see"


def weights_given(options: SessionOptions) -> Iterator[str]:
    """What the options give that the editor knows nothing of."""
    for field in ("initializers", "external_initializer_files"):
        if getattr(options, field):
            yield f"options.{field} replace weights"


def make(
    model: Any,
    borrowed: Borrowed,
    wanted: str | None,
    options: SessionOptions | None,
    providers: ProvidersLike,
    strict: bool,
    allow: Iterable[str],
) -> Session:
    """The session of a finished model."""
    chosen = parse(providers)
    strictness = Strictness.of(strict, allow, chosen.asked())
    settings = prepare_options(options, chosen)
    strictness.record(settings)
    subject = f"graph {model.graph.name!r}"
    engine = Engine.of(model, borrowed, options).insisted(wanted)
    create = _through_editor if engine.name == EDITOR else _through_bytes
    with chosen.loading(settings) as kept:
        handle = create(model, borrowed, settings, options or SessionOptions(), subject).holding(kept)
    strictness.check(handle, subject)
    return Session.adopt(handle, chosen)


def add(assembly: Assembly, initializers: Iterable[Any], borrowed: Borrowed) -> list[Handle]:
    """Gives the editor the initializers; what comes back must outlive the session."""
    lent = []
    for tensor in initializers:
        value = borrowed.get(tensor.name)
        assembly.initializer(tensor, value)
        if value is not None:
            lent.append(value._open())
    return lent


def _through_editor(
    model: Any, borrowed: Borrowed, settings: PoolOptions, options: SessionOptions, subject: str
) -> Handle:
    try:
        assembly = Assembly()
        assembly.values(model.graph.input, outputs=False)
        assembly.values(model.graph.output, outputs=True)
        lent = add(assembly, model.graph.initializer, borrowed)
        for node in model.graph.node:
            assembly.node(node)
        made = assembly.model({entry.domain: entry.version for entry in model.opset_import})
        create = editor_api().CreateSessionFromModel
        with callback_errors.loading() as load:
            parents = [settings, *lent]
            return model_source.make(
                settings, subject, parents, (load.kept,), create, current().pointer, made, settings.pointer
            )
    except Error as error:
        model_source.settle(settings, subject)
        if isinstance(error, CallbackError):
            raise
        raise status.about(subject, error) from error


def _through_bytes(
    model: Any, borrowed: Borrowed, settings: PoolOptions, options: SessionOptions, subject: str
) -> Handle:
    if borrowed:
        # Their content is not in the model: it comes with the options.
        options = replace(options, initializers={**options.initializers, **borrowed})
    with model_source.Source(model) as source:
        source.subject = subject
        session: Handle = caller_weights.load(source, settings, options)
        return session
