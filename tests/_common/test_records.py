"""Records behave as dataclasses do: arguments, equality, reprs, frozen fields, pickles, the stdlib's functions."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from typing import Any, ClassVar

import pytest

from zrt._common.records import Field, field, fields, record


@record(frozen=True)
class Point:
    x: int
    y: int = 0
    label: str = field(default="", compare=False, repr=False)
    origin: ClassVar[str] = "corner"

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")

    @property
    def total(self) -> int:
        return self.x + self.y


@record(frozen=True)
class Point3(Point):
    z: int = 0


@record(kw_only=True)
class Settings:
    level: int = 1
    names: list[str] = field(default_factory=list, metadata={"data": list})


@dataclasses.dataclass(frozen=True, slots=True)
class DataPoint:
    x: int
    y: int = 0
    label: str = dataclasses.field(default="", compare=False, repr=False)


class TestArguments:
    def test_fields_are_given_by_position_or_name(self):
        assert (Point(1, 2).y, Point(1, y=2).y, Point(x=1).y) == (2, 2, 0)
        assert Point3(1, 2, "a", 3).z == 3

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"args": ()}, "missing a required argument: 'x'"),
            ({"args": (1, 2, "", 4)}, "takes at most 3 positional arguments, but 4 were given"),
            ({"args": (1,), "x": 1}, "multiple values for argument 'x'"),
            ({"args": (1,), "w": 1}, "unexpected keyword argument 'w'"),
        ],
    )
    def test_wrong_arguments_raise(self, arguments: dict[str, Any], words: str):
        with pytest.raises(TypeError, match=words):
            Point(*arguments.pop("args"), **arguments)

    def test_keyword_only_record_takes_no_positions(self):
        with pytest.raises(TypeError, match="takes at most 0 positional arguments"):
            Settings(2)

    def test_default_that_a_function_makes_is_not_shared(self):
        first, second = Settings(), Settings()
        first.names.append("a")
        assert second.names == []

    def test_post_init_runs(self):
        with pytest.raises(ValueError, match="negative"):
            Point(-1)
        with pytest.raises(ValueError, match="negative"):
            Point3(-1)


class TestMethods:
    def test_equality_is_that_of_the_compared_fields(self):
        assert Point(1, 2, "a") == Point(1, 2, "b") != Point(1, 3)
        assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
        assert Point(1) != DataPoint(1)
        assert Point(1) != Point3(1)

    def test_record_that_is_not_frozen_has_no_hash(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(Settings())

    def test_repr_shows_fields(self):
        assert repr(Point(1, label="a")) == "Point(x=1, y=0)"

    def test_repr_of_a_record_inside_itself_ends(self):
        settings = Settings()
        settings.names.append(settings)
        assert repr(settings) == "Settings(level=1, names=[...])"

    def test_frozen_fields_refuse_changes(self):
        point = Point(1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            point.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del point.x
        assert point == Point(1)

    def test_fields_are_slots(self):
        with pytest.raises(AttributeError):
            Settings().other = 1
        assert not hasattr(Settings(), "__dict__")

    @pytest.mark.parametrize("one", [Point(1, 2, "a"), Point3(1, z=5), Settings(level=2, names=["a"])], ids=repr)
    def test_copies_and_pickles_are_equal(self, one: Any):
        for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert other == one
            assert type(other) is type(one)
        assert pickle.loads(pickle.dumps(Point(1, 2, "a"))).label == "a"

    def test_patterns_match_by_position(self):
        match Point(1, 2):
            case Point(x, y):
                assert (x, y) == (1, 2)

    def test_fields_are_those_of_the_bases_first(self):
        assert list(fields(Point3)) == ["x", "y", "label", "z"]
        assert isinstance(fields(Settings)["names"], Field)
        assert fields(Settings)["names"].metadata == {"data": list}
        assert fields(Point)["x"].required


class TestFunctionsOfDataclasses:
    def test_functions_take_records(self):
        point = Point(1, 2, "a")
        assert dataclasses.is_dataclass(Point)
        assert dataclasses.is_dataclass(point)
        assert dataclasses.asdict(point) == {"x": 1, "y": 2, "label": "a"}
        assert dataclasses.astuple(Point3(1, 2, "a", 3)) == (1, 2, "a", 3)
        assert dataclasses.replace(point, y=5) == Point(1, 5)
        assert [item.name for item in dataclasses.fields(Settings)] == ["level", "names"]
        assert dataclasses.fields(Settings)[1].default_factory is list

    def test_dataclass_can_extend_a_record(self):
        @dataclasses.dataclass(frozen=True)
        class Named(Point):
            name: str = "n"

        assert Named(1, name="a") == Named(1, 0, "", "a")

    @pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace came with Python 3.13")
    def test_copy_replace_takes_records(self):
        assert copy.replace(Point(1, 2), x=4) == Point(4, 2)

    def test_signature_is_that_of_a_dataclass(self):
        assert str(inspect.signature(Point)) == str(inspect.signature(DataPoint))
        assert inspect.signature(Settings).parameters["level"].kind is inspect.Parameter.KEYWORD_ONLY
