"""Objects whose constructor raised: a repr names them, and closing them does nothing."""

from __future__ import annotations

import importlib
import inspect
import traceback
from enum import Enum

import pytest

import zrt

MODULES = ("zrt", "zrt.bench", "zrt.custom_ops", "zrt.graph", "zrt.providers")


def public_classes():
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for thing in (getattr(module, each) for each in dir(module)):
            if inspect.isclass(thing) and thing.__module__.startswith("zrt") and not issubclass(thing, (Enum, tuple)):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


CLASSES = public_classes()


def test_there_are_many_public_classes():
    assert len(CLASSES) > 60
    assert "zrt.LoraAdapter" in CLASSES


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_a_repr_takes_an_object_whose_constructor_raised(kind):
    half_made = kind.__new__(kind)
    assert kind.__name__ in repr(half_made)
    assert isinstance(str(half_made), str)


@pytest.mark.parametrize(
    "kind", [kind for kind in CLASSES.values() if hasattr(kind, "__exit__")], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("end", [lambda thing: thing.close(), lambda thing: thing.__exit__(None, None, None)])
def test_an_object_whose_constructor_raised_closes(kind, end):
    half_made = kind.__new__(kind)
    assert getattr(half_made, "closed", True)
    end(half_made)
    assert getattr(half_made, "closed", True)
    assert kind.__name__ in repr(half_made)


def test_a_use_of_an_object_whose_constructor_raised_is_refused_by_name():
    class Mine(zrt.Buffer):
        def __init__(self):
            """Forgets the constructor of `Buffer`."""

    with pytest.raises(zrt.errors.ClosedError, match="this Mine was not made: its constructor did not finish"), Mine():
        pass


def test_a_traceback_with_values_shows_a_failed_constructor(tmp_path):
    path = tmp_path / "broken.onnx_adapter"
    path.write_bytes(b"no adapter")
    with pytest.raises(zrt.errors.OrtError) as raised:
        zrt.LoraAdapter(path)
    lines = "".join(traceback.TracebackException.from_exception(raised.value, capture_locals=True).format())
    assert "self = <LoraAdapter, not made>" in lines


def test_a_repr_of_a_whole_object_is_its_own():
    assert "not made" not in repr(zrt.Buffer((3,), "float32"))
    assert zrt.Buffer.__repr__.__qualname__ == "Buffer.__repr__"
