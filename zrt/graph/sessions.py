"""Makes the session of a graph, through ONNX Runtime's model editor or through the model's bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from zrt._native import callback_errors, status
from zrt._native.session_handle import SessionHandle
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import CallbackError, Error
from zrt.graph.editor import Assembly, Borrowed, editor_api
from zrt.graph.engine import EDITOR, Engine
from zrt.loading import model_source
from zrt.loading.load import load_model, make_session, prepare_options, settle_threads
from zrt.loading.session_options import SessionOptions
from zrt.providers.default_selection import parse
from zrt.providers.node_assignment import Strictness
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session


def make(
    model: Any,
    borrowed: Borrowed,
    wanted: str | None,
    options: SessionOptions | None,
    providers: ProvidersLike,
    strict: bool,
    allow: Iterable[str],
) -> Session:
    selection = parse(providers)
    strictness = Strictness.of(strict, allow, selection.asked())
    settings = prepare_options(options, selection)
    strictness.record(settings)
    subject = f"graph {model.graph.name!r}"
    engine = Engine.of(model, options).insisted(wanted)
    create = _through_editor if engine.name == EDITOR else _through_bytes
    with selection.loading(settings) as kept:
        handle = create(model, borrowed, settings, options or SessionOptions(), subject).holding(kept)
    strictness.check(handle, subject)
    return Session._owning(handle, selection)


@contextmanager
def named(settings: PoolOptions, subject: str) -> Iterator[None]:
    """Names the subject of a load in its errors, and ends the making of the session's threads after one."""
    try:
        yield
    except Error as error:
        settle_threads(settings, subject)
        if isinstance(error, CallbackError):
            # Its direct cause is the exception that the caller's own code raised.
            raise
        raise status.about(subject, error) from error


def _through_editor(
    model: Any, borrowed: Borrowed, settings: PoolOptions, options: SessionOptions, subject: str
) -> SessionHandle:
    with named(settings, subject):
        assembly, graph = Assembly(), model.graph
        lenders = assembly.fill(graph.input, graph.output, graph.initializer, borrowed, graph.node)
        source = assembly.model({entry.domain: entry.version for entry in model.opset_import})
        create = editor_api().CreateSessionFromModel
        with callback_errors.Load() as load:
            parents = [settings, *lenders]
            return make_session(
                settings, subject, parents, (load.kept,), create, current().pointer, source, settings.pointer
            )


def _through_bytes(
    model: Any, borrowed: Borrowed, settings: PoolOptions, options: SessionOptions, subject: str
) -> SessionHandle:
    if borrowed:
        # The model does not hold the borrowed weights: pass them with the options.
        options = replace(options, initializers={**options.initializers, **borrowed})
    with model_source.Source(model) as source:
        source.subject = subject
        session: SessionHandle = load_model(source, settings, options)
        return session
