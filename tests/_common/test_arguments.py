"""Objects in error messages: short, without arrays, and never a failure of their own."""

import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from zrt._common.arguments import absolute, require_type, shown, wrong_type
from zrt.errors import DTypeError

ARRAY = np.full((20, 30), 12345.0, np.float32)


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        ("rows", "'rows'"),
        (None, "None"),
        (2.5, "2.5"),
        (np.float32(2.5), repr(np.float32(2.5))),
        ([1, "a", (2,)], "[1, 'a', (2,)]"),
        ({"a": 1}, "{'a': 1}"),
        ({3}, "{3}"),
        (ARRAY, "ndarray of shape (20, 30)"),
        ([ARRAY], "[ndarray of shape (20, 30)]"),
        ({"x": (ARRAY,)}, "{'x': (ndarray of shape (20, 30),)}"),
        (np.ma.masked_array(ARRAY), "MaskedArray of shape (20, 30)"),
        (Broken(), "an object of type Broken"),
        ([Broken()], "an object of type list"),
        (10**5000, "an object of type int"),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_shown_is_the_repr_with_shapes_for_arrays(thing, text):
    assert shown(thing) == text


@pytest.mark.parametrize(
    "thing",
    [
        "long" * 10**6,
        b"long" * 10**6,
        bytearray(10**6),
        list(range(10**6)),
        {str(i): i for i in range(10**5)},
        [[["deep"] * 100] * 100] * 100,
        OrderedDict((i, i) for i in range(1000)),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_shown_of_a_large_object_is_short(thing):
    assert 10 < len(shown(thing)) <= 80


def test_wrong_type_tells_classes_of_one_name_apart():
    kind = type("Options", (), {"__module__": "theirs", "__repr__": lambda self: "theirs"})
    assert str(wrong_type("it", "Options", kind())).startswith("it: expected Options, got theirs.Options ")


def test_wrong_type_shows_no_mapping_and_no_array():
    assert str(wrong_type("it", "an int", {"x": ARRAY})) == "it: expected an int, got dict"
    assert str(wrong_type("it", "an int", ARRAY)) == "it: expected an int, got ndarray"
    assert str(wrong_type("it", "an int", [ARRAY])) == "it: expected an int, got list [ndarray of shape (20, 30)]"


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("m", "m"),
        ("./m/.//n/", "m/n"),
        ("link/..", "far"),
        ("link/../m", "far/m"),
        ("link/../../near/link/../m/n", "far/m/n"),
        ("missing/../m", "m"),
        ("link/..m", "link/..m"),
    ],
)
def test_absolute_paths_lead_where_the_system_leads(tmp_path, monkeypatch, path, leads_to):
    (tmp_path / "far/folder").mkdir(parents=True)
    (tmp_path / "near").mkdir()
    (tmp_path / "near/link").symlink_to("../far/folder")
    monkeypatch.chdir(tmp_path / "near")
    expected = tmp_path / ("" if leads_to.startswith("far") else "near") / leads_to
    assert absolute(path) == str(expected)
    assert absolute(os.path.join(tmp_path, "near", path)) == str(expected)


def test_required_types():
    """A text is a sequence to Python, and never one to a caller who forgot the brackets."""
    require_type(["x"], Sequence, "names", "a list of names")
    require_type(None, int | None, "count", "an int")
    for thing, kind in (("x", Sequence), (b"x", Iterable), (1, Sequence), ("1", int | None)):
        with pytest.raises(DTypeError, match="it: expected that, got "):
            require_type(thing, kind, "it", "that")
