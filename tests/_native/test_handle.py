import gc
from pathlib import Path

import pytest

import zrt
from zrt._native import ffi, status
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.errors import OrtError


class Gone:
    """Says when it goes."""

    def __init__(self, name, seen):
        self.name, self.seen = name, seen

    def __del__(self):
        self.seen.append(self.name)


def test_parents_are_released_after_their_handle():
    seen = []
    first, second, third = (Handle.pin(Gone(name, seen)) for name in ("first", "second", "third"))
    pointer = first.pointer
    held = first.holding(second, third)
    assert held.pointer == pointer
    del first, second, third
    gc.collect()
    assert seen == []
    del held
    gc.collect()
    assert seen[0] == "first"
    assert sorted(seen) == ["first", "second", "third"]


def test_make_owns_the_pointer_from_the_start():
    """Between the making and the owning there is no moment in which an interrupt could lose it."""
    table = api()
    seen = []
    parent = Handle.pin(Gone("parent", seen))
    handle = Handle.make(table.ReleaseRunOptions, [parent], table.CreateRunOptions, "OrtRunOptions")
    status.check(table.RunOptionsSetRunTag(handle.pointer, b"tag"))
    with pytest.raises(OrtError):
        Handle.make(
            table.ReleaseLoraAdapter, [parent], table.CreateLoraAdapter, "OrtLoraAdapter", b"/no/such", ffi.NULL
        )
    del parent
    gc.collect()
    assert seen == []
    del handle
    gc.collect()
    assert seen == ["parent"]


def test_interrupt_after_make_leaks_nothing():
    seen = []
    parent = Handle.pin(Gone("parent", seen))

    def interrupted(place):
        status.check(api().CreateRunOptions(place))
        assert place[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Handle.make(api().ReleaseRunOptions, [parent], interrupted, "OrtRunOptions")
    del parent
    gc.collect()
    assert seen == ["parent"]


def test_every_pointer_in_use_has_a_handle_in_a_variable():
    """Another thread may close the object, and only a variable, an argument or a container keeps its handle then."""
    package = Path(zrt.__file__).parent
    sources = {path: path.read_text() for path in package.rglob("*.py")}
    assert len(sources) > 100
    assert [str(path) for path, text in sources.items() if "_open().pointer" in text] == []
