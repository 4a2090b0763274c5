"""`Options`: the contents of a file of options; `load_options` reads one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from zrt._common.arguments import path_bytes, require_type, text
from zrt._common.public import public
from zrt._common.serialization import OptionData, checked, require_keys
from zrt._native import status
from zrt.errors import ArgumentError, DTypeError, FileError
from zrt.loading.run_options import RunOptions
from zrt.loading.session_options import SessionOptions
from zrt.providers import Provider, ProviderLike, known


@public
@dataclass(kw_only=True, slots=True)
class Options(OptionData):
    """The options of a session, of its runs, and its providers, as one document.

    `session` and `providers` are what `Session` takes; `providers` is None where the document names none.
    """

    session: SessionOptions = field(default_factory=SessionOptions)
    """The session's options."""
    run: RunOptions | None = None
    """The runs' options; None where the document has none."""
    providers: list[ProviderLike] | None = None
    """The providers, best first."""

    def to_dict(self) -> dict[str, Any]:
        """The document: "session", "run", and "providers" with a "name" and "options" each.

        The options of a (name, options) pair are written as those of the class in `zrt.providers`, where there is one.
        """
        require_type(self.session, SessionOptions, "session", "SessionOptions")
        document: dict[str, Any] = {"session": self.session.to_dict()}
        if RunOptions.opened(self.run) is not None and self.run is not None:
            document["run"] = self.run.to_dict()
        if self.providers is not None:
            require_type(self.providers, (list, tuple), "providers", "a list")
            document["providers"] = [_entry(one, index) for index, one in enumerate(self.providers)]
        return document

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The options of a document. An error names the place in it; see `OptionData.from_dict`."""
        require_keys(data, dict.fromkeys(("session", "run", "providers")), "options")
        options = cls(session=SessionOptions.from_dict(data.get("session", {})))
        if "run" in data:
            options.run = RunOptions.from_dict(data["run"])
        if "providers" in data:
            tables = data["providers"]
            require_type(tables, list, "providers", "a list")
            options.providers = [_provider(entry, f"providers[{index}]") for index, entry in enumerate(tables)]
        return options


@public
def load_options(path: str | os.PathLike[str]) -> Options:
    """The options in a file, JSON or TOML by its suffix.

    Raises `FileError` where the file cannot be read, and the errors of `Options.from_dict`, which then name the file.
    """
    file = Path(os.fsdecode(path_bytes(path, "path")))
    readers = {".json": Options.from_json, ".toml": Options.from_toml}
    read = readers.get(file.suffix.lower())
    if read is None:
        raise ArgumentError(f"options file {str(file)!r}: its name should end in .json or .toml")
    try:
        document = file.read_text("utf-8")
    except OSError as error:
        raise FileError(f"options file {str(file)!r}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ArgumentError(f"options file {str(file)!r}: this is not UTF-8: {error}") from None
    with status.named(f"options file {str(file)!r}"):
        return read(document)


def _entry(provider: ProviderLike, index: int) -> dict[str, Any]:
    """A provider of the list as a table of the document."""
    if isinstance(provider, Provider):
        return {"name": provider.name, "options": provider.to_dict()}
    if isinstance(provider, str):
        return {"name": provider}
    if isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[0], str):
        name, options = provider
        typed = _provider({"name": name, "options": options}, f"providers[{index}]")
        return _entry(typed, index) if isinstance(typed, Provider) else {"name": name, "options": options}
    raise DTypeError(f"providers[{index}]: {provider!r} is neither a provider, a name nor a (name, options) pair")


def _provider(entry: Any, subject: str) -> ProviderLike:
    """A provider from its table: a name, a typed provider, or a pair where it has no class."""
    require_keys(entry, dict.fromkeys(("name", "options")), subject)
    if "name" not in entry:
        raise ArgumentError(f"{subject}: its name is missing")
    name = text(entry["name"], f"{subject}: name").decode()
    if "options" not in entry:
        return name
    kind = known.kind_of(name)
    with status.named(f"{subject} {name!r}"):
        if kind is not None:
            return kind.from_dict(entry["options"])
        return name, checked(entry["options"], Mapping[str, str | int | float | bool], "options")
