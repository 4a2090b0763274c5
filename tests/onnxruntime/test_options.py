"""`SessionOptions` and `RunOptions` take and keep what those of the official package do."""

import builtins
import copy
import ctypes
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import zrt
import zrt.onnxruntime
from tests.onnxruntime.models import FEEDS, model
from tests.support import compiler
from tests.support.libc import MUSL

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
def value(ort) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32))


class TestSettings:
    @pytest.mark.parametrize(("kind", "name", "default"), each(BOOLEANS))
    def test_booleans_take_what_has_a_truth_value(self, ort, kind, name, default) -> None:
        options = getattr(ort, kind)()
        assert getattr(options, name) is default
        for value, expected in ((True, True), (0, False), (2, True), (None, False), (1.5, True), (np.bool_(0), False)):
            setattr(options, name, value)
            assert getattr(options, name) is expected
        for wrong in ("x", b"x", [], {}, object()):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    @pytest.mark.parametrize(("kind", "name", "default"), each(NUMBERS))
    def test_numbers_are_32_bits_wide(self, ort, kind, name, default) -> None:
        options = getattr(ort, kind)()
        assert getattr(options, name) == default
        for value in (3, -1, True, 2**31 - 1, -(2**31), np.int64(3), np.float32(3), Decimal(3)):
            setattr(options, name, value)
            assert getattr(options, name) == value
            assert type(getattr(options, name)) is int
        for wrong in (1.0, "1", b"1", None, [], 2**31, -(2**31) - 1):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    @pytest.mark.parametrize(("kind", "name", "default"), each(TEXTS))
    def test_texts_may_be_bytes(self, ort, kind, name, default) -> None:
        options = getattr(ort, kind)()
        assert getattr(options, name) == default
        for text in ("x", b"x", bytearray(b"x"), "\u00fc", ""):
            setattr(options, name, text)
            assert getattr(options, name) == (text if isinstance(text, str) else "x")
        for wrong in (1, None, ["x"], object()):
            with pytest.raises(TypeError):
                setattr(options, name, wrong)

    @pytest.mark.parametrize(("name", "kind", "default", "other"), [(name, *names) for name, names in ENUMS.items()])
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


@pytest.mark.parametrize("owner", ["session", "run"])
def test_config_entries_come_back(ort, owner) -> None:
    options = ort.SessionOptions() if owner == "session" else ort.RunOptions()
    add, get = (getattr(options, f"{verb}_{owner}_config_entry") for verb in ("add", "get"))
    add("key", "value")
    assert get("key") == get(b"key") == "value"
    add("key", "")
    assert get("key") == ""
    add("k" * 1024, "v" * 8192)
    assert len(get("k" * 1024)) == 8192
    with pytest.raises(RuntimeError, match="Options does not have configuration with key: nope"):
        get("nope")
    for key in ("", "k" * 1025):
        with pytest.raises(RuntimeError, match="Config key is empty or longer than maximum length 1024"):
            add(key, "value")
    with pytest.raises(RuntimeError, match="Config value is longer than maximum length: 8192"):
        add("key", "v" * 8193)
    for arguments in (("key", 1), (1, "value"), ("key",), ()):
        with pytest.raises(TypeError):
            add(*arguments)
    with pytest.raises(TypeError):
        add(key="key", value="value")
    # None ends the process in the official package.
    if ort.__name__ != "onnxruntime":
        for arguments in (("key", None), (None, "value")):
            with pytest.raises(TypeError):
                add(*arguments)


def test_weights_have_each_name_once(options, value) -> None:
    options.add_initializer("w", value)
    options.add_external_initializers(["w"], [value])
    options.add_external_initializers([], [])
    taken = r"INVALID_ARGUMENT : An OrtValue for this name has already been added: w"
    with pytest.raises(RuntimeError, match=taken):
        options.add_initializer("w", value)
    with pytest.raises(RuntimeError, match=taken):
        options.add_external_initializers(["v", "w"], [value, value])


def test_files_in_memory_are_buffers_with_lengths(options) -> None:
    add = options.add_external_initializers_from_files_in_memory
    add([], [], [])
    add(["a", b"b"], (b"abcd", np.zeros(4, np.uint8)), [4, 2])
    add(["none"], [np.zeros((0, 3), np.uint8)], [0])
    with pytest.raises(RuntimeError, match="INVALID_ARGUMENT : An entry for this name has already been added: a"):
        add(["a"], [b"abcd"], [4])


def test_free_dimensions_have_a_name_and_a_size(options) -> None:
    for override in (options.add_free_dimension_override_by_name, options.add_free_dimension_override_by_denotation):
        assert override("n", 3) is None
        assert override("n", 2**40) is None


def test_load_cancellation_takes_a_truth_value(options) -> None:
    for canceled in (True, 0, None):
        assert options.set_load_cancellation_flag(canceled) is None


# Stands for the fixture `value`.
VALUE = object()
NOT_LOADED = r"^\[ONNXRuntimeError\] : 1 : FAIL : Failed to load library \S*"

REFUSED = [
    *(
        (f"add_free_dimension_override_by_{by}", arguments, "TypeError", "")
        for by in ("name", "denotation")
        for arguments in (("n", 2.0), ("n", "2"), (1, 1), ("n", 2**63), ("n",))
    ),
    ("register_custom_ops_library", ("/nowhere/nope.so",), "Fail", f"{NOT_LOADED}nope.so with"),
    ("register_custom_ops_library", ("nope.so",), "Fail", f"{NOT_LOADED}nope.so with"),
    ("register_custom_ops_library", (__file__,), "Fail", f"{NOT_LOADED}test_options.py with"),
    ("register_custom_ops_library", (1,), "TypeError", ""),
    ("add_session_config_entry", ("\ud800", "value"), "TypeError", ""),
    ("add_session_config_entry", ("key", "\ud800"), "TypeError", ""),
    *(
        ("add_initializer", ("v", wrong), "RuntimeError", "The provided Python object must be an OrtValue")
        for wrong in (np.ones(3), None, 1)
    ),
    ("add_initializer", (1, VALUE), "TypeError", ""),
    ("add_external_initializers", (("w",), (VALUE,)), "TypeError", ""),
    ("add_external_initializers", (["w"],), "TypeError", ""),
    ("add_external_initializers", ("w", VALUE), "TypeError", ""),
    ("add_external_initializers", (["w"], []), "RuntimeError", "equal length"),
    ("add_external_initializers", (["w"], [1]), "AttributeError", "'int' object has no attribute '_ortvalue'"),
    *(
        ("add_external_initializers_from_files_in_memory", arguments, "TypeError", "")
        for arguments in ((["a"], ["x"], [1]), (["a"], [b"x"], [-1]), ([1], [b"x"], [1]), (["a"],))
    ),
    (
        "add_external_initializers_from_files_in_memory",
        (["a"], [b"x"], []),
        "RuntimeError",
        "add_external_initializers_from_files_in_memory",
    ),
    *(("add_provider", (name, {}), "RuntimeError", f"^Unknown Provider Type: {name}$") for name in ("CPU", "Nope", "")),
    ("add_provider", ("CPUExecutionProvider", {"a": 1}), "TypeError", ""),
    ("add_provider", ("CPUExecutionProvider",), "TypeError", ""),
    ("add_provider", (1, {}), "TypeError", ""),
    ("add_provider_for_devices", ([], {}), "InvalidArgument", "2 : INVALID_ARGUMENT : .*one or more"),
    ("add_provider_for_devices", ([1], {}), "TypeError", ""),
    ("set_provider_selection_policy", (1,), "TypeError", ""),
    ("set_provider_selection_policy_delegate", (1,), "TypeError", ""),
    ("set_load_cancellation_flag", ("x",), "TypeError", ""),
]


@pytest.mark.skipif(MUSL, reason="musl's loader looks for files alone")
def test_library_of_operators_is_found_by_its_name_alone(ort, options, tmp_path) -> None:
    # The system's loader also finds a library that is loaded already.
    name, source = "libzrt_found_by_name.so", "void *RegisterCustomOps(void *options, void *api) { return 0; }"
    ctypes.CDLL(str(compiler.shared_library(tmp_path / "operators.so", source, f"-Wl,-soname,{name}")))
    options.register_custom_ops_library(name)
    assert ort.InferenceSession(model(), options, providers=["CPUExecutionProvider"]).run(None, FEEDS)


@pytest.mark.parametrize(("method", "arguments", "error", "words"), REFUSED)
def test_method_refuses_wrong_arguments(state, options, value, method, arguments, error, words) -> None:
    arguments = [value if argument is VALUE else argument for argument in arguments]
    with pytest.raises(getattr(state, error, None) or getattr(builtins, error), match=words or None):
        getattr(options, method)(*arguments)
    assert not options.has_providers()


class TestProviders:
    def test_name_of_another_build_raises(self, ort, state, options) -> None:
        missing = sorted({"RknpuExecutionProvider", "JsExecutionProvider"} - set(ort.get_available_providers()))[0]
        with pytest.raises((state.InvalidArgument, RuntimeError)):
            options.add_provider(missing, {})
        assert not options.has_providers()

    def test_are_recorded(self, ort, options) -> None:
        assert options.has_providers() is False
        options.add_provider("CPUExecutionProvider", {})
        assert options.has_providers() is True

    @pytest.mark.parametrize(
        "add",
        [
            lambda ort, options: options.add_provider_for_devices(ort.get_ep_devices()[:1], {"key": "value"}),
            lambda ort, options: options.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.PREFER_CPU),
            lambda ort, options: options.set_provider_selection_policy_delegate(lambda *arguments: []),
        ],
        ids=["devices", "policy", "delegate"],
    )
    def test_of_other_kinds_are_recorded(self, ort, options, add) -> None:
        add(ort, options)
        assert options.has_providers()


def test_adapters_have_their_own_class(ort) -> None:
    with pytest.raises(TypeError):
        ort.RunOptions().add_active_adapter(1)


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

    def test_notices_a_change_that_comes_meanwhile(self) -> None:
        options = zrt.onnxruntime.SessionOptions()

        class Weight:
            _ortvalue = None

            def _to_zrt(self) -> Any:
                options.logid = "late"

        options.add_initializer("w", Weight())
        assert options._to_zrt().logid is None
        assert options._to_zrt().logid == "late"

    def test_keeps_the_defaults_of_zrt(self) -> None:
        assert zrt.onnxruntime.SessionOptions()._to_zrt() == zrt.SessionOptions()
        assert zrt.onnxruntime.RunOptions()._to_zrt().settings() == zrt.RunOptions().settings()
