"""The enumerations behave as those of the official package."""

import copy
import io
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

KINDS = [
    "ArenaExtendStrategy",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "OrtAllocatorType",
    "OrtCompileApiFlags",
    "OrtCompiledModelCompatibility",
    "OrtDeviceEpIncompatibilityReason",
    "OrtDeviceMemoryType",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
]
STRICT = {"ArenaExtendStrategy", "ExecutionOrder"}
SIGNED = {"ArenaExtendStrategy", "ExecutionOrder", "OrtAllocatorType", "OrtDeviceEpIncompatibilityReason", "OrtMemType"}
FLAGS = {"OrtCompileApiFlags", "OrtDeviceEpIncompatibilityReason"}
ORDERED = {*FLAGS, "ArenaExtendStrategy"}


@pytest.fixture(params=KINDS)
def kind(state, request) -> type:
    return getattr(state, request.param)


class TestMembers:
    def test_show_name_and_number(self, kind) -> None:
        for name, each in kind.__members__.items():
            value = each.value
            assert getattr(kind, name) == kind(value) == each
            # The first of two names for one number is the one shown.
            shown = "CPU_OUTPUT" if kind.__name__ == "OrtMemType" and value == -1 else name
            assert each.name == shown
            assert str(each) == f"{kind.__name__}.{shown}"
            assert repr(each) == f"<{kind.__name__}.{shown}: {value}>"

    def test_convert_to_their_number(self, kind) -> None:
        first = next(iter(kind.__members__.values()))
        assert int(first) == first.value == first.__index__()
        assert hash(first) == hash(int(first))
        assert ["zeroth", "first"][kind(1)] == "first"

    def test_are_the_same_in_each_dictionary(self, kind) -> None:
        members = kind.__members__
        assert all(members.values())
        assert list(kind(1).__members__) == list(members)
        kind.__members__.clear()
        assert list(kind.__members__) == list(members)

    def test_cannot_be_changed(self, kind) -> None:
        for name in ("name", "value", "other"):
            with pytest.raises(AttributeError):
                setattr(kind(1), name, 1)

    def test_survive_pickling_and_copying(self, kind) -> None:
        each = next(reversed(kind.__members__.values()))
        for again in (pickle.loads(pickle.dumps(each)), copy.copy(each), copy.deepcopy(each)):
            assert again == each
            assert again is not each


@pytest.mark.official
@pytest.mark.parametrize("name", KINDS)
def test_members_are_those_of_the_official_package(name) -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as official

    from zrt.onnxruntime import enums

    theirs, ours = (
        [(name, each.value) for name, each in getattr(module, name).__members__.items()] for module in (official, enums)
    )
    assert ours == theirs


@pytest.mark.official
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_the_official_package_are_read(name, protocol) -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as official

    from zrt.onnxruntime import enums

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return super().find_class(module.replace("onnxruntime.", "zrt.onnxruntime.", 1), name)

    data = pickle.dumps(getattr(official, name)(1), protocol)
    again = Unpickler(io.BytesIO(data)).load()
    assert type(again) is getattr(enums, name)
    assert again == getattr(enums, name)(1)


class TestConstructor:
    def test_takes_a_number_by_name(self, kind) -> None:
        assert kind(value=1) == kind(1)

    def test_makes_a_member_without_a_name_of_an_unknown_number(self, kind) -> None:
        each = kind(55)
        assert each.value == 55
        assert each.name == "???"
        assert repr(each) == f"<{kind.__name__}.???: 55>"

    @pytest.mark.parametrize("number", [True, np.int64(1), np.float32(1), Decimal(1)], ids=repr)
    def test_converts_numbers(self, kind, number) -> None:
        assert kind(number).value == 1

    def test_takes_a_member_of_another_class(self, kind, state) -> None:
        assert kind(state.GraphOptimizationLevel.ORT_ENABLE_BASIC).value == 1

    @pytest.mark.parametrize("value", ["1", b"1", 1.0, None, [], 2**40, -(2**40)], ids=repr)
    def test_refuses_other_values(self, kind, value) -> None:
        with pytest.raises(TypeError):
            kind(value)

    def test_refuses_no_value(self, kind) -> None:
        with pytest.raises(TypeError):
            kind()

    def test_takes_negative_numbers_where_the_c_type_is_signed(self, kind) -> None:
        if kind.__name__ in SIGNED:
            assert kind(-1).value == -1
        else:
            assert kind(2**32 - 1).value == 2**32 - 1
            with pytest.raises(TypeError):
                kind(-1)


class TestComparison:
    def test_is_by_number(self, kind) -> None:
        assert kind(1) == kind(1)
        assert kind(1) != kind(0)
        assert {kind(1): "one"}[kind(1)] == "one"

    def test_with_numbers_depends_on_the_class(self, kind, state) -> None:
        equal = kind.__name__ not in STRICT
        assert (kind(1) == 1) is equal
        assert (kind(1) != 1) is not equal
        assert (kind(1) == 1.0) is equal
        assert (kind(1) == state.OrtMemType(1)) is (equal or kind.__name__ == "OrtMemType")

    @pytest.mark.parametrize("other", [None, "1", [1]], ids=repr)
    def test_with_other_objects_is_false(self, kind, other) -> None:
        assert (kind(1) == other) is False
        assert (kind(1) != other) is True

    def test_has_an_order_for_some(self, kind) -> None:
        if kind.__name__ in ORDERED:
            assert kind(0) < kind(1) <= kind(1)
            assert kind(1) > kind(0) >= kind(0)
        else:
            with pytest.raises(TypeError, match="not supported between instances of"):
                kind(0) < kind(1)  # noqa: B015

    def test_of_order_takes_numbers_unless_the_class_is_strict(self, kind) -> None:
        if kind.__name__ in FLAGS:
            assert kind(0) < 1 < kind(2)
        elif kind.__name__ in ORDERED:
            with pytest.raises(TypeError, match="Expected an enumeration of matching type!"):
                kind(0) < 1  # noqa: B015


class TestFlags:
    def test_combine_to_numbers(self, kind) -> None:
        if kind.__name__ not in FLAGS:
            with pytest.raises(TypeError, match="unsupported operand"):
                kind(1) | kind(2)
            return
        combinations = (kind(1) | kind(2), 1 | kind(2), kind(3) & 2, 6 & kind(3), kind(1) ^ kind(3), 1 ^ kind(3))
        assert combinations == (3, 3, 2, 2, 2, 2)
        assert all(type(each) is int for each in (*combinations, ~kind(1)))
        assert ~kind(1) == -2


def test_arena_strategies_are_names_of_the_module_too(state) -> None:
    assert state.kNextPowerOfTwo == state.ArenaExtendStrategy.kNextPowerOfTwo
    assert state.kSameAsRequested == state.ArenaExtendStrategy.kSameAsRequested
