"""Every public call raises a typed error for each kind of bad input, names the bad argument, and works afterwards.

`table.py` assembles the table.
"""

import enum
import inspect
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import zrt
from tests.robustness import table
from tests.robustness.anything import Raising, typed_errors
from tests.robustness.vocabulary import PROMISED, Row, Take, World

ROWS = list(table.rows())
OPERATORS = ("__init__", "__new__", "__enter__", "__getitem__", "__iter__", "__len__", "__sub__")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_bad_input_raises(row: Row, world: World) -> None:
    with pytest.raises(zrt.Error) as caught:
        row.do(world)
    error = caught.value
    wanted = row.bad.error
    # `Error` itself accepts every class: ONNX Runtime chooses it, or several are appropriate.
    assert isinstance(error, wanted) if wanted is zrt.Error else type(error) is wanted, repr(error)
    for word in row.bad.words:
        assert word in str(error)
    world.check()


# Some of these objects make numpy warn.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("take", table.TAKES, ids=lambda take: f"{take[0]}-{take[1]}".replace(" ", "-"))
def test_any_object_is_taken_or_refused(take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    *_, use = take
    for thing in (
        *(np.array([]), np.array([1, 2]), np.array(["a", "b"]), np.zeros(2, "i4, i4")),
        *(Raising(), 2**70, -(2**70), float("nan"), "\ud800", "a\0b", b"\xff\0", {1: None}, [None]),
    ):
        try:
            with typed_errors:
                use(world, thing)
        except Exception as error:
            # The row itself can fail, for example where it takes settings as keywords.
            frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            assert not any(f"{Path(zrt.__file__).parent}/" in name for name in frames), repr(thing)
    world.check()


def public_calls() -> Iterator[str]:
    """Every function, method and property that users can reach from `zrt`'s names."""
    for name in zrt.__all__:
        item = getattr(zrt, name)
        if inspect.isclass(item):
            if not issubclass(item, BaseException):
                yield from methods(name, item)
        elif callable(item):
            yield name


def methods(name: str, kind: type) -> Iterator[str]:
    own = [base for base in kind.__mro__ if base.__module__.split(".")[0] == "zrt"]
    attributes = {attribute for base in own for attribute in vars(base)}
    for attribute in sorted(attributes):
        item = inspect.getattr_static(kind, attribute)
        callable_ = inspect.isroutine(item) or isinstance(item, (property, classmethod, staticmethod))
        # Python itself implements the calls of enumerations.
        of_enum = issubclass(kind, enum.Enum) and attribute.startswith("__")
        if callable_ and not of_enum and (not attribute.startswith("_") or attribute in OPERATORS):
            yield f"{name}.{attribute}"


def test_table_covers_every_public_call() -> None:
    calls = set(public_calls())
    covered = {row.call for row in ROWS} | set(table.CANNOT_FAIL)
    assert calls - covered == set(), "public calls without a row"
    assert covered - calls == set(), "rows of calls that are not there"
    assert {row.call for row in ROWS}.isdisjoint(table.CANNOT_FAIL)


def test_table_covers_every_kind() -> None:
    assert {row.bad.kind for row in ROWS} >= PROMISED


def test_table_covers_every_closable_class() -> None:
    closable = {name for name in zrt.__all__ if hasattr(getattr(zrt, name), "close")}
    assert closable == set(table.CLOSABLE)


@pytest.mark.parametrize("name", zrt.errors.__all__)
def test_every_error_derives_from_a_builtin(name: str) -> None:
    kind = getattr(zrt.errors, name)
    assert issubclass(kind, zrt.Error)
    roots = {zrt.Error, zrt.OrtError, zrt.ZrtError}
    builtins = [base for base in kind.__mro__ if base.__module__ == "builtins" and base not in (Exception, object)]
    assert kind in roots or len(builtins) > 1, f"{name} is only an Exception"
