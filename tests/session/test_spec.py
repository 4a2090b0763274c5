"""Recipes of sessions: plain data, loaded once for each process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.support import models
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
    """The content of a recipe."""

    def test_recipe_loads_a_session(self, spec: zrt.SessionSpec) -> None:
        with spec.load() as session, spec.load() as another:
            check(session)
            assert session is not another

    @pytest.mark.parametrize("form", ["path", "str", "bytes", "bytearray", "memoryview", "proto"])
    def test_model_in_any_form(self, path: Path, form: str) -> None:
        data = path.read_bytes()
        model: Any = {
            "path": path,
            "str": str(path),
            "bytes": data,
            "bytearray": bytearray(data),
            "memoryview": memoryview(data),
            "proto": onnx.load_from_string(data),
        }[form]
        made = zrt.SessionSpec(model, QUIET)
        assert made.model == (str(path) if form in ("path", "str") else onnx.load(path).SerializeToString())
        check(made.load())

    def test_later_changes_of_the_callers_objects_do_not_reach_it(self, path: Path) -> None:
        data, options, named = bytearray(path.read_bytes()), zrt.SessionOptions(intra_op_num_threads=1), ["CPU"]
        made = zrt.SessionSpec(data, options, named)
        data[:] = bytes(len(data))
        options.intra_op_num_threads = 2
        named.clear()
        made.options.intra_op_num_threads = 3
        assert made.options.intra_op_num_threads == 1
        assert made.providers == [("CPUExecutionProvider", {})]
        check(made.load())

    def test_paths_are_made_absolute(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(path.parent)
        made = zrt.SessionSpec(
            path.name, zrt.SessionOptions(custom_op_libraries=["ops.so"]), external_data_dir="weights"
        )
        assert made.model == str(path)
        assert made.external_data_dir == str(path.parent / "weights")
        assert made.options.custom_op_libraries == [str(path.parent / "ops.so")]

    def test_all_arguments_reach_the_session(self, spec: zrt.SessionSpec) -> None:
        made = zrt.SessionSpec(spec.model, QUIET, ["cpu"], strict=True, allow=["Shape", "Cast", "Shape"])
        assert (made.strict, made.allow) == (True, ("Cast", "Shape"))
        assert made.load().providers == ("CPUExecutionProvider",)
        with pytest.raises(ModelNotFoundError, match="external_data_dir"):
            zrt.SessionSpec(spec.model, QUIET, external_data_dir="/nowhere").load()

    def test_policy_of_devices(self, spec: zrt.SessionSpec) -> None:
        made = zrt.SessionSpec(spec.model, QUIET, zrt.DevicePolicy.PREFER_CPU)
        assert made.providers is zrt.DevicePolicy.PREFER_CPU
        assert pickle.loads(pickle.dumps(made)) == made
        check(made.load())

    def test_nothing_is_looked_up_before_the_load(self) -> None:
        made = zrt.SessionSpec("nowhere.onnx", None, [providers.CUDA(device_id=1), "of a later release"])
        with pytest.raises(ModelNotFoundError, match=r"nowhere\.onnx"):
            made.load()

    def test_recipe_does_not_change(self, spec: zrt.SessionSpec) -> None:
        with pytest.raises(AttributeError, match="strict"):
            spec.strict = True
        with pytest.raises(AttributeError, match="strict"):
            del spec.strict

    def test_repr_shows_what_differs_from_the_defaults(self, path: Path) -> None:
        options = zrt.SessionOptions(intra_op_num_threads=2)
        made = zrt.SessionSpec(path, options, [("CPU", {"a": 1})])
        shown = (
            f"SessionSpec({str(path)!r}, intra_op_num_threads=2, providers=[('CPUExecutionProvider', {{'a': '1'}})])"
        )
        assert repr(made) == shown
        assert repr(zrt.SessionSpec(path.read_bytes())) == f"SessionSpec(<{path.stat().st_size} bytes>)"


EQUAL: dict[str, Callable[[Path], tuple[zrt.SessionSpec, zrt.SessionSpec]]] = {
    "forms of a path": lambda path: (zrt.SessionSpec(path), zrt.SessionSpec(str(path))),
    "forms of bytes": lambda path: (
        zrt.SessionSpec(path.read_bytes()),
        zrt.SessionSpec(memoryview(path.read_bytes())),
    ),
    "default options": lambda path: (zrt.SessionSpec(path), zrt.SessionSpec(path, zrt.SessionOptions())),
    "forms of an option": lambda path: (
        zrt.SessionSpec(path, zrt.SessionOptions(execution_mode="parallel")),
        zrt.SessionSpec(path, zrt.SessionOptions(execution_mode=zrt.ExecutionMode.PARALLEL)),
    ),
    "order of entries": lambda path: (
        zrt.SessionSpec(path, zrt.SessionOptions(config_entries={"a": "1", "b": "2"})),
        zrt.SessionSpec(path, zrt.SessionOptions(config_entries={"b": "2", "a": "1"})),
    ),
    "forms of a provider": lambda path: (
        zrt.SessionSpec(path, None, [("CUDA", {}), "cpu"]),
        zrt.SessionSpec(path, None, ["cudaexecutionprovider", providers.CPU()]),
    ),
    "forms of a provider's options": lambda path: (
        zrt.SessionSpec(path, None, [("CUDA", {"device_id": 1, "use_tf32": False})]),
        zrt.SessionSpec(path, None, [providers.CUDA(device_id=1, use_tf32=False)]),
    ),
    "order of exempt operators": lambda path: (
        zrt.SessionSpec(path, allow=["Cast", "Shape"]),
        zrt.SessionSpec(path, allow=("Shape", "Cast", "Cast")),
    ),
}

DIFFERENT: dict[str, Callable[[Path], zrt.SessionSpec]] = {
    "model": lambda path: zrt.SessionSpec(path.with_name("other.onnx")),
    "bytes": lambda path: zrt.SessionSpec(path.read_bytes()),
    "option": lambda path: zrt.SessionSpec(path, zrt.SessionOptions(intra_op_num_threads=2)),
    "providers": lambda path: zrt.SessionSpec(path, None, ["CPU"]),
    "policy": lambda path: zrt.SessionSpec(path, None, zrt.DevicePolicy.PREFER_CPU),
    "folder": lambda path: zrt.SessionSpec(path, external_data_dir=path.parent),
    "strict": lambda path: zrt.SessionSpec(path, strict=True),
    "allow": lambda path: zrt.SessionSpec(path, allow=["Cast"]),
}


class TestEquality:
    """Recipes are equal by content."""

    @pytest.mark.parametrize("what", EQUAL)
    def test_equal(self, path: Path, what: str) -> None:
        one, other = EQUAL[what](path)
        assert one == other
        assert hash(one) == hash(other)
        assert len({one, other}) == 1

    @pytest.mark.parametrize("what", DIFFERENT)
    def test_different(self, path: Path, what: str) -> None:
        assert DIFFERENT[what](path) != zrt.SessionSpec(path)

    def test_not_equal_to_other_things(self, spec: zrt.SessionSpec) -> None:
        assert spec != spec.model

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickle(self, spec: zrt.SessionSpec, protocol: int) -> None:
        again = pickle.loads(pickle.dumps(spec, protocol))
        assert again == spec
        assert hash(again) == hash(spec)
        check(again.load())

    def test_copies_are_equal(self, spec: zrt.SessionSpec) -> None:
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
    "type of the options": (1, {}, DTypeError, "options: expected JSON, got dict"),
    "folder": (3, 5, DTypeError, "external_data_dir.*int"),
    "strict": (4, 1, DTypeError, "strict: expected True or False"),
    "allow": (5, "Shape", DTypeError, "allow: expected a list"),
    "operator": (5, (5,), DTypeError, "allow: expected a str, got int 5"),
}


class TestForeignPickles:
    """Pickles of another version, or damaged ones."""

    @pytest.mark.parametrize("what", FOREIGN)
    def test_unknown_part_raises(self, spec: zrt.SessionSpec, what: str) -> None:
        place, other, error, words = FOREIGN[what]
        restore, content = spec.__reduce__()
        with pytest.raises(error, match=words):
            restore(*content[:place], other, *content[place + 1 :])

    def test_other_number_of_parts_raises(self, spec: zrt.SessionSpec) -> None:
        restore, content = spec.__reduce__()
        for parts in ((), content[:-1], (*content, 1)):
            with pytest.raises(ArgumentError, match=f"SessionSpec: this recipe has {len(parts)} parts, not 6"):
                restore(*parts)


NOT_DATA: dict[str, tuple[Callable[[str], zrt.SessionSpec], str]] = {
    "weights": (
        lambda path: zrt.SessionSpec(path, zrt.SessionOptions(initializers={"w": np.ones(3)})),
        r"SessionOptions\.initializers\['w'\]: ndarray",
    ),
    "files": (
        lambda path: zrt.SessionSpec(path, zrt.SessionOptions(external_initializer_files={"w": b"1"})),
        r"SessionOptions\.external_initializer_files\['w'\]: bytes",
    ),
    "packed weights": (
        lambda path: zrt.SessionSpec(path, zrt.SessionOptions(prepacked_weights=zrt.PrepackedWeights())),
        r"SessionOptions\.prepacked_weights: PrepackedWeights",
    ),
    "cancellation": (
        lambda path: zrt.SessionSpec(path, zrt.SessionOptions(load_cancellation=zrt.LoadCancellation())),
        r"SessionOptions\.load_cancellation: LoadCancellation",
    ),
    "operators": (
        lambda path: zrt.SessionSpec(path, zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain("a", [])])),
        r"SessionOptions\.custom_ops\[0\]: CustomOpDomain",
    ),
    "threads": (
        lambda path: zrt.SessionSpec(path, zrt.SessionOptions(thread_factory=lambda work: None)),
        r"SessionOptions\.thread_factory: function",
    ),
    "device": (
        lambda path: zrt.SessionSpec(path, None, [zrt.ep_devices()[0]]),
        r"providers\[0\]: a device",
    ),
    "device with options": (
        lambda path: zrt.SessionSpec(path, None, ["cpu", (zrt.ep_devices()[0], {})]),
        r"providers\[1\]: a device",
    ),
    "function": (
        lambda path: zrt.SessionSpec(path, None, lambda devices, metadata: devices),
        "providers: a function",
    ),
    "address": (
        lambda path: zrt.SessionSpec(path, None, [providers.CUDA(user_compute_stream=4096)]),
        r"providers\[0\]\.user_compute_stream: an address",
    ),
    "address by key": (
        lambda path: zrt.SessionSpec(path, None, ["cpu", ("CUDA", {"user_compute_stream": "4096"})]),
        r"providers\[1\]\.user_compute_stream: an address",
    ),
}


class TestRefusals:
    """A recipe that is not data, or wrong, is refused where it is made."""

    @pytest.mark.parametrize("what", NOT_DATA)
    def test_things_that_are_not_data_are_refused_by_name(self, spec: zrt.SessionSpec, what: str) -> None:
        make, message = NOT_DATA[what]
        with pytest.raises(UnsupportedError, match=message):
            make(str(spec.model))

    @pytest.mark.parametrize(
        ("make", "kind", "message"),
        [
            (lambda path: zrt.SessionSpec(5), DTypeError, "model: expected a path"),
            (lambda path: zrt.SessionSpec(b""), ModelError, "empty"),
            (lambda path: zrt.SessionSpec("a\0"), ArgumentError, "NUL"),
            (lambda path: zrt.SessionSpec(path, {"logid": "a"}), DTypeError, "options: expected SessionOptions"),
            (lambda path: zrt.SessionSpec(path, zrt.SessionOptions(logid=5)), DTypeError, "logid"),
            (lambda path: zrt.SessionSpec(path, None, "CPU"), DTypeError, "providers: expected a list"),
            (lambda path: zrt.SessionSpec(path, None, {"cpu": {}}), DTypeError, "providers: expected a list, got dict"),
            (lambda path: zrt.SessionSpec(""), ArgumentError, "model: the path is empty"),
            (lambda path: zrt.SessionSpec(path, None, [5]), DTypeError, "providers: 5"),
            (lambda path: zrt.SessionSpec(path, strict=1), DTypeError, "strict"),
            (lambda path: zrt.SessionSpec(path, allow="Cast"), DTypeError, "allow: expected a list"),
            (lambda path: zrt.SessionSpec(path, allow=[5]), DTypeError, "allow"),
            (lambda path: zrt.SessionSpec(path, external_data_dir=5), DTypeError, "external_data_dir"),
        ],
        ids=[
            "model",
            "empty",
            "NUL",
            "options",
            "option",
            "name",
            "dict",
            "path",
            "provider",
            "strict",
            "allow",
            "operator",
            "folder",
        ],
    )
    def test_wrong_arguments(
        self, spec: zrt.SessionSpec, make: Callable[[Any], zrt.SessionSpec], kind: type[zrt.Error], message: str
    ) -> None:
        with pytest.raises(kind, match=message):
            make(spec.model)

    def test_session_names_the_recipe_when_it_refuses_a_pickle(self, spec: zrt.SessionSpec) -> None:
        with spec.load() as session:
            for refused in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(NotCopyableError, match=r"zrt\.SessionSpec is its recipe"):
                    refused(session)


class TestShared:
    """The session of the process."""

    def test_equal_recipes_share_one_session(self, spec: zrt.SessionSpec) -> None:
        session = spec.shared()
        assert pickle.loads(pickle.dumps(spec)).shared() is session
        assert spec.shared() is session
        check(session)
        assert zrt.SessionSpec(spec.model).shared() is not session

    def test_closed_session_is_replaced(self, spec: zrt.SessionSpec) -> None:
        first = spec.shared()
        lane = first.lane({"x": (4,), "y": (4,)})
        first.close()
        second = spec.shared()
        assert second is not first
        check(second)
        with pytest.raises(ClosedError):
            first.run(FEEDS)
        lane.run()

    def test_many_threads_get_one_load(self, spec: zrt.SessionSpec, monkeypatch: pytest.MonkeyPatch) -> None:
        loads = []

        def load(self: zrt.SessionSpec) -> zrt.Session:
            loads.append(self)
            time.sleep(0.05)
            return zrt.Session(self.model, self.options)

        monkeypatch.setattr(zrt.SessionSpec, "load", load)
        start = threading.Barrier(16)

        def get(_: int) -> zrt.Session:
            start.wait(30)
            return spec.shared()

        with ThreadPoolExecutor(16) as pool:
            sessions = set(pool.map(get, range(16)))
        assert len(sessions) == len(loads) == 1

    def test_failed_load_is_raised_to_all_who_waited_and_tried_again(
        self, spec: zrt.SessionSpec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loads: list[zrt.SessionSpec] = []
        waiting = threading.Semaphore(0)

        def load(self: zrt.SessionSpec) -> zrt.Session:
            loads.append(self)
            for _ in range(8):
                waiting.acquire(timeout=30)
            time.sleep(0.1)
            raise ModelError("a wrong model")

        def get(_: int) -> zrt.Session:
            waiting.release()
            return spec.shared()

        with monkeypatch.context() as patch, ThreadPoolExecutor(8) as pool:
            patch.setattr(zrt.SessionSpec, "load", load)
            for future in [pool.submit(get, number) for number in range(8)]:
                with pytest.raises(ModelError, match="a wrong model"):
                    future.result()
        assert len(loads) == 1
        check(spec.shared())

    def test_model_that_comes_later_is_loaded_then(self, tmp_path: Path) -> None:
        made = zrt.SessionSpec(tmp_path / "later.onnx", QUIET)
        with pytest.raises(ModelNotFoundError):
            made.shared()
        (tmp_path / "later.onnx").write_bytes(models.add(["n"]))
        check(made.shared())

    def test_interrupted_load_is_done_by_a_thread_that_waits(
        self, spec: zrt.SessionSpec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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

    def test_call_inside_the_load_raises(self, spec: zrt.SessionSpec, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(zrt.SessionSpec, "load", lambda self: self.shared())
            with pytest.raises(BusyError, match="interrupted the load"):
                spec.shared()
        check(spec.shared())


class TestProcesses:
    """Recipes in other processes."""

    @pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
    def test_pool_of_processes(
        self, script: Callable[..., subprocess.CompletedProcess[str]], path: Path, method: str
    ) -> None:
        script("spec_in_pool.py", method, path)

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's count of shared pages")
    def test_weights_in_a_file_are_in_memory_once(
        self, script: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
    ) -> None:
        """Four processes over 100 MB of weights take at most 1.4 times the memory of one."""
        assert float(script("weights_in_processes.py", tmp_path).stdout) <= 1.4
