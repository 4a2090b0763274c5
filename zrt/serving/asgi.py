"""`Application`: models behind an ASGI interface, which are loaded when the server starts."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from zrt._common import installation
from zrt._common.arguments import absolute, path_bytes, require_type, shown, wrong_type
from zrt._common.public import public_in
from zrt.errors import ArgumentError
from zrt.loading.model_source import Model
from zrt.serving.settings import Settings
from zrt.session.session import Session
from zrt.session.spec import SessionSpec

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from zrt.serving.loaded import Loaded

Served: TypeAlias = "SessionSpec | Session | Model"
Versions: TypeAlias = "dict[str, SessionSpec | Session]"
Scope: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[MutableMapping[str, Any]]]"
Send: TypeAlias = "Callable[[MutableMapping[str, Any]], Awaitable[None]]"

# The packages that every server needs; uvicorn is one of several servers.
NEEDED = ("starlette", "prometheus_client")

ONLY_VERSION = "1"


@public_in("zrt.serving")
class Application:
    """An ASGI application that answers requests of the Open Inference Protocol; `application` makes one.

    It is plain data until `load`, which a server calls when it starts: it may be pickled and sent to another process if
    no model was given as a `Session`.
    """

    def __init__(self, models: dict[str, Versions], settings: Settings) -> None:
        self._models = models
        self._settings = settings
        # A signal handler may call `close` while its own thread loads.
        self._lock = threading.RLock()
        self._loaded: Loaded | None = None
        self._routes: Starlette | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(self._models)

    @property
    def ready(self) -> bool:
        """Whether the models are loaded, and requests are taken."""
        return self._loaded is not None and not self._loaded.closed

    @property
    def capacity(self) -> int:
        """The most requests that it holds at the same time: those that wait, and those in shared runs."""
        settings = self._settings
        return sum(map(len, self._models.values())) * (settings.max_queue + settings.lanes * settings.max_batch)

    def load(self) -> None:
        """Loads the models now, and starts their threads; a second call does nothing.

        A server does this when it starts. Raises the errors of `Session`, `UnsupportedError` for a model with an input
        that the protocol does not have, and `ArgumentError` where `PROMETHEUS_MULTIPROC_DIR` is no folder.
        """
        self._load()

    def _load(self) -> Loaded:
        from zrt.serving.loaded import Loaded

        with self._lock:
            if self._loaded is None or self._loaded.closed:
                _with_models.add(self)
                self._loaded = Loaded(self._models, self._settings)
            return self._loaded

    def close(self) -> None:
        """Refuses further requests, and returns when those that were taken are answered; closing twice is fine.

        A server does this when it ends. The sessions stay open.
        """
        with self._lock:
            if self._loaded is not None:
                self._loaded.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of an ASGI server."""
        if self._routes is None:
            from zrt.serving import routes

            self._routes = routes.make(self)
        await self._routes(scope, receive, send)

    def __reduce__(self) -> tuple[Any, ...]:
        return Application, (self._models, self._settings)

    def __repr__(self) -> str:
        return f"Application({', '.join(self._models)})"


@public_in("zrt.serving")
def application(
    models: Mapping[str, Served | Mapping[str, Served]],
    *,
    max_batch: int = 1,
    max_wait: int = 0,
    lanes: int = 2,
    max_queue: int = 256,
    max_body: int = 64 << 20,
    timeout: float | None = None,
    record: str | os.PathLike[str] | None = None,
    slower_than: float | None = None,
) -> Application:
    """An ASGI application that serves models by the Open Inference Protocol.

    `models` gives a model for each name: a `SessionSpec`, a model that `Session` takes (a path, bytes or an
    ``onnx.ModelProto``), or a `Session`, which stays the caller's. Instead of one model there may be a dict of
    versions; requests without a version get the last of them.

    With a `max_batch` above 1, requests of a model whose first axis is open in every input and output share runs of at
    most that many rows. A request waits at most `max_wait` microseconds for others to share its run. `lanes` is the
    number of runs of a model at the same time.

    At most `max_queue` requests of a model wait; further ones are refused (status 503). A body has at most `max_body`
    bytes (413). A request that has no answer after `timeout` seconds is refused (504); a request may ask for less.

    `record` names a folder: each run that fails, or that takes longer than `slower_than` seconds, leaves a capsule
    there without its feeds, see `Session.record`.

    Raises `UnsupportedError` if starlette or prometheus-client is missing: ``pip install "zrt-onnx[serve]"``. The
    models are loaded by `Application.load`, or when the server starts.
    """
    require_type(models, Mapping, "models", "a dict of models by name")
    if not models:
        raise ArgumentError("models: there are none")
    sources = {_model_name(name): _versions(name, source) for name, source in models.items()}
    # Its processes, and those of a cluster, may have other current folders.
    folder = None if record is None else absolute(os.fsdecode(path_bytes(record, "record")))
    if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
        raise ArgumentError(f"record: {folder!r} is no folder")
    settings = Settings(max_batch, max_wait, lanes, max_queue, max_body, timeout, folder, slower_than)
    for package in NEEDED:
        installation.require(package, "serve", "serving")
    return Application(sources, settings)


def _versions(name: str, source: Any) -> Versions:
    if not isinstance(source, Mapping):
        return {ONLY_VERSION: _source(source)}
    if not source:
        raise ArgumentError(f"models[{name!r}]: there are no versions")
    return {_name(version, f"models[{name!r}]"): _source(one) for version, one in source.items()}


def _source(source: Any) -> SessionSpec | Session:
    return source if isinstance(source, (SessionSpec, Session)) else SessionSpec(source)


def _name(name: Any, subject: str) -> str:
    if not isinstance(name, str):
        raise wrong_type(subject, "names", name)
    if not name or "/" in name or not name.isprintable():
        raise ArgumentError(f"{subject}: {shown(name)} cannot be a part of an address")
    return name


def _model_name(name: Any) -> str:
    if name == "stats":
        raise ArgumentError(f"models: {name!r} is the address of the statistics of all models")
    return _name(name, "models")


# The applications of this process that have loaded models.
_with_models: WeakSet[Application] = WeakSet()


def _forked() -> None:
    """The child has no threads that would run the requests: there an application loads its models anew."""
    for each in _with_models:
        each._lock = threading.RLock()
        each._loaded = None
    _with_models.clear()


os.register_at_fork(after_in_child=_forked)
