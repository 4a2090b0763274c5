"""An object that no constructor made, such as `Lane.__new__(Lane)`, raises typed errors and takes nothing down."""

import importlib
import inspect
import traceback
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.support import models
from zrt._native.handle import Single
from zrt.errors import ClosedError

OPERATORS = ("__enter__", "__getitem__", "__setitem__", "__iter__", "__len__", "__contains__", "__call__", "__hash__")


def owners() -> list[type]:
    public = [getattr(zrt, name) for name in zrt.__all__]
    return [
        kind
        for kind in public
        if inspect.isclass(kind) and (issubclass(kind, Single) or kind in (zrt.SessionSpec, zrt.Graph))
    ]


def members(kind: type) -> Iterator[str]:
    """The public attributes and methods of a class, and its operators."""
    for name in dir(kind):
        static = inspect.getattr_static(kind, name)
        if isinstance(static, (classmethod, staticmethod)) or (name.startswith("_") and name not in OPERATORS):
            continue
        yield name


def use(thing: Any, name: str) -> None:
    """Reads the attribute, and calls it with as few arguments as it takes."""
    member = getattr(thing, name)
    if not callable(member):
        return
    for count in range(4):
        try:
            inspect.signature(member).bind(*[{}] * count)
        except TypeError:
            continue
        result = member(*[{}] * count)
        if inspect.iscoroutine(result):
            with pytest.raises(StopIteration):
                result.send(None)
        return


CASES = [pytest.param(kind, name, id=f"{kind.__name__}.{name}") for kind in owners() for name in members(kind)]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_unmade_object_raises_typed_errors(kind: type, name: str) -> None:
    thing = kind.__new__(kind)
    with suppress(zrt.Error):
        use(thing, name)


def public_classes() -> dict[str, type]:
    modules = map(importlib.import_module, ("zrt", "zrt.bench", "zrt.custom_ops", "zrt.graph", "zrt.providers"))
    things = [getattr(module, name) for module in modules for name in dir(module)]
    classes = [thing for thing in things if inspect.isclass(thing) and not issubclass(thing, (Enum, tuple))]
    return {f"{kind.__module__}.{kind.__qualname__}": kind for kind in classes if kind.__module__.startswith("zrt")}


@pytest.mark.parametrize("kind", public_classes().values(), ids=public_classes())
def test_unmade_object_is_closed_and_has_a_repr(kind: type) -> None:
    thing: Any = kind.__new__(kind)
    for end in ("close", "close", "__exit__"):
        assert kind.__name__ in repr(thing)
        assert isinstance(str(thing), str)
        assert getattr(thing, "closed", True)
        if hasattr(kind, end):
            getattr(thing, end)(*[None] * 3 * (end == "__exit__"))


def test_traceback_with_values_shows_a_failed_constructor(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx_adapter"
    path.write_bytes(b"no adapter")
    with pytest.raises(zrt.errors.OrtError) as raised:
        zrt.LoraAdapter(path)
    lines = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "self = <LoraAdapter, not made>" in lines
    assert "not made" not in repr(zrt.Buffer((3,), "float32"))
    assert zrt.Buffer.__repr__.__qualname__ == "Buffer.__repr__"


@pytest.mark.parametrize("kind", owners())
def test_unknown_attribute_is_an_attribute_error(kind: type) -> None:
    thing = kind.__new__(kind)
    assert not hasattr(thing, "nonesuch")
    assert not hasattr(thing, "_repr_html_")


def test_unmade_object_is_named() -> None:
    with pytest.raises(ClosedError, match="this Value was not made"):
        zrt.Value.__new__(zrt.Value).numpy()


def test_subclasses_work() -> None:
    class Own(zrt.Session):
        """A user's subclass: it reads the types at their first use, as its base does."""

        extra: int

    session = Own(models.add())
    assert session.input_names == ("x", "y")
    with pytest.raises(ClosedError, match="this Own was not made"):
        Own.__new__(Own).run([])

    class Forgetful(zrt.Buffer):
        def __init__(self) -> None:
            """Does not call the constructor of `Buffer`."""

    with pytest.raises(ClosedError, match="this Forgetful was not made"), Forgetful():
        pass
