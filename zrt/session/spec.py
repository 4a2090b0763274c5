"""`SessionSpec`: the recipe of a session as plain data, for other threads, processes and machines."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from zrt._common.arguments import absolute, boolean, choose, path_bytes, require_type, texts, wrong_type
from zrt._common.fork_lock import ForkLock
from zrt._common.public import guarded, public
from zrt._native.library_files import is_found_by_loader
from zrt.errors import ArgumentError, BusyError, UnsupportedError
from zrt.loading.model_source import Model, plain_model
from zrt.loading.session_options import SessionOptions, cache_folder
from zrt.providers.known import kind_of
from zrt.providers.selection import DevicePolicy, ProvidersLike, as_data, is_device
from zrt.session.session import Session

_Providers: TypeAlias = "tuple[tuple[str, tuple[tuple[str, str], ...]], ...]"


@dataclass(slots=True, eq=False)
class _Load:
    """A load whose result all threads of the process get; neither `session` nor `error` is set until it ends."""

    # An interrupt cannot leave it locked, and the thread that waits next loads in place of an interrupted one.
    lock: threading.RLock = field(default_factory=threading.RLock)
    loading: bool = False
    session: Session | None = None
    error: Exception | None = None

    def gone(self) -> bool:
        """Whether it failed, or its session was closed: the next call loads again."""
        return self.error is not None or (self.session is not None and self.session.closed)


@public
@guarded
@dataclass(frozen=True, init=False, repr=False, slots=True, weakref_slot=True)
class SessionSpec:
    """The recipe of a session: plain data that can be pickled, compared and hashed, and never changes.

    The arguments are those of `Session`. `model` by path stands for the file of that name on the machine that loads
    it; bytes and an ``onnx.ModelProto`` are copied. `providers` are named: providers, names, pairs of name and options,
    or a `DevicePolicy`. Paths to read are made absolute. Nothing is loaded or looked up here, so a machine that lacks
    the model or the provider can make the recipe for another that has them.

    Raises `UnsupportedError` for an option that is not data (weights in memory, custom operators in Python, a thread
    factory, a device, a function), and names it.
    """

    model: str | bytes
    """The model's absolute path, or its bytes."""
    _options: str
    """The session's options as JSON."""
    _providers: _Providers | str | None
    """The providers with their options, or the name of a policy."""
    external_data_dir: str | None
    """The absolute path of the folder with the external weights; None means beside the model."""
    strict: bool
    """Whether a node that would fall back to the CPU is an error."""
    allow: tuple[str, ...]
    """The operators that `strict` exempts, sorted."""

    def __init__(
        self,
        model: Model,
        options: SessionOptions | None = None,
        providers: ProvidersLike = None,
        *,
        external_data_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        allow: Iterable[str] = (),
    ) -> None:
        import json

        source = plain_model(model)
        require_type(options, SessionOptions | None, "options", "SessionOptions")
        chosen = options or SessionOptions()
        # Wrong values are refused here and not by another process.
        chosen._check()
        settings = chosen.to_dict()
        settings["trusted_folders"] = [_placed(path, "trusted_folders") for path in settings["trusted_folders"]]
        libraries = settings["custom_op_libraries"]
        settings["custom_op_libraries"] = [file if is_found_by_loader(file) else absolute(file) for file in libraries]
        if isinstance(settings.get("cache"), str):
            settings["cache"] = absolute(cache_folder(settings["cache"]))
        if external_data_dir is not None:
            folder = os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))
            external_data_dir = _placed(folder, "external_data_dir")
        content = (
            _placed(source, "model") if isinstance(source, str) else source,
            json.dumps(settings, sort_keys=True),
            providers.name if isinstance(providers, DevicePolicy) else _as_data(providers),
            external_data_dir,
            boolean(strict, "strict"),
            tuple(sorted(set(texts(allow, "allow", "a list of operators", Iterable)))),
        )
        for item, value in zip(fields(self), content, strict=True):
            object.__setattr__(self, item.name, value)

    @property
    def options(self) -> SessionOptions:
        """The session's options; each read returns a new object."""
        return SessionOptions.from_json(self._options)

    @property
    def providers(self) -> list[tuple[str, dict[str, str]]] | DevicePolicy | None:
        """The providers, best first, each with its options by ORT's keys, or the policy; None means the CPU alone."""
        providers = self._providers
        if isinstance(providers, str):
            return DevicePolicy[providers]
        return None if providers is None else [(name, dict(settings)) for name, settings in providers]

    def load(self) -> Session:
        """A new session. Raises the errors of `Session`."""
        return Session(
            self.model,
            self.options,
            self.providers,
            external_data_dir=self.external_data_dir,
            strict=self.strict,
            allow=self.allow,
        )

    def shared(self) -> Session:
        """The session of this process for all equal recipes; the first call loads it.

        Any number of threads may call this at once: one loads, the others wait. A failed load raises its error in all
        threads that waited, and the next call loads again. The process keeps the session until somebody closes it; it
        is then closed for all, and the next call loads another. A forked child has sessions of its own.

        Raises `BusyError` in a signal handler that interrupted the load of the same session.
        """
        load = _loads.get(self)
        if load is None or load.gone():
            with _lock.now:
                load = _loads.get(self)
                if load is None or load.gone():
                    load = _loads[self] = _Load()
        if load.session is None:
            with load.lock:
                if load.loading:
                    raise BusyError("this thread is loading the shared session: the call interrupted the load")
                if load.session is None and load.error is None:
                    self._load_into(load)
        if load.error is not None:
            raise load.error
        assert load.session is not None
        return load.session

    def _load_into(self, load: _Load) -> None:
        load.loading = True
        try:
            load.session = self.load()
        except Exception as error:
            load.error = error
        finally:
            load.loading = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, tuple(getattr(self, item.name) for item in fields(self))

    def __repr__(self) -> str:
        model = repr(self.model) if isinstance(self.model, str) else f"<{len(self.model)} bytes>"
        arguments = {
            **self.options._changes(),
            "providers": self.providers,
            "external_data_dir": self.external_data_dir,
            "strict": self.strict or None,
            "allow": self.allow or None,
        }
        shown = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
        return f"SessionSpec({', '.join([model, *shown])})"


# The loads of `SessionSpec.shared` in this process. A forked child has none of the parent's.
_loads: dict[SessionSpec, _Load] = {}
_lock = ForkLock()
os.register_at_fork(after_in_child=_loads.clear)


def _restored(*content: Any) -> SessionSpec:
    """The recipe of a pickle of any version of zrt. Raises for a part that this version does not know."""
    if len(content) != len(fields(SessionSpec)):
        raise ArgumentError(f"SessionSpec: this recipe has {len(content)} parts, not {len(fields(SessionSpec))}")
    model, options, providers, external_data_dir, strict, allow = content
    if isinstance(providers, str):
        providers = choose(DevicePolicy, providers, "providers: policy")
    elif providers is not None:
        try:
            providers = [(name, dict(settings)) for name, settings in providers]
        except (TypeError, ValueError):
            raise wrong_type("providers", "pairs of a name and its options", providers) from None
    settings = SessionOptions.from_json(options)
    return SessionSpec(model, settings, providers, external_data_dir=external_data_dir, strict=strict, allow=allow)


def _as_data(providers: Any) -> _Providers | None:
    """Providers in a form in which those that mean the same are equal; raises where one is not data."""
    if providers is None:
        return None
    if callable(providers) and not isinstance(providers, type):
        raise UnsupportedError("providers: a function cannot be written as data")
    if isinstance(providers, (str, Mapping)) or not isinstance(providers, Iterable):
        raise wrong_type("providers", "a list", providers)
    written = []
    for index, one in enumerate(providers):
        if is_device(one):
            raise UnsupportedError(f"providers[{index}]: a device cannot be written as data: give its provider's name")
        name, settings = as_data(one, _known_name)
        kind = kind_of(name)
        for key, (member, option) in kind.by_key().items() if kind else ():
            if option.is_address and key in settings:
                raise UnsupportedError(f"providers[{index}].{member}: an address is valid in this process only")
        written.append((name, tuple(sorted(settings.items()))))
    return tuple(written)


def _placed(path: str, subject: str) -> str:
    """The absolute path; an empty one would become that of the current folder."""
    if not path:
        raise ArgumentError(f"{subject}: the path is empty")
    return absolute(path)


def _known_name(name: str) -> str:
    """The full name of a provider that zrt knows; any other name as it is."""
    kind = kind_of(name)
    return name if kind is None else kind.name
