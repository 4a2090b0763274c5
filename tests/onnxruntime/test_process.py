"""The functions that set something for the whole process do as those of the official package."""

import logging
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import zrt.onnxruntime
from tests.onnxruntime.packages import since
from zrt.onnxruntime import errors, notices

DIGITS = Path(zrt.__file__).with_name("models") / "digits.onnx"


@pytest.fixture
def notes(monkeypatch, caplog) -> pytest.LogCaptureFixture:
    """The log of the drop-in, as in a process that has logged none of its messages yet."""
    monkeypatch.setattr(notices, "once", cache(notices.once.__wrapped__))
    caplog.set_level(logging.INFO, "zrt.onnxruntime")
    return caplog


class TestLogger:
    @pytest.mark.parametrize("severity", [-1, 5, 9])
    def test_severity_has_five_levels(self, ort, severity) -> None:
        with pytest.raises(
            RuntimeError, match=r"Invalid logging severity\. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal"
        ):
            ort.set_default_logger_severity(severity)

    @pytest.mark.parametrize("function", ["set_default_logger_severity", "set_default_logger_verbosity", "set_seed"])
    @pytest.mark.parametrize("arguments", [("1",), (1.0,), (None,), (), (1, 1)])
    def test_other_objects_raise(self, ort, function, arguments) -> None:
        with pytest.raises(TypeError):
            getattr(ort, function)(*arguments)

    def test_arguments_have_no_names(self, ort) -> None:
        with pytest.raises(TypeError):
            ort.set_default_logger_severity(arg0=1)

    def test_verbosity_takes_any_number(self, ort) -> None:
        ort.set_default_logger_verbosity(-3)
        ort.set_default_logger_verbosity(0)

    @pytest.mark.parametrize("first", ["severity", "session"])
    def test_severity_is_that_of_sessions_without_one(self, ort, script, first) -> None:
        errors, warnings = script("log.py", ort.__name__, first).stderr.split("severity 2\n")
        assert errors == "severity 3\n"
        assert "initializer" in warnings


class TestLoggerCallback:
    @since(32)
    def test_takes_the_log(self, script, ort) -> None:
        lines = script("log_callback.py", ort.__name__, str(DIGITS)).stderr.splitlines()
        split = lines.index("the callback is gone")
        # Those within a callback, those for which it raised, and those without one.
        for part in (lines[:split], lines[split + 1 :]):
            assert any(re.match(r"[\d: .-]+\[I:onnxruntime:, inference_session.cc:\d+ ", line) for line in part)

    @since(32)
    @pytest.mark.parametrize("arguments", [(3,), ("x",), (None, 5), (print, -1)])
    def test_wrong_arguments_raise(self, ort, arguments) -> None:
        with pytest.raises(RuntimeError, match=r"callback must be a callable|Invalid logging severity\. 0:Verbose"):
            ort.set_default_logger_callback(*arguments)

    @since(32)
    @pytest.mark.parametrize("arguments", [(), (print, "1"), (None, 2.0)])
    def test_wrong_types_raise(self, ort, arguments) -> None:
        with pytest.raises(TypeError):
            ort.set_default_logger_callback(*arguments)

    def test_after_the_environment_raises(self) -> None:
        zrt.Session(DIGITS)
        with pytest.raises(errors.Fail, match="call set_default_logger_callback before the first session"):
            zrt.onnxruntime.set_default_logger_callback(print)
        zrt.onnxruntime.set_default_logger_callback(None)


class TestThreadPools:
    @pytest.mark.skipif(sys.platform != "linux", reason="the threads are counted in /proc")
    @pytest.mark.parametrize("after", ["import", "severity"])
    def test_are_made_once_and_shared(self, ort, script, after) -> None:
        assert script("pools.py", ort.__name__, after).stdout == "3\n"

    def test_cannot_be_made_after_the_environment(self) -> None:
        zrt.Session(DIGITS)
        says = r"^\[ONNXRuntimeError\] : 1 : FAIL : ONNX Runtime's environment is there already"
        with pytest.raises(errors.Fail, match=says):
            zrt.onnxruntime.set_global_thread_pool_sizes(3, 2)

    @pytest.mark.parametrize("arguments", [{"intra_op_num_threads": "1"}, {"inter_op_num_threads": 1.0}, {"other": 1}])
    def test_are_of_whole_numbers(self, ort, arguments) -> None:
        with pytest.raises(TypeError):
            ort.set_global_thread_pool_sizes(**arguments)


class TestNotices:
    def test_of_telemetry_come_once(self, notes) -> None:
        for _ in range(2):
            assert zrt.onnxruntime.enable_telemetry_events() is None
            assert zrt.onnxruntime.disable_telemetry_events() is None
        (record,) = notes.records
        assert record.levelno == logging.INFO
        assert "ORT_DISABLE_TELEMETRY" in record.message

    def test_of_the_seed_are_warnings(self, notes) -> None:
        zrt.onnxruntime.set_seed(3)
        zrt.onnxruntime.set_seed(-(2**63))
        (record,) = notes.records
        assert record.levelno == logging.WARNING
        assert record.message.startswith("set_seed has no effect")

    def test_of_settings_that_the_c_api_lacks_are_warnings(self, notes) -> None:
        options = zrt.onnxruntime.SessionOptions()
        options.enable_mem_reuse = False
        options.execution_order = zrt.onnxruntime.ExecutionOrder.PRIORITY_BASED
        runs = zrt.onnxruntime.RunOptions()
        runs.only_execute_path_to_fetches = True
        assert notes.records == []
        options._to_zrt()
        runs._to_zrt()
        assert [record.message.partition(" ")[0] for record in notes.records] == [
            "SessionOptions.enable_mem_reuse=False",
            "SessionOptions.execution_order",
            "RunOptions.only_execute_path_to_fetches",
        ]

    def test_are_absent_for_default_settings(self, notes) -> None:
        zrt.onnxruntime.SessionOptions()._to_zrt()
        zrt.onnxruntime.RunOptions()._to_zrt()
        assert notes.records == []


@pytest.mark.parametrize(
    "function", ["InferenceSession", "set_global_thread_pool_sizes", "get_ep_devices", "get_hardware_devices"]
)
def test_wrong_variable_raises_an_error_of_the_package(script, function) -> None:
    assert script("wrong_variable.py", function).stdout == "Fail\n"
