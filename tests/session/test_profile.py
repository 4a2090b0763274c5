"""`Profile`: reading ONNX Runtime's traces, and tables of times."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zrt
from tests.support import ort
from tests.support.libc import TRACE_CLOCKS
from zrt.errors import FileError, TraceError, UnsupportedError
from zrt.session.profile import own_times

RELUS = "(float[n] x) => (float[n] y) { a = Relu(x) b = Exp(a) y = Relu(b) }"
X = np.arange(-2, 2, dtype=np.float32)
UNOPTIMIZED = zrt.SessionOptions(
    intra_op_num_threads=1, graph_optimization_level="DISABLE_ALL", log_severity_level="FATAL"
)


@pytest.fixture
def chain(build) -> zrt.Session:
    """Three nodes: Relu, Exp, Relu."""
    return zrt.Session(build(RELUS), UNOPTIMIZED)


def event(name: str, start: int, duration: int, category: str = "Node", thread: int = 1, **arguments: Any) -> Any:
    return {
        "cat": category,
        "pid": 1,
        "tid": thread,
        "dur": duration,
        "ts": start,
        "ph": "X",
        "name": name,
        "args": arguments,
    }


@pytest.fixture
def trace(tmp_path: Path):
    """Reads a trace of the given content."""

    def read(content: Any) -> zrt.Profile:
        path = tmp_path / "trace.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return zrt.Profile.read(path)

    return read


class TestOfRuns:
    def test_every_node_of_every_run_is_there(self, chain):
        profile = chain.profile([X], runs=3, warmup=1)
        assert len(profile.runs) == 3
        assert [node.operator for node in profile.nodes] == ["Relu", "Exp", "Relu"] * 3
        assert all(node.duration_us >= 0 for node in profile.nodes)
        for run, after in zip(profile.runs, profile.runs[1:], strict=False):
            assert run.end_us <= after.start_us + 1

    def test_repr_is_short(self, chain):
        profile = chain.profile([X], runs=3, warmup=1)
        assert repr(profile) == f"Profile(3 runs, {len(profile.events)} events)"

    def test_tables_by_operator_and_node(self, chain):
        profile = chain.profile([X], runs=5)
        operators = {row.name: row for row in profile.by_operator()}
        assert {name: row.calls for name, row in operators.items()} == {"Relu": 10, "Exp": 5}
        nodes = profile.by_node()
        assert sorted((row.operator, row.calls) for row in nodes) == [("Exp", 5), ("Relu", 5), ("Relu", 5)]
        for rows in (nodes, list(operators.values())):
            assert [row.total_us for row in rows] == sorted((row.total_us for row in rows), reverse=True)
            assert sum(row.share for row in rows) == pytest.approx(1) or not sum(row.total_us for row in rows)
            assert {row.provider for row in rows} == {"CPUExecutionProvider"}
            assert {row.shapes for row in rows} == {"float[4]"}
            assert all(row.mean_us == row.total_us / row.calls for row in rows)
        assert profile.by_kernel() == []

    def test_inputs_and_outputs_of_a_node(self, chain):
        node = chain.profile([X], runs=1).nodes[0]
        assert node.inputs == node.outputs == (("float", (4,)),)
        assert node.arguments["op_name"] == node.operator == "Relu"

    def test_time_of_a_loop_excludes_its_body(self, loop, endless):
        profile = loop.profile({**endless, "n": np.array(200)}, runs=2, warmup=0)
        rows = {row.operator: row for row in profile.by_operator()}
        assert (rows["Loop"].calls, rows["Add"].calls) == (2, 400)
        whole = sum(node.duration_us for node in profile.nodes if node.operator == "Loop")
        inside = sum(node.duration_us for node in profile.nodes if node.operator in ("Add", "Identity"))
        assert rows["Loop"].total_us == whole - inside

    def test_shapes_that_vary_are_none(self, build, tmp_path):
        session = zrt.Session(build(RELUS), UNOPTIMIZED)
        options = zrt.RunOptions(profile_file_prefix=tmp_path / "run")
        session.run([X], options=options)
        time.sleep(0.002)
        session.run([X[:2]], options=options)
        profiles = [zrt.Profile.read(path) for path in options.profile_files()]
        both = zrt.Profile(tuple(event for profile in profiles for event in profile.events))
        assert {row.shapes for row in both.by_node()} == {None}


class TestTraces:
    """Traces that ONNX Runtime writes to a given path."""

    def test_trace_of_a_session(self, build, tmp_path):
        before = [clock() for clock in TRACE_CLOCKS]
        options = zrt.SessionOptions(profile_file_prefix=tmp_path / "whole", log_severity_level="FATAL")
        session = zrt.Session(build(RELUS), options)
        if sys.platform == "linux":
            started = session.profiling_start_ns
            assert any(begin <= started <= clock() for begin, clock in zip(before, TRACE_CLOCKS, strict=True))
        session.run([X])
        with pytest.raises(UnsupportedError, match="end_profiling"):
            session.profile([X], runs=1, warmup=0)
        path = session.end_profiling()
        assert Path(path).parent == tmp_path
        profile = zrt.Profile.read(path)
        assert {"model_loading_array", "session_initialization", "model_run"} <= {
            event.name for event in profile.events
        }
        assert len(profile.runs) == 2
        assert session.end_profiling() == ""
        # From here on single runs can be profiled.
        assert len(session.profile([X], runs=1).runs) == 1

    def test_trace_of_a_closed_session(self, build, tmp_path):
        with zrt.Session(build(RELUS), zrt.SessionOptions(profile_file_prefix=tmp_path / "closed")) as session:
            session.run([X])
        del session
        [path] = tmp_path.glob("closed_*.json")
        assert len(zrt.Profile.read(path).runs) == 1

    def test_trace_of_a_run(self, chain, tmp_path):
        options = zrt.RunOptions(profile_file_prefix=tmp_path / "a [run]")
        assert options.profile_files() == []
        chain.run([X], options=options)
        [path] = options.profile_files()
        assert Path(path).name.startswith("a [run]_")
        profile = zrt.Profile.read(path)
        assert len(profile.runs) == 1
        assert len(profile.nodes) == 3
        chain.run([X])
        assert options.profile_files() == [path]
        assert zrt.RunOptions().profile_files() == []

    def test_traces_of_lanes_and_prepared_runs(self, chain, tmp_path):
        prepared, lane = chain.prepare([X]), chain.lane({"x": (4,)})
        for name, run in (("prepared", prepared.run), ("lane", lane.run_with)):
            options = zrt.RunOptions(profile_file_prefix=tmp_path / name)
            run(options)
            assert len(zrt.Profile.read(options.profile_files()[0]).nodes) == 3

    def test_session_without_profiling(self, relu):
        assert relu.end_profiling() == ""
        assert relu.profiling_start_ns == 0

    def test_unwritable_trace_raises(self, build, tmp_path):
        folder = tmp_path / "gone"
        folder.mkdir()
        options = zrt.SessionOptions(profile_file_prefix=folder / "trace", log_severity_level="FATAL")
        session = zrt.Session(build(RELUS), options)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        with pytest.raises(FileError, match="ONNX Runtime could not write it"):
            session.end_profiling()

    @pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", 'x","args" : {', 'q"_kernel_time', "π"])
    def test_names_of_any_characters(self, build, name):
        model = build(RELUS)
        model.graph.node[1].name = name
        profile = zrt.Session(model, UNOPTIMIZED).profile([X], runs=1)
        assert name in {row.name for row in profile.by_node()}


class TestReading:
    @pytest.mark.parametrize(
        ("written", "name"),
        [
            # Names that no release since 1.31 writes.
            ('a"b', 'a"b'),
            ("a\nb", "a\nb"),
            (r"a\q", r"a\q"),
            # Every release may write these names: the library in use decides.
            ("ab", "ab"),
            (r"a\b", "a\b" if ort.ESCAPES_NAMES_IN_TRACES else r"a\b"),
            (r"a\"b", 'a"b' if ort.ESCAPES_NAMES_IN_TRACES else r"a\"b"),
        ],
    )
    def test_names_of_either_release(self, trace, written, name):
        head = '[{"cat" : "Node","pid" :1,"tid" :1,"dur" :2,"ts" :3,"ph" : "X","name" :"'
        profile = trace(f'{head}{written}_kernel_time","args" : {{"op_name" : "Relu"}}}}]')
        assert [node.name for node in profile.nodes] == [name]

    def test_outer_events_come_first(self, trace):
        profile = trace([event("inner", 5, 1), event("outer", 5, 9), event("first", 0, 2)])
        assert [found.name for found in profile.events] == ["first", "outer", "inner"]

    def test_operators_below_a_microsecond_have_no_share(self, trace):
        rows = trace([event("a", 0, 0), event("b", 1, 0)]).by_node()
        assert [(row.total_us, row.share) for row in rows] == [(0, 0), (0, 0)]

    def test_entries_of_other_tools_are_ignored(self, trace):
        names = {"ph": "M", "name": "thread_name", "args": {"name": "main"}}
        assert len(trace({"traceEvents": [names, event("a", 0, 1)]}).events) == 1

    def test_kernels_of_a_device(self, trace):
        profile = trace(
            [
                event("conv_kernel_time", 0, 5, op_name="Conv", provider="CUDAExecutionProvider"),
                event("gemm_f32", 1, 30, "Kernel", 7, op_name="Conv"),
                event("gemm_f32", 40, 30, "Kernel", 7, op_name="Conv"),
                event("copy", 80, 20, "Kernel", 7),
            ]
        )
        assert [(row.name, row.calls, row.total_us, row.share) for row in profile.by_kernel()] == [
            ("gemm_f32", 2, 60, 0.75),
            ("copy", 1, 20, 0.25),
        ]
        assert [row.name for row in profile.by_node()] == ["conv"]

    @pytest.mark.parametrize("shapes", [None, "", "x", [1], [{"float": "x"}], [{"float": ["n"]}], {"float": [1]}])
    def test_malformed_shapes_are_ignored(self, trace, shapes):
        assert trace([event("a", 0, 1, input_type_shape=shapes)]).nodes[0].inputs == ()

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("[" * 100_000, "it is cut short, or no trace"),
            ('"text"', "holds no list of events"),
            ([1], "event 0 is not one of ONNX Runtime's"),
            ([event("a", 0, 1), {**event("b", 0, 1), "ts": "soon"}], "event 1 is not one"),
            ([{**event("a", 0, 1), "dur": None}], "event 0 is not one"),
            ([{**event("a", 0, 1), "args": 5}], "event 0 is not one"),
        ],
    )
    def test_other_content_raises_trace_error(self, trace, content, said):
        with pytest.raises(TraceError, match=rf"trace .*trace\.json': .*{said}"):
            trace(content)


class TestWriting:
    def test_write_and_read_are_inverse(self, chain, tmp_path):
        profile = chain.profile([X], runs=2)
        profile.write(tmp_path / "written.json")
        assert zrt.Profile.read(tmp_path / "written.json") == profile

    def test_failed_write_keeps_the_old_trace(self, tmp_path):
        path = tmp_path / "trace.json"
        path.write_text("precious")
        event = zrt.ProfileEvent("Node", "add", 0, 1, 1, 1, {"fails": object()})
        with pytest.raises(TypeError, match="JSON"):
            zrt.Profile((event,)).write(path)
        assert path.read_text() == "precious"
        assert os.listdir(tmp_path) == ["trace.json"]

    def test_write_makes_a_chrome_trace(self, chain, tmp_path):
        path = tmp_path / "written.json"
        chain.profile([X], runs=1).write(path)
        document = json.loads(path.read_text("utf-8"))
        for entry in document["traceEvents"]:
            assert {"name", "cat", "ph", "ts", "dur", "pid", "tid"} <= set(entry)
            assert entry["ph"] == "X"


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 1)), max_size=12)


class TestOwnTimes:
    @given(SPANS)
    def test_own_times_are_within_the_whole(self, spans):
        events = [zrt.ProfileEvent("Node", "n", start, length, 1, thread) for start, length, thread in spans]
        events.sort(key=lambda event: (event.start_us, -event.duration_us))
        for event, own in zip(events, own_times(events), strict=True):
            assert 0 <= own <= event.duration_us

    @given(st.recursive(st.integers(0, 9), lambda inside: st.lists(inside, max_size=3), max_leaves=12))
    def test_own_times_of_nested_spans_sum_to_the_outermost(self, tree):
        events: list[zrt.ProfileEvent] = []

        def lay(node: Any, start: int) -> int:
            """Adds a span and its inner spans; returns its length, one microsecond more than theirs."""
            if isinstance(node, int):
                length = node
            else:
                length = 1
                for child in node:
                    length += lay(child, start + length)
            events.append(zrt.ProfileEvent("Node", "n", start, length, 1, 1))
            return length

        whole = lay(tree, 0)
        events.sort(key=lambda event: (event.start_us, -event.duration_us))
        assert sum(own_times(events)) == whole


def test_profile_of_the_shipped_model():
    model = onnx.load(Path(zrt.__file__).with_name("models") / "digits.onnx")
    rows = zrt.Session(model).profile([np.zeros((4, 1, 8, 8), np.float32)], runs=3).by_operator()
    calls = {row.name: row.calls for row in rows}
    # ONNX Runtime fuses them with the Relu after them: on x86 into its own Conv, on ARM into FusedConv.
    assert calls.get("Conv", 0) + calls.get("FusedConv", 0) == 6
