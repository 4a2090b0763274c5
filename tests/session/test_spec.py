"""Recipes of sessions: plain data, loaded once for each process."""

import copy
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest

import zrt
from tests.support import models
from tests.support.together import in_threads
from zrt import providers
from zrt.errors import (
    ArgumentError,
    BusyError,
    ClosedError,
    DTypeError,
    ModelError,
    ModelNotFoundError,
    NotCopyableError,
    UnsupportedError,
)

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
FEEDS = {"x": np.arange(4, dtype=np.float32), "y": np.ones(4, np.float32)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of its own for each test, so that no test meets the session of another."""
    file = tmp_path / "add.onnx"
    file.write_bytes(models.add(["n"]))
    return file


@pytest.fixture
def spec(path: Path) -> zrt.SessionSpec:
    return zrt.SessionSpec(path, QUIET)


def check(session: zrt.Session) -> None:
    assert session.run(FEEDS)[0].tolist() == [1, 2, 3, 4]


class TestData:
    def test_recipe_loads_a_session(self, spec):
        with spec.load() as session, spec.load() as another:
            check(session)
            assert session is not another

    @pytest.mark.parametrize("form", ["path", "str", "bytes", "bytearray", "memoryview", "proto"])
    def test_model_in_any_form(self, path, form):
        data = path.read_bytes()
        model: Any = {
            "path": path,
            "str": str(path),
            "bytes": data,
            "bytearray": bytearray(data),
            "memoryview": memoryview(data),
            "proto": onnx.load_from_string(data),
        }[form]
        recipe = zrt.SessionSpec(model, QUIET)
        assert recipe.model == (str(path) if form in ("path", "str") else onnx.load(path).SerializeToString())
        check(recipe.load())

    def test_later_changes_of_the_callers_objects_do_not_reach_it(self, path):
        data, options, named = bytearray(path.read_bytes()), zrt.SessionOptions(intra_op_num_threads=1), ["CPU"]
        recipe = zrt.SessionSpec(data, options, named)
        data[:] = bytes(len(data))
        options.intra_op_num_threads = 2
        named.clear()
        recipe.options.intra_op_num_threads = 3
        assert recipe.options.intra_op_num_threads == 1
        assert recipe.providers == [("CPUExecutionProvider", {})]
        check(recipe.load())

    def test_paths_are_made_absolute(self, path, monkeypatch):
        monkeypatch.chdir(path.parent)
        recipe = zrt.SessionSpec(
            path.name, zrt.SessionOptions(custom_op_libraries=["here/ops.so"]), external_data_dir="weights"
        )
        assert recipe.model == str(path)
        assert recipe.external_data_dir == str(path.parent / "weights")
        assert recipe.options.custom_op_libraries == [str(path.parent / "here/ops.so")]

    def test_all_arguments_reach_the_session(self, spec, tmp_path, monkeypatch):
        options = zrt.SessionOptions(intra_op_num_threads=2)
        recipe = zrt.SessionSpec(
            spec.model, options, ["cpu"], external_data_dir=tmp_path, strict=True, allow=["Shape", "Cast", "Shape"]
        )
        assert (recipe.strict, recipe.allow) == (True, ("Cast", "Shape"))
        assert recipe.load().providers == ("CPUExecutionProvider",)
        session = Mock()
        monkeypatch.setattr("zrt.session.spec.Session", session)
        assert recipe.load() is session.return_value
        session.assert_called_once_with(
            spec.model,
            options,
            [("CPUExecutionProvider", {})],
            external_data_dir=str(tmp_path),
            strict=True,
            allow=("Cast", "Shape"),
        )

    def test_missing_folder_of_weights_is_refused_by_the_load(self, spec):
        with pytest.raises(ModelNotFoundError, match="external_data_dir"):
            zrt.SessionSpec(spec.model, QUIET, external_data_dir="/nowhere").load()

    def test_policy_of_devices(self, spec):
        recipe = zrt.SessionSpec(spec.model, QUIET, zrt.DevicePolicy.PREFER_CPU)
        assert recipe.providers is zrt.DevicePolicy.PREFER_CPU
        assert pickle.loads(pickle.dumps(recipe)) == recipe
        check(recipe.load())

    def test_nothing_is_looked_up_before_the_load(self):
        recipe = zrt.SessionSpec("nowhere.onnx", None, [providers.CUDA(device_id=1), "of a later release"])
        with pytest.raises(ModelNotFoundError, match=r"nowhere\.onnx"):
            recipe.load()

    def test_recipe_does_not_change(self, spec):
        with pytest.raises(AttributeError, match="strict"):
            spec.strict = True
        with pytest.raises(AttributeError, match="strict"):
            del spec.strict

    def test_repr_shows_what_differs_from_the_defaults(self, path):
        options = zrt.SessionOptions(intra_op_num_threads=2)
        recipe = zrt.SessionSpec(path, options, [("CPU", {"a": 1})])
        shown = (
            f"SessionSpec({str(path)!r}, intra_op_num_threads=2, providers=[('CPUExecutionProvider', {{'a': '1'}})])"
        )
        assert repr(recipe) == shown
        assert repr(zrt.SessionSpec(path.read_bytes())) == f"SessionSpec(<{path.stat().st_size} bytes>)"


# Pairs of arguments that make equal recipes.
EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default options": ({}, {"options": zrt.SessionOptions()}),
    "forms of an option": (
        {"options": zrt.SessionOptions(execution_mode="parallel")},
        {"options": zrt.SessionOptions(execution_mode=zrt.ExecutionMode.PARALLEL)},
    ),
    "order of entries": (
        {"options": zrt.SessionOptions(config_entries={"a": "1", "b": "2"})},
        {"options": zrt.SessionOptions(config_entries={"b": "2", "a": "1"})},
    ),
    "forms of a provider": (
        {"providers": [("CUDA", {}), "cpu"]},
        {"providers": ["cudaexecutionprovider", providers.CPU()]},
    ),
    "forms of a provider's options": (
        {"providers": [("CUDA", {"device_id": 1, "use_tf32": False})]},
        {"providers": [providers.CUDA(device_id=1, use_tf32=False)]},
    ),
    "order of exempt operators": ({"allow": ["Cast", "Shape"]}, {"allow": ("Shape", "Cast", "Cast")}),
}


class TestEquality:
    @pytest.mark.parametrize("pair", EQUAL)
    def test_equal(self, path, pair):
        one, other = (zrt.SessionSpec(path, **arguments) for arguments in EQUAL[pair])
        assert one == other
        assert len({one, other}) == 1

    def test_equal_models(self, path):
        data = path.read_bytes()
        assert zrt.SessionSpec(path) == zrt.SessionSpec(str(path)) != zrt.SessionSpec(data)
        assert zrt.SessionSpec(data) == zrt.SessionSpec(memoryview(data))
        assert zrt.SessionSpec(path) != zrt.SessionSpec(path.with_name("other.onnx"))

    @pytest.mark.parametrize(
        ("argument", "value"),
        [
            ("options", zrt.SessionOptions(intra_op_num_threads=2)),
            ("providers", ["CPU"]),
            ("providers", zrt.DevicePolicy.PREFER_CPU),
            ("external_data_dir", "weights"),
            ("strict", True),
            ("allow", ["Cast"]),
        ],
    )
    def test_different(self, spec, argument, value):
        assert zrt.SessionSpec(spec.model, **{argument: value}) != zrt.SessionSpec(spec.model)

    def test_not_equal_to_other_things(self, spec):
        assert spec != spec.model

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickle(self, spec, protocol):
        again = pickle.loads(pickle.dumps(spec, protocol))
        assert again == spec
        assert hash(again) == hash(spec)
        check(again.load())

    def test_copies_are_equal(self, spec):
        assert copy.copy(spec) == copy.deepcopy(spec) == spec


# A part of a pickle by its place, in its stead another, the error, and the culprit that the message names.
FOREIGN: dict[str, tuple[int, Any, type[zrt.Error], str]] = {
    "policy": (2, "FASTEST", ArgumentError, "providers: policy: 'FASTEST' is none of DEFAULT, PREFER_CPU"),
    "number of a policy": (2, 3, DTypeError, "providers: expected pairs"),
    "provider without a name": (2, ((5, ()),), DTypeError, "providers.*5"),
    "option of a provider": (2, (("CPU", ((5, "a"),)),), DTypeError, "CPU.*5"),
    "half an option": (2, (("CPU", (("a",),)),), DTypeError, "providers: expected pairs"),
    "half a provider": (2, (("CPU",),), DTypeError, "providers: expected pairs"),
    "model": (0, 5, DTypeError, "model.*int"),
    "path": (0, "a\0b", ArgumentError, "model.*NUL"),
    "name of an option": (1, '{"hurry": true}', ArgumentError, "SessionOptions.*'hurry'"),
    "value of an option": (1, '{"execution_mode": "FAST"}', ArgumentError, "'FAST'"),
    "options": (1, "{", ArgumentError, "SessionOptions: this is not JSON"),
    "type of the options": (1, {}, DTypeError, "SessionOptions: expected .* str, got dict"),
    "folder": (3, 5, DTypeError, "external_data_dir.*int"),
    "strict": (4, 1, DTypeError, "strict: expected True or False"),
    "allow": (5, "Shape", DTypeError, "allow: expected a list"),
    "operator": (5, (5,), DTypeError, "allow: expected a str, got int 5"),
}


class TestForeignPickles:
    """Pickles of another version, or damaged ones."""

    @pytest.mark.parametrize("what", FOREIGN)
    def test_unknown_part_raises(self, spec, what):
        place, other, error, words = FOREIGN[what]
        restore, content = spec.__reduce__()
        with pytest.raises(error, match=words):
            restore(*content[:place], other, *content[place + 1 :])

    def test_other_number_of_parts_raises(self, spec):
        restore, content = spec.__reduce__()
        for parts in ((), content[:-1], (*content, 1)):
            with pytest.raises(ArgumentError, match=f"SessionSpec: this recipe has {len(parts)} parts, not 6"):
                restore(*parts)


# Options that are not data, by their fields; each is in a container where the field takes one.
NOT_DATA: dict[str, Callable[[], Any]] = {
    "initializers['w']": lambda: {"w": np.ones(3)},
    "external_initializer_files['w']": lambda: {"w": b"1"},
    "prepacked_weights": zrt.PrepackedWeights,
    "load_cancellation": zrt.LoadCancellation,
    "custom_ops[0]": lambda: [zrt.CustomOpDomain("a", [])],
    "thread_factory": lambda: print,
}

# Providers that are not data, and the culprit.
NO_PROVIDERS: dict[str, Callable[[], Any]] = {
    "providers[0]: a device": lambda: [zrt.ep_devices()[0]],
    "providers[1]: a device": lambda: ["cpu", (zrt.ep_devices()[0], {})],
    "providers: a function": lambda: lambda devices, metadata: devices,
    "providers[0].user_compute_stream: an address": lambda: [providers.CUDA(user_compute_stream=4096)],
    "providers[1].user_compute_stream: an address": lambda: ["cpu", ("CUDA", {"user_compute_stream": "4096"})],
}


class TestRefusals:
    """A recipe that is not data is refused where it is made; tests/robustness has the wrong ones."""

    @pytest.mark.parametrize("culprit", NOT_DATA)
    def test_options_that_are_not_data_are_refused_by_name(self, spec, culprit):
        options = zrt.SessionOptions(**{culprit.partition("[")[0]: NOT_DATA[culprit]()})
        with pytest.raises(UnsupportedError, match=re.escape(f"SessionOptions.{culprit}: ")):
            zrt.SessionSpec(spec.model, options)

    @pytest.mark.parametrize("culprit", NO_PROVIDERS)
    def test_providers_that_are_not_data_are_refused_by_name(self, spec, culprit):
        with pytest.raises(UnsupportedError, match=re.escape(culprit)):
            zrt.SessionSpec(spec.model, None, NO_PROVIDERS[culprit]())

    def test_session_names_the_recipe_when_it_refuses_a_pickle(self, spec):
        with spec.load() as session:
            for refused in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(NotCopyableError, match=r"zrt\.SessionSpec is its recipe"):
                    refused(session)


class TestShared:
    """The session of the process."""

    def test_equal_recipes_share_one_session(self, spec):
        session = spec.shared()
        assert pickle.loads(pickle.dumps(spec)).shared() is session
        assert spec.shared() is session
        check(session)
        assert zrt.SessionSpec(spec.model).shared() is not session

    def test_closed_session_is_replaced(self, spec):
        first = spec.shared()
        lane = first.lane({"x": (4,), "y": (4,)})
        first.close()
        second = spec.shared()
        assert second is not first
        check(second)
        with pytest.raises(ClosedError):
            first.run(FEEDS)
        lane.run()

    def test_many_threads_get_one_load(self, spec, monkeypatch):
        loads = []

        def load(self: zrt.SessionSpec) -> zrt.Session:
            loads.append(self)
            time.sleep(0.05)
            return zrt.Session(self.model, self.options)

        monkeypatch.setattr(zrt.SessionSpec, "load", load)
        sessions: set[zrt.Session] = set()
        in_threads(*[lambda: sessions.add(spec.shared())] * 16)
        assert len(sessions) == len(loads) == 1

    def test_failed_load_is_raised_to_all_who_waited_and_tried_again(self, spec, monkeypatch, eventually):
        loads: list[zrt.SessionSpec] = []

        def others_wait() -> bool:
            inner = [frame.f_code for frame in sys._current_frames().values()]
            return inner.count(zrt.SessionSpec.shared.__code__) == 7

        def load(self: zrt.SessionSpec) -> zrt.Session:
            loads.append(self)
            eventually(others_wait)
            # The last of them may be a few instructions before its wait.
            time.sleep(0.05)
            raise ModelError("a wrong model")

        with monkeypatch.context() as patch, ThreadPoolExecutor(8) as pool:
            patch.setattr(zrt.SessionSpec, "load", load)
            for future in [pool.submit(spec.shared) for _ in range(8)]:
                with pytest.raises(ModelError, match="a wrong model"):
                    future.result()
        assert len(loads) == 1
        check(spec.shared())

    def test_interrupted_load_is_done_by_a_thread_that_waits(self, spec, monkeypatch):
        started, loads = threading.Event(), []

        def load(self: zrt.SessionSpec) -> zrt.Session:
            loads.append(self)
            if len(loads) == 1:
                started.set()
                time.sleep(0.1)
                raise KeyboardInterrupt
            return zrt.Session(self.model, self.options)

        monkeypatch.setattr(zrt.SessionSpec, "load", load)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(spec.shared)
            started.wait(30)
            second = pool.submit(spec.shared)
            with pytest.raises(KeyboardInterrupt):
                first.result()
            check(second.result())

    def test_call_inside_the_load_raises(self, spec, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(zrt.SessionSpec, "load", lambda self: self.shared())
            with pytest.raises(BusyError, match="interrupted the load"):
                spec.shared()
        check(spec.shared())


class TestProcesses:
    @pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
    def test_pool_of_processes(self, script, path, method):
        script("spec_in_pool.py", method, path)

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's count of shared pages")
    def test_weights_in_a_file_are_in_memory_once(self, script, tmp_path):
        """Four processes over 100 MB of weights take at most 1.4 times the memory of one."""
        assert float(script("weights_in_processes.py", tmp_path).stdout) <= 1.4
