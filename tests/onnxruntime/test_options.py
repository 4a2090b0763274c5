"""`SessionOptions` and `RunOptions` take and keep what those of the official package do."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import zrt
import zrt.onnxruntime

BOOLEANS = {
    "SessionOptions": {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    },
    "RunOptions": {"only_execute_path_to_fetches": False, "terminate": False},
}
NUMBERS = {
    "SessionOptions": {
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
    },
    "RunOptions": {"log_severity_level": -1, "log_verbosity_level": 0},
}
TEXTS = {
    "SessionOptions": {"logid": "", "optimized_model_filepath": "", "profile_file_prefix": "onnxruntime_profile_"},
    "RunOptions": {"logid": ""},
}
ENUMS = {
    "graph_optimization_level": ("GraphOptimizationLevel", "ORT_ENABLE_ALL", "ORT_ENABLE_LAYOUT"),
    "execution_mode": ("ExecutionMode", "ORT_SEQUENTIAL", "ORT_PARALLEL"),
    "execution_order": ("ExecutionOrder", "DEFAULT", "PRIORITY_BASED"),
}


def each(table: dict[str, dict[str, Any]]) -> Any:
    return [(kind, name, default) for kind, names in table.items() for name, default in names.items()]


@pytest.fixture
def options(ort) -> Any:
    return ort.SessionOptions()


@pytest.fixture
def runs(ort) -> Any:
    return ort.RunOptions()


@pytest.fixture
def value(ort) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))


class TestSettings:
    @pytest.mark.parametrize(("kind", "name", "default"), each(BOOLEANS))
    def test_booleans_take_what_has_a_truth_value(self, ort, kind, name, default) -> None:
        options = getattr(ort, kind)()
        assert getattr(options, name) is default
        for given, expected in ((True, True), (0, False), (2, True), (None, False), (1.5, True), (np.bool_(0), False)):
            setattr(options, name, given)
            assert getattr(options, name) is expected
        for wrong in ("x", b"x", [], {}, object()):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    @pytest.mark.parametrize(("kind", "name", "default"), each(NUMBERS))
    def test_numbers_are_32_bits_wide(self, ort, kind, name, default) -> None:
        options = getattr(ort, kind)()
        assert getattr(options, name) == default
        for given in (3, -1, True, 2**31 - 1, -(2**31), np.int64(3), np.float32(3), Decimal(3)):
            setattr(options, name, given)
            assert getattr(options, name) == given
            assert type(getattr(options, name)) is int
        for wrong in (1.0, "1", b"1", None, [], 2**31, -(2**31) - 1):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    @pytest.mark.parametrize(("kind", "name", "default"), each(TEXTS))
    def test_texts_may_be_bytes(self, ort, kind, name, default) -> None:
        options = getattr(ort, kind)()
        assert getattr(options, name) == default
        for given in ("x", b"x", bytearray(b"x"), "\u00fc", ""):
            setattr(options, name, given)
            assert getattr(options, name) == (given if isinstance(given, str) else "x")
        for wrong in (1, None, ["x"], object()):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    @pytest.mark.parametrize(("name", "kind", "default", "other"), [(name, *given) for name, given in ENUMS.items()])
    def test_enumerations_take_members_alone(self, ort, options, name, kind, default, other) -> None:
        members = getattr(ort, kind)
        assert getattr(options, name) == getattr(members, default)
        setattr(options, name, getattr(members, other))
        assert getattr(options, name) == getattr(members, other)
        for wrong in (1, 99, "x", None, ort.OrtMemType.DEFAULT):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    def test_unknown_optimization_level_changes_nothing(self, ort, options) -> None:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.graph_optimization_level = ort.GraphOptimizationLevel(55)
        assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_BASIC

    @pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
    def test_objects_take_no_other_attributes_and_no_arguments(self, ort, kind) -> None:
        with pytest.raises(AttributeError):
            getattr(ort, kind)().no_such_setting = 1
        with pytest.raises(TypeError):
            getattr(ort, kind)(1)

    @pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
    @pytest.mark.parametrize("repeat", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_objects_have_no_copy_and_no_pickle(self, ort, kind, repeat) -> None:
        with pytest.raises(TypeError, match="cannot pickle"):
            repeat(getattr(ort, kind)())

    def test_default_options_of_the_module_are_default_options(self, ort, state) -> None:
        assert type(state.get_default_session_options()) is ort.SessionOptions
        assert type(state.get_session_initializer()) is state.SessionObjectInitializer
        with pytest.raises(TypeError, match="No constructor defined"):
            state.SessionObjectInitializer()


class TestConfigEntries:
    """Of sessions and of runs."""

    @pytest.fixture(params=["session", "run"])
    def entries(self, ort, request) -> Any:
        options = ort.SessionOptions() if request.param == "session" else ort.RunOptions()
        return getattr(options, f"add_{request.param}_config_entry"), getattr(
            options, f"get_{request.param}_config_entry"
        )

    def test_come_back(self, entries) -> None:
        add, get = entries
        add("key", "value")
        assert get("key") == get(b"key") == "value"
        add("key", "")
        assert get("key") == ""

    def test_unknown_key_raises(self, entries) -> None:
        with pytest.raises(RuntimeError, match="Options does not have configuration with key: nope"):
            entries[1]("nope")

    @pytest.mark.parametrize("key", ["", "k" * 1025])
    def test_long_or_empty_key_raises(self, entries, key) -> None:
        with pytest.raises(RuntimeError, match="Config key is empty or longer than maximum length 1024"):
            entries[0](key, "value")

    def test_long_value_raises(self, entries) -> None:
        add, get = entries
        add("k" * 1024, "v" * 8192)
        assert len(get("k" * 1024)) == 8192
        with pytest.raises(RuntimeError, match="Config value is longer than maximum length: 8192"):
            add("key", "v" * 8193)

    @pytest.mark.parametrize("arguments", [("key", 1), (1, "value"), ("key",), ()])
    def test_wrong_types_raise(self, entries, arguments) -> None:
        with pytest.raises(TypeError):
            entries[0](*arguments)

    @pytest.mark.parametrize("arguments", [("key", None), (None, "value")])
    def test_none_raises(self, ort, arguments) -> None:
        if ort.__name__ == "onnxruntime":
            pytest.skip("the official package ends the process")
        for add in (ort.SessionOptions().add_session_config_entry, ort.RunOptions().add_run_config_entry):
            with pytest.raises(TypeError):
                add(*arguments)

    def test_arguments_have_no_names(self, entries) -> None:
        with pytest.raises(TypeError):
            entries[0](key="key", value="value")


class TestDimensions:
    @pytest.mark.parametrize("by", ["name", "denotation"])
    def test_take_a_text_and_a_number(self, options, by) -> None:
        override = getattr(options, f"add_free_dimension_override_by_{by}")
        assert override("n", 3) is None
        assert override("n", 2**40) is None
        for wrong in (("n", 2.0), ("n", "2"), (1, 1), ("n", 2**63), ("n",)):
            with pytest.raises(TypeError):
                override(*wrong)


class TestCustomOperators:
    def test_missing_library_raises(self, ort, state, options) -> None:
        with pytest.raises(
            state.Fail, match=r"^\[ONNXRuntimeError\] : 1 : FAIL : Failed to load library \S*nope.so with"
        ):
            options.register_custom_ops_library("/nowhere/nope.so")

    def test_library_without_operators_raises(self, state, options, tmp_path) -> None:
        (tmp_path / "no.so").write_bytes(b"no library")
        with pytest.raises(state.Fail, match=r"\[ONNXRuntimeError\] : 1 : FAIL : Failed to load library \S*no.so with"):
            options.register_custom_ops_library(str(tmp_path / "no.so"))

    def test_other_objects_raise(self, options) -> None:
        with pytest.raises(TypeError):
            options.register_custom_ops_library(1)


class TestWeights:
    def test_are_values(self, options, value) -> None:
        options.add_initializer("w", value)
        for wrong in (np.ones(3), None, 1):
            with pytest.raises(RuntimeError, match="The provided Python object must be an OrtValue"):
                options.add_initializer("v", wrong)
        with pytest.raises(TypeError):
            options.add_initializer(1, value)

    def test_have_each_name_once(self, options, value) -> None:
        options.add_initializer("w", value)
        options.add_external_initializers(["w"], [value])
        taken = r"INVALID_ARGUMENT : An OrtValue for this name has already been added: w"
        with pytest.raises(RuntimeError, match=taken):
            options.add_initializer("w", value)
        with pytest.raises(RuntimeError, match=taken):
            options.add_external_initializers(["v", "w"], [value, value])

    def test_outside_the_model_come_in_lists(self, options, value) -> None:
        options.add_external_initializers([], [])
        for wrong in ((("w",), (value,)), (["w"],), ("w", value)):
            with pytest.raises(TypeError):
                options.add_external_initializers(*wrong)
        with pytest.raises(RuntimeError, match="equal length"):
            options.add_external_initializers(["w"], [])
        with pytest.raises(AttributeError, match="'int' object has no attribute '_ortvalue'"):
            options.add_external_initializers(["w"], [1])


class TestFilesInMemory:
    def test_are_buffers_with_lengths(self, options) -> None:
        add = options.add_external_initializers_from_files_in_memory
        add([], [], [])
        add(["a", b"b"], (b"abcd", np.zeros(4, np.uint8)), [4, 2])
        add(["none"], [np.zeros((0, 3), np.uint8)], [0])

    def test_have_each_name_once(self, options) -> None:
        add = options.add_external_initializers_from_files_in_memory
        add(["a"], [b"abcd"], [4])
        with pytest.raises(RuntimeError, match="INVALID_ARGUMENT : An entry for this name has already been added: a"):
            add(["a"], [b"abcd"], [4])

    @pytest.mark.parametrize("arguments", [(["a"], ["x"], [1]), (["a"], [b"x"], [-1]), ([1], [b"x"], [1]), (["a"],)])
    def test_wrong_types_raise(self, options, arguments) -> None:
        with pytest.raises(TypeError):
            options.add_external_initializers_from_files_in_memory(*arguments)

    def test_lists_of_other_lengths_raise(self, options) -> None:
        with pytest.raises(RuntimeError, match="add_external_initializers_from_files_in_memory"):
            options.add_external_initializers_from_files_in_memory(["a"], [b"x"], [])


class TestProviders:
    def test_are_recorded(self, options) -> None:
        assert options.has_providers() is False
        options.add_provider("CPUExecutionProvider", {})
        assert options.has_providers() is True

    @pytest.mark.parametrize("name", ["CPU", "Nope", ""])
    def test_unknown_name_raises(self, options, name) -> None:
        with pytest.raises(RuntimeError, match=f"^Unknown Provider Type: {name}$"):
            options.add_provider(name, {})
        assert not options.has_providers()

    def test_name_of_another_build_raises(self, ort, state, options) -> None:
        missing = sorted({"RknpuExecutionProvider", "JsExecutionProvider"} - set(ort.get_available_providers()))[0]
        with pytest.raises((state.InvalidArgument, RuntimeError)):
            options.add_provider(missing, {})
        assert not options.has_providers()

    @pytest.mark.parametrize("arguments", [("CPUExecutionProvider", {"a": 1}), ("CPUExecutionProvider",), (1, {})])
    def test_wrong_types_raise(self, options, arguments) -> None:
        with pytest.raises(TypeError):
            options.add_provider(*arguments)

    def test_of_devices_are_recorded(self, ort, options) -> None:
        options.add_provider_for_devices(ort.get_ep_devices()[:1], {"key": "value"})
        assert options.has_providers()

    def test_of_no_devices_raise(self, state, options) -> None:
        with pytest.raises(state.InvalidArgument, match=r"2 : INVALID_ARGUMENT : Must provide one or more OrtEpDevice"):
            options.add_provider_for_devices([], {})
        with pytest.raises(TypeError):
            options.add_provider_for_devices([1], {})
        assert not options.has_providers()

    def test_of_a_policy_are_recorded(self, ort, options) -> None:
        options.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.PREFER_CPU)
        assert options.has_providers()
        with pytest.raises(TypeError):
            options.set_provider_selection_policy(1)

    def test_of_a_delegate_are_recorded(self, options) -> None:
        options.set_provider_selection_policy_delegate(lambda *arguments: [])
        assert options.has_providers()
        with pytest.raises(TypeError):
            options.set_provider_selection_policy_delegate(1)

    def test_load_cancellation_takes_a_truth_value(self, options) -> None:
        for given in (True, 0, None):
            assert options.set_load_cancellation_flag(given) is None
        with pytest.raises(TypeError):
            options.set_load_cancellation_flag("x")


def test_adapters_have_their_own_class(runs) -> None:
    with pytest.raises(TypeError):
        runs.add_active_adapter(1)


class TestConversion:
    """The options of zrt's that a session or a run gets."""

    @pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
    def test_gives_the_same_object_while_nothing_changes(self, kind) -> None:
        options = getattr(zrt.onnxruntime, kind)()
        first = options._to_zrt()
        assert options._to_zrt() is first
        for value in ("x", "x"):
            options.logid = value
            assert options._to_zrt() is not first
            first = options._to_zrt()

    @pytest.mark.parametrize(
        "change",
        [
            lambda options: options.add_session_config_entry("key", "value"),
            lambda options: options.add_free_dimension_override_by_name("n", 1),
            lambda options: options.add_free_dimension_override_by_denotation("n", 1),
            lambda options: options.add_external_initializers_from_files_in_memory(["f"], [b"x"], [1]),
            lambda options: setattr(options, "enable_profiling", True),
        ],
    )
    def test_gives_another_object_after_a_change(self, change) -> None:
        options = zrt.onnxruntime.SessionOptions()
        first = options._to_zrt()
        change(options)
        assert options._to_zrt() is not first
        assert first == zrt.onnxruntime.SessionOptions()._to_zrt()

    def test_notices_a_change_that_comes_meanwhile(self, monkeypatch) -> None:
        options = zrt.onnxruntime.SessionOptions()
        made = type(options)._make

        def make(self: Any) -> Any:
            early = made(self)
            self.logid = "late"
            return early

        monkeypatch.setattr(type(options), "_make", make)
        assert options._to_zrt().logid is None
        monkeypatch.undo()
        assert options._to_zrt().logid == "late"

    def test_keeps_the_defaults_of_zrt(self) -> None:
        assert zrt.onnxruntime.SessionOptions()._to_zrt() == zrt.SessionOptions()
        assert zrt.onnxruntime.RunOptions()._to_zrt().settings() == zrt.RunOptions().settings()
