"""`SessionSpec`: the recipe of a session as plain data, for other threads, processes and machines."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from zrt._common.arguments import boolean, choose, path_bytes, text, wrong_type
from zrt._common.public import guarded, public
from zrt.errors import ArgumentError, BusyError, UnsupportedError
from zrt.loading.model_source import Model, plain_model
from zrt.loading.session_options import SessionOptions
from zrt.providers.choice import as_data
from zrt.providers.known import kind_of
from zrt.providers.selection import DevicePolicy, is_device
from zrt.session.session import Session

if TYPE_CHECKING:
    from zrt.providers.selection import ProvidersLike


_Providers: TypeAlias = "tuple[tuple[str, tuple[tuple[str, str], ...]], ...]"


class _Content(NamedTuple):
    """All that a recipe says, in types that compare and hash by content."""

    model: str | bytes
    options: str
    """The session's options as JSON."""
    providers: _Providers | str | None
    """The providers with their options, or the name of a policy."""
    external_data_dir: str | None
    strict: bool
    allow: tuple[str, ...]


class _Load:
    """A load whose result all threads of the process get; neither `session` nor `error` is set until it ends."""

    __slots__ = ("error", "loading", "lock", "session")

    def __init__(self) -> None:
        # An interrupt cannot leave it locked, and the thread that waits next loads in place of an interrupted one.
        self.lock = threading.RLock()
        self.loading = False
        self.session: Session | None = None
        self.error: Exception | None = None

    def gone(self) -> bool:
        """Whether it failed, or its session was closed: the next call loads again."""
        return self.error is not None or (self.session is not None and self.session.closed)


# The loads of `SessionSpec.shared` in this process, by content.
_loads: dict[_Content, _Load] = {}
_lock = threading.RLock()


@public
@guarded
class SessionSpec:
    """The recipe of a session: plain data that can be pickled, compared and hashed, and never changes.

    The arguments are those of `Session`. `model` by path stands for the file of that name on the machine that loads
    it; bytes and an ``onnx.ModelProto`` are copied. `providers` are named: providers, names, pairs of name and options,
    or a `DevicePolicy`. Paths to read are made absolute. Nothing is loaded or looked up here, so a machine that lacks
    the model or the provider can make the recipe for another that has them.

    Raises `UnsupportedError` for an option that is not data (weights in memory, custom operators in Python, a thread
    factory, a device, a function), and names it.
    """

    __slots__ = ("__weakref__", "_content")

    _content: _Content

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
        if not source:
            raise ArgumentError("model: the path is empty")
        if options is not None and not isinstance(options, SessionOptions):
            raise wrong_type("options", "SessionOptions", options)
        given = options or SessionOptions()
        # Wrong values are refused here and not by another process.
        given._check()
        settings = given.to_dict()
        settings["custom_op_libraries"] = [os.path.abspath(file) for file in settings["custom_op_libraries"]]
        operators = _operators(allow)
        object.__setattr__(
            self,
            "_content",
            _Content(
                os.path.abspath(source) if isinstance(source, str) else source,
                json.dumps(settings, sort_keys=True),
                providers.name if isinstance(providers, DevicePolicy) else _as_data(providers),
                None if external_data_dir is None else _absolute(external_data_dir, "external_data_dir"),
                boolean(strict, "strict"),
                operators,
            ),
        )

    @property
    def model(self) -> str | bytes:
        """The model's absolute path, or its bytes."""
        return self._content.model

    @property
    def options(self) -> SessionOptions:
        """The session's options; each read returns a new object."""
        return SessionOptions.from_json(self._content.options)

    @property
    def providers(self) -> list[tuple[str, dict[str, str]]] | DevicePolicy | None:
        """The providers, best first, each with its options by ORT's keys, or the policy; None means the CPU alone."""
        providers = self._content.providers
        if isinstance(providers, str):
            return DevicePolicy[providers]
        return None if providers is None else [(name, dict(settings)) for name, settings in providers]

    @property
    def external_data_dir(self) -> str | None:
        """The absolute path of the folder with the external weights; None means beside the model."""
        return self._content.external_data_dir

    @property
    def strict(self) -> bool:
        """Whether a node that would fall back to the CPU is an error."""
        return self._content.strict

    @property
    def allow(self) -> tuple[str, ...]:
        """The operators that `strict` exempts, sorted."""
        return self._content.allow

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
        load = _loads.get(self._content)
        if load is None or load.gone():
            with _lock:
                load = _loads.get(self._content)
                if load is None or load.gone():
                    load = _loads[self._content] = _Load()
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

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a SessionSpec does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a SessionSpec does not change: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, SessionSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, tuple(self._content)

    def __repr__(self) -> str:
        model = repr(self.model) if isinstance(self.model, str) else f"<{len(self.model)} bytes>"
        given = {
            **_changed(self.options, SessionOptions()),
            "providers": self.providers,
            "external_data_dir": self.external_data_dir,
            "strict": self.strict or None,
            "allow": self.allow or None,
        }
        shown = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return f"SessionSpec({', '.join([model, *shown])})"


def _restored(*content: Any) -> SessionSpec:
    """The recipe of a pickle of any version of zrt. Raises for a part that this version does not know."""
    if len(content) != len(_Content._fields):
        raise ArgumentError(f"SessionSpec: this recipe has {len(content)} parts, not {len(_Content._fields)}")
    model, options, providers, external_data_dir, strict, allow = content
    if not isinstance(options, str):
        raise wrong_type("options", "JSON", options)
    SessionOptions.from_json(options)
    if isinstance(providers, str):
        providers = choose(DevicePolicy, providers, "providers: policy").name
    elif providers is not None:
        try:
            pairs = [(name, dict(settings)) for name, settings in providers]
        except (TypeError, ValueError):
            raise wrong_type("providers", "pairs of a name and its options", providers) from None
        providers = _as_data(pairs)
    checked = _Content(
        plain_model(model),
        options,
        providers,
        None if external_data_dir is None else os.fsdecode(path_bytes(external_data_dir, "external_data_dir")),
        boolean(strict, "strict"),
        _operators(allow),
    )
    spec = SessionSpec.__new__(SessionSpec)
    object.__setattr__(spec, "_content", checked)
    return spec


def _operators(allow: Any) -> tuple[str, ...]:
    """The operators that `strict` exempts, sorted."""
    if isinstance(allow, (str, bytes)) or not isinstance(allow, Iterable):
        raise wrong_type("allow", "a list of operators", allow)
    return tuple(sorted({text(operator, "allow").decode() for operator in allow}))


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
        for key, (field, option) in kind.by_key().items() if kind else ():
            if option.is_address and key in settings:
                raise UnsupportedError(f"providers[{index}].{field}: an address is valid in this process only")
        written.append((name, tuple(sorted(settings.items()))))
    return tuple(written)


def _known_name(name: str) -> str:
    """The full name of a provider that zrt knows; any other name as it is."""
    kind = kind_of(name)
    return name if kind is None else kind.name


def _changed(options: SessionOptions, default: SessionOptions) -> dict[str, Any]:
    """The data of the options that are not the default's."""
    before = default.to_dict()
    return {name: value for name, value in options.to_dict().items() if before.get(name) != value}


def _absolute(path: str | os.PathLike[str], subject: str) -> str:
    return os.path.abspath(os.fsdecode(path_bytes(path, subject)))


def _forked() -> None:
    # The sessions are the parent's, and another thread may have held the lock.
    global _lock
    _lock = threading.RLock()
    _loads.clear()


os.register_at_fork(after_in_child=_forked)
