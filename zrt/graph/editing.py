"""`edit`: opens an existing model for additions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

from zrt._common.arguments import text
from zrt._common.files import identity
from zrt._common.public import public
from zrt._native import callback_errors, ffi, status
from zrt._native.busy import claimed
from zrt._native.cdata import NULL, sizeof
from zrt._native.handle import Handle, Owner
from zrt._native.session_handle import SessionHandle
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import FailError, ModelError, UnknownNameError, UnsupportedError
from zrt.graph import model_proto
from zrt.graph.builder import Graph
from zrt.graph.editor import Assembly, editor_api
from zrt.graph.engine import EDITOR, UNDESCRIBED, Engine, refusals, weights_given
from zrt.graph.sessions import make, named
from zrt.loading import caller_weights
from zrt.loading.load import data_of, make_session, prepare_options, writing_optimized
from zrt.loading.model_source import Model, Source
from zrt.loading.session_options import SessionOptions
from zrt.providers.default_selection import parse
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session

# The fields with which a load does more than to make a session, or that an edited session cannot have.
_OTHER_WORK: dict[str, Any] = dict.fromkeys(
    ("cache", "memory", "memory_limit", "optimized_model_filepath", "profile_file_prefix")
)


@public
class GraphEdit(Owner, Graph):
    """An existing model, open for additions; `edit` makes it.

    It is a `Graph` with the model's values in it: ``value("features")`` returns one to build on. `finalize` makes the
    session and ends the edit. After that, as after `close`, changes raise `ClosedError`; `to_onnx` and `save` still
    work.
    """

    _files: dict[str, tuple[int, ...]]

    def __init__(
        self,
        model: Model,
        options: SessionOptions | None = None,
        providers: ProvidersLike = None,
        *,
        external_data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._handle = None
        proto, subject, beside = model_proto.parse(model)
        graph = proto.graph
        model_proto.in_order(graph)
        self._subject = subject
        self._folder = model_proto.folder_of(external_data_dir, beside)
        names = model_proto.external_files(proto)
        # The session reads the model's files of weights once more when the edit is finished: they must stay the same.
        self._files = {path: identity(path) for path in (os.path.join(self._folder, name) for name in names)}
        self._options = options
        self._selection = parse(providers)
        self._busy = ffi.new("int *")
        # The owners of memory that the session borrows. The session keeps this list alive; `_apply` fills it.
        self._lenders: list[Handle] = []
        # The kernels of custom operators, which the session keeps.
        self._kernels: set[object] = set()
        self._settings = prepare_options(options, self._selection, external_data_dir)
        if options is not None and (options.memory, options.memory_limit) != (None, None):
            raise UnsupportedError("memory, memory_limit: ONNX Runtime gives an edited session no arena of its own")
        self._settings.wish = None
        with Source(model) as source:
            with writing_optimized(source, self._settings, options or SessionOptions()):
                # Only the edited model is optimized: this refuses places that cannot be written.
                pass
            handle = _open_session(source, self._settings, self._lenders, self._kernels)
        self._begin(proto, graph, None)
        self._base_nodes = len(graph.node)
        self._base_inputs = {info.name: deepcopy(info) for info in graph.input}
        self._base_outputs = {info.name: deepcopy(info) for info in graph.output}
        self._base_infos = len(graph.value_info)
        self._base_initializers = len(graph.initializer)
        self._base_names = set(self._names)
        self._base_domains = set(self.opsets)
        self._handle = handle

    def opset(self, domain: str = "") -> int:
        """The opset version of a domain in the model; `UnknownNameError` for a domain that it does not use."""
        handle = self._open()
        return claimed(self._busy, "GraphEdit", self._ask_opset, handle, text(domain, "domain"))

    def _ask_opset(self, handle: Handle, domain: bytes) -> int:
        self._open()
        try:
            return int(status.fetch(editor_api().SessionGetOpsetForDomain, "int", handle.pointer, domain))
        except FailError as error:
            raise UnknownNameError(f"domain {domain.decode()!r}: {error}") from None

    def finalize(self, *, engine: str | None = None) -> Session:
        """Makes the session of the edited model, with its new inputs and outputs, and ends the edit.

        Where ONNX Runtime's model editor supports all additions, they are applied to the model that is already loaded;
        else the edited model is loaded anew. `engine` is as for `session`. After an error the edit stays open, unless
        it is one of ONNX Runtime's in its editor.
        """
        handle: Any = self._open()
        return claimed(self._busy, "GraphEdit", self._finalize, handle, engine)

    def _finalize(self, handle: SessionHandle, wanted: str | None) -> Session:
        self._open()
        self._check_files()
        model = Graph._finished(self)
        if not model.graph.output:
            raise ModelError(f"graph {self.name!r} has no outputs")
        engine = Engine.because(self._reasons(model)).insisted(wanted)
        if engine.name == EDITOR:
            session = self._apply(handle, model)
        else:
            options = self._options or SessionOptions()
            lent = {*self._borrowed, *options.initializers}
            model_proto.load_weights(model, self._subject, self._folder, lent, options.external_initializer_files)
            session = make(model, self._borrowed, engine.name, options, self._selection, False, ())
            self.close()
        session._metadata = self.metadata
        return session

    def _reasons(self, model: Any) -> Iterator[str]:
        """The reasons why the model editor does not support the additions."""
        graph = model.graph
        inputs, outputs = self._changed(graph)
        new = graph.initializer[self._base_initializers :]
        if self._options is not None:
            yield from weights_given(self._options)
            if self._options.optimized_model_filepath:
                yield UNDESCRIBED
        yield from refusals(model, self._added(), new, (*inputs, *outputs), self._base_names)
        if self._base_inputs and not graph.input:
            yield "all inputs were removed"
        # The edit's own graph: in the model all outputs have types, also those that had none when the edit began.
        for before, now in ((self._base_inputs, self._graph.input), (self._base_outputs, self._graph.output)):
            for info in now:
                if before.get(info.name, info) != info:
                    yield f"{info.name!r} has another type or shape than in the model"
        for domain, version in self.opsets.items():
            own = None if domain in self._base_domains else self._session_opset(domain)
            if own not in (None, version):
                yield f"domain {domain!r} is of another opset in ONNX Runtime: {own}"
        constants = {tensor.name for tensor in graph.initializer}
        for info in inputs:
            if info.name in constants:
                yield f"input {info.name!r} may override an initializer"
        if len(graph.value_info) > self._base_infos:
            yield "types of intermediate values were declared"

    def _session_opset(self, domain: str) -> int | None:
        """The version of a domain in the session, which ONNX Runtime cannot change; None where it has none."""
        if self._handle is None:
            return None
        with suppress(UnknownNameError):
            return self._ask_opset(self._handle, domain.encode())
        return None

    def _added(self) -> Any:
        return self._graph.node[self._base_nodes :]

    def _changed(self, graph: Any) -> tuple[list[Any], list[Any]]:
        """All inputs if the edit changed them, else none; the same for the outputs."""
        same_inputs = [info.name for info in graph.input] == list(self._base_inputs)
        same_outputs = [info.name for info in graph.output] == list(self._base_outputs)
        return ([] if same_inputs else list(graph.input)), ([] if same_outputs else list(graph.output))

    def _apply(self, handle: SessionHandle, model: Any) -> Session:
        editor, settings = editor_api(), self._settings
        assembly = Assembly()
        inputs, outputs = self._changed(model.graph)
        weights = model.graph.initializer[self._base_initializers :]
        lenders = assembly.fill(inputs, outputs, weights, self._borrowed, self._added())
        additions = assembly.model(self.opsets)
        # The calls below change the session: the edit cannot be continued, even after an error.
        self.close()
        self._lenders.extend(lenders)
        container = None if self._options is None else caller_weights.container_of(self._options)
        if container is not None:
            self._lenders.append(container)
        shared = NULL if container is None else container.pointer
        with self._selection.loading(settings) as kept:
            self._lenders.append(kept)
            with named(settings, self._subject), callback_errors.Load() as load:
                status.check(editor.ApplyModelToModelEditorSession(handle.pointer, additions))
                status.check(editor.FinalizeModelEditorSession(handle.pointer, settings.pointer, shared))
            self._kernels |= load.kept
        return Session._owning(handle, self._selection)

    @property
    def engine(self) -> Engine:
        """The engine that `finalize` uses, and the reasons against ONNX Runtime's model editor."""
        model = Graph._finished(self)
        return claimed(self._busy, "GraphEdit", lambda: Engine.because(self._reasons(model)))

    def _change(self) -> None:
        self._open()

    def _opset(self, domain: str, subject: str) -> int:
        if domain not in self.opsets:
            # ONNX Runtime adds domains of its own to every model.
            with suppress(UnknownNameError):
                self.import_opset(domain, self.opset(domain))
        return super()._opset(domain, subject)

    def _check_files(self) -> None:
        """Raises a `ModelError` for a file of weights that was written or replaced since the edit began."""
        for path, before in self._files.items():
            if identity(path) != before:
                raise ModelError(f"{self._subject}: its file of weights {path!r} has changed since the edit began")

    def _finished(self) -> Any:
        self._check_files()
        model = super()._finished()
        model_proto.load_weights(model, self._subject, self._folder, self._borrowed)
        return model

    def _read_files(self) -> Iterable[str]:
        return self._files

    def __repr__(self) -> str:
        return "GraphEdit(closed)" if self.closed else Graph.__repr__(self)


def _open_session(source: Source, settings: PoolOptions, lenders: list[Handle], kernels: set[object]) -> SessionHandle:
    """The ``OrtSession`` of a model, open for additions."""
    editor = editor_api()
    environment = current().pointer
    data = data_of(source, settings)
    if data is None:
        create = editor.CreateModelEditorSession
        model: tuple[Any, ...] = (source.path,)
    else:
        create, model = editor.CreateModelEditorSessionFromArray, (data, sizeof(data))
    with named(settings, source.subject), callback_errors.Load() as load:
        parents = [settings, Handle.pin(lenders)]
        handle = make_session(
            settings, source.subject, parents, (kernels,), create, environment, *model, settings.pointer
        )
    kernels |= load.kept
    return handle


@public
def edit(
    model: Model,
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    *,
    external_data_dir: str | os.PathLike[str] | None = None,
) -> GraphEdit:
    """Opens an existing model to add operators, inputs and outputs to it; see `GraphEdit`.

    The arguments are `Session`'s; `finalize` makes its session with them.
    """
    return GraphEdit(model, options, providers, external_data_dir=external_data_dir)


def tapped(
    model: Model,
    names: Sequence[str],
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    external_data_dir: str | os.PathLike[str] | None = None,
) -> Session:
    """A session of the model in which the values `names` are outputs too."""
    if options is not None:
        options = replace(options, **_OTHER_WORK)
    with edit(model, options, providers, external_data_dir=external_data_dir) as editing:
        own = {info.name for info in editing._graph.output}
        for name in dict.fromkeys(names):
            if name not in own:
                editing.output(editing.value(name))
        return editing.finalize()
