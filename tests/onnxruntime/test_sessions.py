"""`InferenceSession`: the same calls on the official package and on zrt's."""

import contextlib
import copy
import importlib
import inspect
import json
import os
import pickle
import re
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.onnxruntime.models import FEEDS, ONES, TWOS, model
from tests.onnxruntime.packages import ours
from tests.support.libc import TRACE_CLOCKS
from zrt.onnxruntime import errors


def lists(results: Any) -> list[Any]:
    return [result.tolist() for result in results]


def one_node(element: str, node: str, ir_version: int = 8) -> bytes:
    """z is the result of one node of operator set 22."""
    proto = onnx.load_from_string(model(f"agraph ({element}[n] x) => ({element}[n] z) {{ z = {node} }}"))
    proto.opset_import[0].version = 22
    proto.ir_version = ir_version
    data: bytes = proto.SerializeToString()
    return data


@pytest.fixture
def two(load: Any) -> Any:
    text = "agraph (float[n] x) => (float[n] a, float[n] b) { a = Identity(x) b = Neg(x) }"
    return load(model(text))


@pytest.mark.parametrize("names", [None, [], (), ["z"], ("z",)])
def test_run_returns_the_outputs(add: Any, names: Any) -> None:
    (z,) = add.run(names, FEEDS)
    assert z.dtype == np.float32
    assert z.tolist() == TWOS


@pytest.mark.parametrize("feeds", [FEEDS, {"x": [[1.0] * 4], "y": ONES}], ids=["arrays", "lists"])
@pytest.mark.parametrize(
    "names",
    [lambda: {"z"}, lambda: (name for name in ["z"]), lambda: map(str, ["z"]), lambda: {"z": 1}.keys()],
    ids=["set", "generator", "map", "keys"],
)
def test_names_of_outputs_need_no_order(ort: Any, add: Any, names: Any, feeds: Any) -> None:
    for _ in range(2):
        assert lists(add.run(names(), feeds)) == [TWOS]
    values = {name: ort.OrtValue.ortvalue_from_numpy(np.array(feed, np.float32)) for name, feed in feeds.items()}
    assert add.run_with_ort_values(names(), values)[0].numpy().tolist() == TWOS


def test_path_in_bytes_is_a_path(ort: Any, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model())
    with os.scandir(os.fsencode(tmp_path)) as entries:
        [entry] = entries
        assert lists(ort.InferenceSession(entry).run(None, FEEDS)) == [TWOS]


def test_run_without_an_input_raises_value_error(add: Any) -> None:
    message = "Required inputs (['y']) are missing from input feed (['x'])."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        add.run(None, {"x": ONES})


class Frame:
    """Columns by name, like those of a data frame: no `Mapping`, but with `keys`, `items` and `[]`."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns
        self.keys = columns.keys
        self.items = columns.items

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]


def test_run_takes_feeds_from_an_object_with_items(add: Any) -> None:
    (z,) = add.run(None, Frame(**FEEDS))
    assert z.tolist() == TWOS


def test_run_returns_the_outputs_in_the_order_of_their_names(two: Any) -> None:
    x = np.ones(2, np.float32)
    for _ in range(2):
        a, b = (x.tolist(), (-x).tolist())
        assert lists(two.run(["b", "a"], {"x": x})) == [b, a]
        assert lists(two.run(("b",), {"x": x})) == [b]
        assert lists(two.run(["b", "b", "a"], {"x": x})) == [b, b, a]
        assert lists(two.run(None, {"x": x})) == [a, b]


def test_run_follows_new_shapes(two: Any) -> None:
    for size in (1, 3, 3, 0, 2):
        assert two.run(None, {"x": np.ones(size, np.float32)})[1].tolist() == [-1] * size


def test_run_returns_fresh_arrays(add: Any) -> None:
    first, second = add.run(None, FEEDS), add.run(None, FEEDS)
    first[0][:] = 7
    assert second[0].tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize("options", [False, True])
def test_base_of_results_owns_their_memory(ort: Any, options: bool) -> None:
    session = ort.InferenceSession(
        model("agraph (float[n] x) => (float[n] z, int64[1,k] places) { z = Neg(x) places = NonZero(x) }")
    )
    for feed in (np.ones(3, np.float32), [1.0, 1.0, 1.0], np.ones(3, np.float32)):
        results = session.run(None, {"x": feed}, ort.RunOptions() if options else None)
        assert [result.base is not None for result in results] == [True, True]
        assert lists(results) == [[-1] * 3, [[0, 1, 2]]]


@pytest.mark.parametrize(
    ("names", "feeds", "culprit"), [(["q"], FEEDS, "q"), (["z\0"], FEEDS, "z"), (None, {**FEEDS, "x\0": ONES}, "x")]
)
def test_unknown_names_are_refused(
    add: Any, state: Any, refused: Any, names: Any, feeds: dict[str, Any], culprit: str
) -> None:
    with refused(state.InvalidArgument, "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ", culprit):
        add.run(names, feeds)


@pytest.mark.parametrize(("names", "options"), [("z", None), ([1], None), (1, None), (None, 1), (None, {})])
def test_run_refuses_wrong_types(add: Any, names: Any, options: Any) -> None:
    for method in (add.run, lambda *arguments: add.run_async(*arguments[:2], None, None, arguments[2])):
        with pytest.raises(TypeError):
            method(names, FEEDS, options)


@pytest.mark.parametrize("kind", ["SessionOptions", "OrtValue"])
def test_run_refuses_other_objects_of_the_package_as_options(ort: Any, add: Any, kind: str) -> None:
    options = ort.SessionOptions() if kind == "SessionOptions" else ort.OrtValue.ortvalue_from_numpy(ONES)
    for _ in range(2):
        add.run(None, FEEDS)
        with pytest.raises(TypeError):
            add.run(None, FEEDS, options)


def test_run_takes_run_options(ort: Any, add: Any) -> None:
    options = ort.RunOptions()
    options.logid = "mine"
    assert lists(add.run(None, FEEDS, options)) == [TWOS]
    assert lists(add.run(["z"], FEEDS, run_options=options)) == [TWOS]


class TestLoading:
    """The model: a path, an object with a path, or bytes."""

    def test_path_and_bytes(self, ort: Any, tmp_path: Path) -> None:
        path = tmp_path / "é a.onnx"
        path.write_bytes(model())
        for source in (path, str(path), model()):
            assert lists(ort.InferenceSession(source).run(None, FEEDS)) == [TWOS]

    def test_file_that_is_not_there(self, ort: Any, state: Any, tmp_path: Path, capsys: Any, refused: Any) -> None:
        path = tmp_path / "none.onnx"
        with refused(state.NoSuchFile, "[ONNXRuntimeError] : 3 : NO_SUCHFILE : ", str(path)):
            ort.InferenceSession(path)
        assert capsys.readouterr().out == ""

    def test_file_that_is_no_model(self, ort: Any, state: Any, tmp_path: Path, refused: Any) -> None:
        path = tmp_path / "junk.onnx"
        path.write_bytes(b"junk" * 100)
        for source in (path, tmp_path):
            with refused(state.InvalidProtobuf, "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : ", str(source)):
                ort.InferenceSession(source)
        path.write_bytes(b"")
        with refused(state.Fail, "[ONNXRuntimeError] : 1 : FAIL : ", str(path)):
            ort.InferenceSession(path)

    @pytest.mark.parametrize(
        ("data", "error", "words"),
        [
            (b"junk" * 10, "InvalidProtobuf", "7 : INVALID_PROTOBUF : "),
            (b"", "InvalidArgument", "2 : INVALID_ARGUMENT : .*(empty|No graph)"),
            (one_node("float", "NoSuchOperator(x)"), "InvalidGraph", "10 : INVALID_GRAPH : .*NoSuchOperator"),
            (one_node("float", "And(x, x)"), "InvalidGraph", "10 : INVALID_GRAPH : .*Type 'tensor"),
            (one_node("bfloat16", "Cos(x)"), "NotImplemented", "9 : NOT_IMPLEMENTED : "),
            (one_node("float", "Abs(x)", ir_version=99), "Fail", "1 : FAIL : .*model IR version: 99"),
        ],
    )
    def test_bytes_that_are_no_valid_model(self, ort: Any, state: Any, data: bytes, error: str, words: str) -> None:
        with pytest.raises(getattr(state, error), match=rf"^\[ONNXRuntimeError\] : {words}"):
            ort.InferenceSession(data)

    @pytest.mark.parametrize(
        "source", [bytearray(model()), memoryview(model()), None, 5, onnx.load_from_string(model())]
    )
    def test_other_types_are_refused(self, ort: Any, source: Any) -> None:
        message = f"Unable to load from type '{type(source)}'"
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            ort.InferenceSession(source)

    @pytest.mark.parametrize(
        "wrong", [{"path_or_bytes": ""}, {"sess_options": 1}, {"disabled_optimizers": 1}, {"disabled_optimizers": [1]}]
    )
    def test_wrong_arguments_are_refused(self, ort: Any, wrong: dict[str, Any]) -> None:
        with pytest.raises(TypeError):
            ort.InferenceSession(**{"path_or_bytes": model(), **wrong})

    @pytest.mark.parametrize(
        "arguments",
        [
            {"sess_options": {}},
            {"sess_options": None, "other": 1},
            *({"disabled_optimizers": names} for names in (["ConstantFolding"], {"ConstantFolding"}, "Constant", [])),
        ],
    )
    def test_options_may_be_empty_and_names_unknown(self, ort: Any, arguments: dict[str, Any]) -> None:
        assert ort.InferenceSession(path_or_bytes=model(), **arguments).get_inputs()

    def test_disabled_optimizer_does_nothing(self, ort: Any, options: Any, tmp_path: Path) -> None:
        data = model("agraph (float[1] x) => (float[1] z) <float[1] w = {5}> { a = Neg(w) z = Add(x, a) }")
        counts = []
        for name in ("", "ConstantFolding"):
            options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
            ort.InferenceSession(data, options, disabled_optimizers=[name])
            counts.append([node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node])
        assert counts == [["Add"], ["Neg", "Add"]]


def test_copy_shares_the_model_and_pickle_is_refused(add: Any) -> None:
    assert lists(copy.copy(add).run(None, FEEDS)) == [TWOS]
    for refused in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            refused(add)


def test_subclass_can_pickle_itself_by_its_model(ort: Any) -> None:
    class Pickled(ort.InferenceSession):
        def __init__(self, data: bytes) -> None:
            super().__init__(data, providers=["CPUExecutionProvider"])
            self.data = data

        def __getstate__(self) -> bytes:
            return self.data

        def __setstate__(self, data: bytes) -> None:
            self.__init__(data)

    copied = copy.deepcopy(Pickled(model()))
    assert lists(copied.run(None, FEEDS)) == [TWOS]


def test_session_options_serve_several_sessions(ort: Any, options: Any) -> None:
    sessions = [ort.InferenceSession(model(), options) for _ in range(3)]
    assert [lists(session.run(None, FEEDS)) for session in sessions] == [[TWOS]] * 3
    assert sessions[0].get_session_options().intra_op_num_threads == 1
    assert sessions[0].get_session_options() is not options
    assert sessions[0].get_session_options() is sessions[0].get_session_options()


def test_session_runs_on_many_threads(two: Any) -> None:
    def run(number: int) -> bool:
        x = np.full(number % 5 + 1, number, np.float32)
        names = (None, ["b", "a"], ["b"])[number % 3]
        results = two.run(names, {"x": x.tolist() if number % 7 == 0 else x})
        return results[-1 if names is None else 0].tolist() == (-x).tolist()

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(200)))


def test_profiling_writes_a_trace(ort: Any, add: Any, options: Any, tmp_path: Path) -> None:
    assert (add.end_profiling(), add.get_profiling_start_time_ns()) == ("", 0)
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    before = [clock() for clock in TRACE_CLOCKS]
    session = ort.InferenceSession(model(), options)
    started = session.get_profiling_start_time_ns()
    assert any(begin <= started <= clock() for begin, clock in zip(before, TRACE_CLOCKS, strict=True))
    session.run(None, FEEDS)
    path = session.end_profiling()
    assert path.startswith(str(tmp_path / "trace_"))
    assert any(event["name"] == "model_run" for event in json.loads(Path(path).read_text()))


def test_memory_and_devices_of_inputs_and_outputs(add: Any, state: Any) -> None:
    for memories in (add.get_input_memory_infos(), add.get_output_memory_infos()):
        assert all(isinstance(memory, state.OrtMemoryInfo) for memory in memories)
        assert {memory.name for memory in memories} == {"Cpu"}
    assert len(add.get_input_memory_infos()) == 2
    devices = add.get_input_epdevices()
    assert [device.ep_name for device in devices] == ["CPUExecutionProvider"] * 2
    assert all(isinstance(device, state.OrtEpDevice) for device in devices)


def test_graph_assignment_needs_an_entry_of_the_options(
    ort: Any, add: Any, options: Any, state: Any, refused: Any
) -> None:
    with refused(state.Fail, "session.record_ep_graph_assignment_info"):
        add.get_provider_graph_assignment_info()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ort.InferenceSession(model(), options)
    (subgraph,) = session.get_provider_graph_assignment_info()
    assert isinstance(subgraph, ort.OrtEpAssignedSubgraph)
    assert subgraph.ep_name == "CPUExecutionProvider"
    (node,) = subgraph.get_nodes()
    assert isinstance(node, ort.OrtEpAssignedNode)
    assert (node.name, node.op_type, node.domain) == ("", "Add", "")
    assert session.get_provider_graph_assignment_info() == [subgraph]
    for thing in (subgraph, node):
        with pytest.raises(TypeError, match="No constructor defined"):
            type(thing)()
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(thing)


def test_tuning_results_are_empty(add: Any, refused: Any) -> None:
    assert add.get_tuning_results() == []
    assert add.set_tuning_results([]) is None
    result = {"ep": "other", "results": {}, "validators": {}}
    assert add.set_tuning_results([result]) is None
    with refused(RuntimeError, "other"):
        add.set_tuning_results([result], error_on_invalid=True)
    with refused(RuntimeError, "CPUExecutionProvider"):
        add.set_tuning_results([{**result, "ep": "CPUExecutionProvider"}], error_on_invalid=True)
    with pytest.raises(KeyError, match="ep"):
        add.set_tuning_results([{}])
    with pytest.raises(TypeError):
        add.set_tuning_results(1)


def test_dynamic_options(add: Any, refused: Any) -> None:
    assert add.set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"}) is None
    assert add.set_ep_dynamic_options({"a": 1}) is None
    with refused(RuntimeError, "set_ep_dynamic_options"):
        add.set_ep_dynamic_options({})
    with pytest.raises(TypeError):
        add.set_ep_dynamic_options(1)


@pytest.mark.official
def test_methods_have_the_official_arguments(ort: Any) -> None:
    official = pytest.importorskip("onnxruntime").InferenceSession
    for name in dir(official):
        if not name.startswith("_") or name == "__init__":
            own, wanted = (inspect.signature(getattr(kind, name)) for kind in (ort.InferenceSession, official))
            assert [(each.name, each.kind, each.default) for each in own.parameters.values()] == [
                (each.name, each.kind, each.default) for each in wanted.parameters.values()
            ], name
    collection = importlib.import_module(f"{ort.__name__}.capi.onnxruntime_inference_collection")
    assert ort.InferenceSession.__mro__[1] is collection.Session


@pytest.mark.parametrize("recorded", [False, True])
def test_forked_child_runs_those_sessions_of_its_parent_that_have_no_threads(
    script: Any, recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if recorded:
        monkeypatch.setenv("ZRT_RECORD", str(tmp_path))
    script("fork_with_session.py")
    assert len(list(tmp_path.iterdir())) == (2 if recorded else 0)


def test_interpreter_may_end_during_runs(script: Any) -> None:
    assert script("exit_during_runs.py").stderr == ""


@ours
class TestFailingProvider:
    """A run that fails in a provider: loaded again on the fallback providers, once."""

    @pytest.fixture
    def failing(self, ort: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(zrt.Session, "run", self.fail)
        monkeypatch.setattr(zrt.Session, "run_values", self.fail)
        session = ort.InferenceSession(model(), providers=["CPUExecutionProvider"])
        reset = session._reset_session

        def mend(*arguments: Any) -> None:
            monkeypatch.undo()
            reset(*arguments)

        session._reset_session = mend
        return session

    @staticmethod
    def fail(*_: Any) -> None:
        error = zrt.errors.EpFailError("words")
        error.code = 11
        raise error

    def test_run_falls_back_and_says_so(self, failing: Any, capsys: Any) -> None:
        assert lists(failing.run(None, FEEDS)) == [TWOS]
        assert capsys.readouterr().out.splitlines() == [
            "EP Error: [ONNXRuntimeError] : 11 : EP_FAIL : words using ['CPUExecutionProvider']",
            "Falling back to ['CPUExecutionProvider'] and retrying.",
        ]
        assert failing._enable_fallback is False
        assert lists(failing.run(None, FEEDS)) == [TWOS]

    def test_run_with_ort_values_falls_back(self, ort: Any, failing: Any) -> None:
        values = {name: ort.OrtValue.ortvalue_from_numpy(ONES) for name in "xy"}
        assert failing.run_with_ort_values(None, values)[0].numpy().tolist() == TWOS

    def test_run_without_fallback_raises(self, failing: Any) -> None:
        failing.disable_fallback()
        with pytest.raises(errors.EPFail, match=r"^\[ONNXRuntimeError\] : 11 : EP_FAIL : words$"):
            failing.run(None, FEEDS)

    def test_strict_run_raises(self, failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZRT_STRICT", "1")
        with pytest.raises(errors.EPFail):
            failing.run(None, FEEDS)


@pytest.mark.usefixtures("collector_off")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("other", [ONES, ONES.tolist()])
def test_feeds_are_released_after_a_run(add: Any, dtype: Any, other: Any) -> None:
    array = np.ones((1, 4), dtype)
    kept = weakref.ref(array)
    with contextlib.suppress(Exception):
        add.run(None, {"x": array, "y": other})
    del array
    assert kept() is None


@pytest.mark.usefixtures("collector_off")
def test_session_is_released_with_its_last_reference(ort: Any) -> None:
    session = ort.InferenceSession(model())
    session.run(None, FEEDS)
    with contextlib.suppress(Exception):
        session.run(None, {"x": ONES.astype("f8"), "y": ONES})
    kept = weakref.ref(session)
    del session
    assert kept() is None
