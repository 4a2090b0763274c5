"""Compares the interface of the official package with that of zrt's, name by name and argument by argument."""

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OFFICIAL = "onnxruntime"
OURS = "zrt.onnxruntime"

VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# Of pybind11 and of Python itself, in every class.
IGNORED = {
    "__abstractmethods__",
    "__annotations__",
    "__dict__",
    "__doc__",
    "__entries",
    "__init__",
    "__module__",
    "__new__",
    "__slotnames__",
    "__static_attributes__",
    "__firstlineno__",
    "__weakref__",
}


@dataclass(frozen=True)
class Parameter:
    """An argument: its name, None where only its position counts, and the text of its default, if it has one."""

    name: str | None
    default: str | None = None
    variable: bool = False


def documented(doc: str | None, name: str) -> list[list[Parameter]]:
    """The arguments in each signature that pybind11 wrote into a docstring."""
    signatures = re.findall(rf"^(?:\d+\. )?{re.escape(name)}\((.*)\) -> ", doc or "", re.MULTILINE)
    return [[_parameter(part) for part in _split(text)] for text in signatures]


def _split(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets."""
    parts, depth = [""], 0
    for character in text.replace("->", ""):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip() not in ("", "/")]


def _parameter(text: str) -> Parameter:
    declared, _, default = text.partition(" = ")
    name = declared.partition(":")[0]
    return Parameter(None if re.fullmatch(r"arg\d+", name) else name, default or None)


def _shown(default: Any) -> str | None:
    """A default without the name of the package that its class is in."""
    if default is inspect.Parameter.empty:
        return None
    return re.sub(r"\bzrt\.onnxruntime\b[\w.]*|\bonnxruntime\b[\w.]*", "", repr(default))


def inspected(function: Any) -> list[Parameter]:
    """The arguments of a function of Python."""
    return [
        Parameter(
            None if each.kind is each.POSITIONAL_ONLY else each.name,
            _shown(each.default),
            each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD),
        )
        for each in inspect.signature(function).parameters.values()
    ]


def signatures(function: Any, name: str, method: bool) -> list[list[Parameter]]:
    """The arguments of each overload; none where nothing tells them."""
    of_python = isinstance(function, types.FunctionType)
    signatures = [inspected(function)] if of_python else documented(function.__doc__, name)
    return [parameters[1:] if method else parameters for parameters in signatures]


def compared(label: str, theirs: list[Parameter], ours: Any, method: bool, any_keyword: bool = False) -> Iterator[str]:
    """The arguments that our function does not take as theirs does.

    With `any_keyword` it takes the names of all arguments if it has ``**keywords``.
    """
    parameters = inspect.signature(ours).parameters
    known = dict(list(parameters.items())[1:] if method else parameters)
    if not theirs and any(each.default is each.empty and each.kind not in VARIABLE for each in known.values()):
        yield f"{label}()"
    any_keyword = any_keyword and any(each.kind is each.VAR_KEYWORD for each in known.values())
    any_position = any(each.kind is each.VAR_POSITIONAL for each in known.values())
    positions = [each for each in known.values() if each.kind not in (each.KEYWORD_ONLY, *VARIABLE)]
    for index, wanted in enumerate(theirs):
        if wanted.name is None:
            if index >= len(positions) and not any_position:
                yield f"{label}(argument {index})"
            continue
        mine = known.get(wanted.name)
        if any_keyword:
            continue
        if mine is None or (mine.kind is mine.POSITIONAL_ONLY):
            yield f"{label}({wanted.name})"
        elif not wanted.variable and _shown(mine.default) != wanted.default:
            yield f"{label}({wanted.name}={wanted.default})"
    required = sum(wanted.default is None and not wanted.variable for wanted in theirs)
    if sum(each.default is each.empty for each in positions) > max(required, len(theirs)):
        yield f"{label}(fewer arguments)"


def missing_in_class(label: str, theirs: type, ours: Any) -> Iterator[str]:
    """The members of a class that ours lacks or that take other arguments."""
    if not isinstance(ours, type):
        yield label
        return
    if issubclass(theirs, BaseException):
        if [each.__name__ for each in theirs.__mro__] != [each.__name__ for each in ours.__mro__]:
            yield f"{label}: bases"
        return
    yield from _missing_in_constructor(label, theirs, ours)
    for name, member in members(theirs).items():
        where = f"{label}.{name}"
        mine = inspect.getattr_static(ours, name, None)
        if mine is None and not hasattr(ours, name):
            yield where
        elif isinstance(member, theirs):
            if int(member) != int(getattr(ours, name)):
                yield f"{where}={int(member)}"
        elif isinstance(member, property):
            if member.fset is not None and not _settable(mine):
                yield f"{where}=..."
        elif isinstance(member, staticmethod):
            for parameters in signatures(member.__func__, name, False):
                yield from compared(where, parameters, getattr(ours, name), False)
        elif isinstance(member, classmethod):
            for parameters in signatures(member.__func__, name, True):
                yield from compared(where, parameters, getattr(ours, name), False)
        elif not name.startswith("__") and callable(member):
            if not callable(getattr(ours, name)):
                yield where
                continue
            overloads = signatures(member, name, True)
            for parameters in overloads:
                yield from compared(where, parameters, mine, True, len(overloads) > 1)


def _missing_in_constructor(label: str, theirs: type, ours: type) -> Iterator[str]:
    member = theirs.__init__
    if member is object.__init__ or ours.__init__ is object.__init__:
        return
    for parameters in signatures(member, "__init__", True):
        yield from compared(label, parameters, ours.__init__, True)


def _settable(member: Any) -> bool:
    return member.fset is not None if isinstance(member, property) else hasattr(member, "__set__")


def members(kind: type) -> dict[str, Any]:
    """The members that a class and its bases of the same package define."""
    modules: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith(OFFICIAL):
            modules |= vars(base)
    private = re.compile(r"_[^_]")
    return {name: each for name, each in modules.items() if name not in IGNORED and not private.match(name)}


def public_names(module: Any) -> dict[str, Any]:
    """The names of a module but for private ones and those that it imported from elsewhere."""
    members = {name: each for name, each in vars(module).items() if not name.startswith("_") or name == "__version__"}
    return {name: each for name, each in members.items() if _is_theirs(each)}


def _is_theirs(thing: Any) -> bool:
    if isinstance(thing, types.ModuleType):
        return thing.__name__.startswith(OFFICIAL)
    home = getattr(thing, "__module__", None)
    if isinstance(thing, type) or callable(thing):
        # An alias of `typing` has the module of what it stands for.
        return bool(home) and (home.startswith(OFFICIAL) or hasattr(thing, "__args__"))
    return not type(thing).__module__.startswith("__future__")


def missing_in_module(label: str, theirs: Any, ours: Any) -> Iterator[str]:
    """The names of a module that ours lacks, and what is missing in those that it has."""
    for name, thing in sorted(public_names(theirs).items()):
        where = f"{label}.{name}" if label else name
        try:
            mine = getattr(ours, name)
        except (AttributeError, ImportError):
            yield where
            continue
        if isinstance(thing, type):
            yield from missing_in_class(where, thing, mine)
        elif isinstance(thing, types.ModuleType):
            if not isinstance(mine, types.ModuleType):
                yield where
        elif callable(thing) and not hasattr(thing, "__args__"):
            for parameters in signatures(thing, name, False):
                yield from compared(where, parameters, mine, False)
        elif type(mine).__name__ != type(thing).__name__:
            yield f"{where}: {type(thing).__name__}"


def missing(label: str, module: str) -> list[str]:
    """All that our module of this name lacks, in the words of the official package."""
    theirs = importlib.import_module(f"{OFFICIAL}{module and '.'}{module}")
    try:
        ours = importlib.import_module(f"{OURS}{module and '.'}{module}")
    except ImportError:
        return [label]
    return list(missing_in_module(label, theirs, ours))
