"""`SessionOptions` and `RunOptions`: ONNX Runtime gets every field, and an error names the field with a bad value."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import zrt
from tests.support import tasks
from zrt._common.arguments import choose, entries, integer, path_bytes, text
from zrt._native import ffi, status
from zrt._native.library import api
from zrt.errors import ArgumentError, ClosedError, DTypeError, InvalidArgumentError, TerminatedError
from zrt.memory.allocators import read_pairs
from zrt.types import AllocatorType, ExecutionMode, GraphOptimizationLevel, LogSeverity

RELU = "(float[n] x) => (float[n] y) { y = Relu(x) }"
X = np.array([-1, 2], np.float32)


def config_of(options: zrt.SessionOptions) -> dict[str, str]:
    """The config entries as ONNX Runtime holds them."""
    handle = options.handle()
    pairs = status.make(api().GetSessionOptionsConfigEntries, "OrtKeyValuePairs", handle.pointer)
    try:
        return read_pairs(pairs)
    finally:
        api().ReleaseKeyValuePairs(pairs)


@pytest.fixture
def logged(build, capfd):
    """The log lines of ONNX Runtime about the options of a session that is loaded with them."""

    def logged(**fields: object) -> str:
        capfd.readouterr()
        zrt.Session(build(RELU), zrt.SessionOptions(log_severity_level="INFO", **fields))
        return next(line for line in capfd.readouterr().err.splitlines() if "Session Options {" in line)

    return logged


class TestSessionOptionsReachOrt:
    @pytest.mark.parametrize(
        ("fields", "sign"),
        [
            ({}, "graph_optimization_level:4 "),
            ({}, "execution_mode:0 "),
            ({}, "enable_mem_pattern:1 "),
            ({}, "enable_cpu_mem_arena:1 "),
            ({}, "enable_profiling:0 "),
            ({}, "use_deterministic_compute:0 "),
            ({}, "config_options: {  }"),
            ({"graph_optimization_level": GraphOptimizationLevel.DISABLE_ALL}, "graph_optimization_level:0 "),
            ({"graph_optimization_level": "enable_basic"}, "graph_optimization_level:1 "),
            ({"graph_optimization_level": 2}, "graph_optimization_level:2 "),
            ({"graph_optimization_level": "ENABLE_LAYOUT"}, "graph_optimization_level:3 "),
            ({"graph_optimization_level": "ENABLE_ALL"}, "graph_optimization_level:4 "),
            ({"execution_mode": "parallel"}, "execution_mode:1 "),
            ({"intra_op_num_threads": 3}, "intra_op_param:OrtThreadPoolParams { thread_pool_size: 3 "),
            ({"inter_op_num_threads": 2}, "inter_op_param:OrtThreadPoolParams { thread_pool_size: 2 "),
            ({"enable_mem_pattern": False}, "enable_mem_pattern:0 "),
            ({"enable_cpu_mem_arena": False}, "enable_cpu_mem_arena:0 "),
            ({"use_deterministic_compute": True}, "use_deterministic_compute:1 "),
            ({"logid": "my session"}, "[I:onnxruntime:my session, "),
            ({"logid": "my session"}, "session_logid:my session "),
            ({"log_verbosity_level": 7}, "session_log_verbosity_level:7 "),
            ({"intra_op_allow_spinning": False}, "session.intra_op.allow_spinning: 0 "),
            ({"intra_op_allow_spinning": True}, "session.intra_op.allow_spinning: 1 "),
            ({"inter_op_allow_spinning": False}, "session.inter_op.allow_spinning: 0 "),
            ({"intra_op_num_threads": 2, "intra_op_thread_affinities": "1"}, "session.intra_op_thread_affinities: 1 "),
            ({"set_denormal_as_zero": True}, "session.set_denormal_as_zero: 1 "),
            ({"use_env_allocators": True}, "session.use_env_allocators: 1 "),
            ({"use_device_allocator_for_initializers": True}, "session.use_device_allocator_for_initializers: 1 "),
            ({"record_placement": True}, "session.record_ep_graph_assignment_info: 1 "),
            ({"config_entries": {"my.key": "my entry"}}, "my.key: my entry "),
        ],
        ids=str,
    )
    def test_ort_logs_the_value_of_a_field(self, logged, fields, sign):
        assert sign in logged(**fields)

    def test_every_field_has_a_test(self):
        """Each new field needs a test here which shows that ONNX Runtime gets it."""
        assert {field.name for field in dataclasses.fields(zrt.SessionOptions)} == {
            "graph_optimization_level",
            "intra_op_num_threads",
            "inter_op_num_threads",
            "execution_mode",
            "enable_mem_pattern",
            "enable_cpu_mem_arena",
            "intra_op_allow_spinning",
            "inter_op_allow_spinning",
            "free_dimension_overrides",
            "free_dimension_overrides_by_denotation",
            "logid",
            "log_severity_level",
            "log_verbosity_level",
            "profile_file_prefix",
            "optimized_model_filepath",
            "use_deterministic_compute",
            "config_entries",
            "record_placement",
            # In custom_ops/test_op.py and custom_ops/test_libraries.py.
            "custom_ops",
            "custom_op_libraries",
            # In test_caller_weights.py.
            "initializers",
            "optional_initializers",
            "external_initializer_files",
            "prepacked_weights",
            "load_cancellation",
            # In tests/session/test_weightless.py.
            "weightless_source_model",
            "intra_op_thread_affinities",
            "set_denormal_as_zero",
            "use_per_session_threads",
            "thread_factory",
            "use_env_allocators",
            "use_device_allocator_for_initializers",
            "logger",
        }

    @pytest.mark.parametrize("pattern", [True, False])
    @pytest.mark.parametrize("mode", list(ExecutionMode), ids=lambda mode: mode.name)
    def test_ort_returns_the_value_of_a_field(self, pattern, mode):
        handle = zrt.SessionOptions(enable_mem_pattern=pattern, execution_mode=mode).handle()
        assert status.fetch(api().GetMemPatternEnabled, "int", handle.pointer) == pattern
        assert status.fetch(api().GetSessionExecutionMode, "ExecutionMode", handle.pointer) == mode

    def test_ort_gets_config_entries(self):
        options = zrt.SessionOptions(
            intra_op_allow_spinning=False,
            inter_op_allow_spinning=True,
            record_placement=True,
            config_entries={"a": "1", "ключ": "значение", "empty": ""},
        )
        assert config_of(options) == {
            "session.intra_op.allow_spinning": "0",
            "session.inter_op.allow_spinning": "1",
            "session.record_ep_graph_assignment_info": "1",
            "a": "1",
            "ключ": "значение",
            "empty": "",
        }
        assert config_of(zrt.SessionOptions()) == {}

    def test_config_entry_overrides_a_field(self):
        key = "session.intra_op.allow_spinning"
        assert config_of(zrt.SessionOptions(intra_op_allow_spinning=True, config_entries={key: "0"})) == {key: "0"}

    def test_log_severity_filters_the_log(self, build, capfd):
        model = build("(float[n] x) => (float[3] y) { y = Neg(x) }")
        for severity, warned in (("WARNING", True), (LogSeverity.ERROR, False), (3, False), (None, True)):
            session = zrt.Session(model, zrt.SessionOptions(log_severity_level=severity))
            capfd.readouterr()
            # The output has another shape than declared, so ONNX Runtime logs a warning.
            session.run([zrt.Value.from_array(X)], options=zrt.RunOptions(log_severity_level=4))
            session.run([zrt.Value.from_array(X)])
            assert ("does not match actual shape" in capfd.readouterr().err) == warned

    def test_free_dimensions_are_fixed_by_name(self, build):
        model = build("(float[batch, n] x) => (float[batch, n] y) { y = Neg(x) }")
        session = zrt.Session(model, zrt.SessionOptions(free_dimension_overrides={"batch": 4, "unheard of": 1}))
        assert session.inputs[0].shape == (4, "n")
        assert session.run([np.ones((4, 2), np.float32)])[0].shape == (4, 2)
        with pytest.raises(ArgumentError, match=r"expected shape \[4, n\], got \[3, 2\]"):
            session.run([np.ones((3, 2), np.float32)])

    def test_free_dimensions_are_fixed_by_denotation(self, build):
        model = build("(float[batch, n] x) => (float[batch, n] y) { y = Neg(x) }")
        model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        options = zrt.SessionOptions(free_dimension_overrides_by_denotation={"DATA_BATCH": 8})
        assert zrt.Session(model, options).inputs[0].shape == (8, "n")

    def test_optimized_model_is_written(self, build, tmp_path):
        model = build("(float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> "
                      "{ c = Add(a, b)  d = Identity(c)  y = Mul(x, d) }")  # fmt: skip
        nodes = {}
        for level in ("disable_all", "enable_all"):
            path = tmp_path / f"{level}.onnx"
            zrt.Session(model, zrt.SessionOptions(graph_optimization_level=level, optimized_model_filepath=path))
            nodes[level] = [node.op_type for node in onnx.load(path).graph.node]
            assert zrt.Session(path).run([X])[0].tolist() == [-4, 12]
        assert nodes == {"disable_all": ["Add", "Identity", "Mul"], "enable_all": ["Mul"]}

    def test_profile_is_written(self, build, tmp_path):
        session = zrt.Session(build(RELU), zrt.SessionOptions(profile_file_prefix=tmp_path / "trace"))
        session.run([X])
        trace = Path(session.end_profiling())
        assert trace.parent == tmp_path
        assert trace.name.startswith("trace")
        assert "Relu" in {event["args"].get("op_name") for event in json.loads(trace.read_text())}
        assert session.run([X])[0].tolist() == [0, 2]

    def test_end_profiling_without_a_profile_returns_an_empty_path(self, relu):
        assert relu.end_profiling() == ""

    def test_arena_can_be_disabled(self, build):
        kinds = {}
        for arena in (True, False):
            session = zrt.Session(build(RELU), zrt.SessionOptions(enable_cpu_mem_arena=arena))
            kinds[arena] = session.allocator().memory.allocator_type
        assert kinds == {True: AllocatorType.ARENA, False: AllocatorType.DEVICE}

    def test_session_starts_its_threads(self, build):
        if not tasks.TASKS.is_dir():
            pytest.skip("counts threads in Linux's /proc")
        before = tasks.count()
        # The caller's own thread is one of the four.
        session = zrt.Session(build(RELU), zrt.SessionOptions(intra_op_num_threads=4))
        assert tasks.count() == before + 3
        session.close()
        del session
        assert tasks.count() == before

    def test_one_object_loads_several_sessions(self, build):
        options = zrt.SessionOptions(intra_op_num_threads=1)
        assert [zrt.Session(build(RELU), options).run([X])[0].tolist() for _ in range(2)] == [[0, 2]] * 2


class TestInvalidSessionOptions:
    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"graph_optimization_level": "most"}, ArgumentError, "graph_optimization_level: 'most' is none of DIS"),
            ({"graph_optimization_level": 5}, ArgumentError, "graph_optimization_level: 5 is none of"),
            ({"graph_optimization_level": True}, ArgumentError, "graph_optimization_level: True is none of"),
            ({"graph_optimization_level": None}, ArgumentError, "graph_optimization_level: None is none of"),
            ({"execution_mode": 2}, ArgumentError, "execution_mode: 2 is none of SEQUENTIAL, PARALLEL"),
            ({"intra_op_num_threads": -1}, ArgumentError, "intra_op_num_threads: -1 is not between 0 and"),
            ({"intra_op_num_threads": 2**31}, ArgumentError, "intra_op_num_threads: 2147483648 is not between"),
            ({"intra_op_num_threads": True}, DTypeError, "intra_op_num_threads: expected an int, got bool"),
            ({"intra_op_num_threads": 1.0}, DTypeError, "intra_op_num_threads: expected an int, got float"),
            ({"inter_op_num_threads": "2"}, DTypeError, "inter_op_num_threads: expected an int, got str"),
            ({"enable_mem_pattern": 1}, DTypeError, "enable_mem_pattern: expected True or False, got int 1"),
            ({"enable_cpu_mem_arena": None}, DTypeError, "enable_cpu_mem_arena: expected True or False"),
            ({"use_deterministic_compute": "yes"}, DTypeError, "use_deterministic_compute: expected True or False"),
            ({"record_placement": 0}, DTypeError, "record_placement: expected True or False"),
            ({"set_denormal_as_zero": 1}, DTypeError, "set_denormal_as_zero: expected True or False"),
            ({"use_per_session_threads": 0}, DTypeError, "use_per_session_threads: expected True or False"),
            ({"use_env_allocators": "1"}, DTypeError, "use_env_allocators: expected True or False"),
            ({"use_device_allocator_for_initializers": 1}, DTypeError, "use_device_allocator_for_initializers: expec"),
            ({"thread_factory": 5}, DTypeError, "thread_factory: expected a function of a thread's work, got int"),
            ({"intra_op_thread_affinities": 5}, DTypeError, "intra_op_thread_affinities: expected a str, got int 5"),
            ({"intra_op_thread_affinities": "1"}, ArgumentError, "intra_op_thread_affinities: '1' needs intra_op_num"),
            *(
                ({"use_per_session_threads": False, **field}, ArgumentError, f"^{next(iter(field))}: with use_per_ses")
                for field in (
                    {"intra_op_num_threads": 1},
                    {"inter_op_num_threads": 2},
                    {"intra_op_allow_spinning": False},
                    {"inter_op_allow_spinning": True},
                    {"intra_op_thread_affinities": "1"},
                    {"thread_factory": print},
                )
            ),
            ({"intra_op_allow_spinning": 1}, DTypeError, "intra_op_allow_spinning: expected True or False"),
            ({"inter_op_allow_spinning": "0"}, DTypeError, "inter_op_allow_spinning: expected True or False"),
            ({"free_dimension_overrides": ["batch"]}, DTypeError, "free_dimension_overrides: expected a dict of sizes"),
            ({"free_dimension_overrides": {"n": -1}}, ArgumentError, r"free_dimension_overrides\['n'\]: -1 is not"),
            ({"free_dimension_overrides": {"n": 2**63}}, ArgumentError, r"free_dimension_overrides\['n'\]: "),
            ({"free_dimension_overrides": {5: 1}}, DTypeError, "free_dimension_overrides: expected a str, got int 5"),
            ({"free_dimension_overrides_by_denotation": {"n": "4"}}, DTypeError, r"by_denotation\['n'\]: expected"),
            ({"logid": b"x"}, DTypeError, "logid: expected a str, got bytes"),
            ({"logid": "a\0b"}, ArgumentError, "logid: .* holds a NUL character"),
            ({"logid": "\ud800"}, ArgumentError, "logid: .* cannot be written as UTF-8"),
            ({"log_severity_level": "loud"}, ArgumentError, "log_severity_level: 'loud' is none of VERBOSE"),
            ({"log_verbosity_level": -1}, ArgumentError, "log_verbosity_level: -1 is not between"),
            ({"profile_file_prefix": 5}, DTypeError, "profile_file_prefix: expected a path, got int 5"),
            ({"optimized_model_filepath": "a\0b"}, ArgumentError, "optimized_model_filepath: .* NUL"),
            ({"config_entries": {"a": 1}}, DTypeError, r"config_entries\['a'\]: expected a str, got int 1"),
            ({"config_entries": {1: "a"}}, DTypeError, "config_entries: expected a str, got int 1"),
            ({"config_entries": [("a", "1")]}, DTypeError, "config_entries: expected a dict of strings, got list"),
            ({"config_entries": {"": "1"}}, ArgumentError, r"SessionOptions\.config_entries\[''\]: "),
            ({"config_entries": {"k" * 2000: "1"}}, ArgumentError, r"SessionOptions\.config_entries\['kkk"),
        ],
        ids=lambda argument: f"{argument!r:.60}" if isinstance(argument, dict) else "",
    )
    def test_error_names_the_field(self, build, fields, error, message):
        options = zrt.SessionOptions(**fields)
        with pytest.raises(error, match=message):
            zrt.Session(build(RELU), options)

    @pytest.mark.parametrize("options", [5, {"intra_op_num_threads": 1}, zrt.SessionOptions], ids=str)
    def test_options_of_a_wrong_type_raise(self, build, options):
        with pytest.raises(DTypeError, match="options: expected SessionOptions, got"):
            zrt.Session(build(RELU), options)

    def test_unknown_field_raises(self):
        with pytest.raises(TypeError, match="nonesuch"):
            zrt.SessionOptions(nonesuch=1)
        with pytest.raises(AttributeError):
            zrt.SessionOptions().nonesuch = 1

    def test_optimized_model_in_a_missing_folder_raises(self, build, tmp_path):
        path = tmp_path / "no such folder" / "model.onnx"
        with pytest.raises(zrt.Error, match="ModelProto: "):
            zrt.Session(build(RELU), zrt.SessionOptions(optimized_model_filepath=path))


def test_options_survive_json():
    options = zrt.SessionOptions(
        graph_optimization_level=GraphOptimizationLevel.ENABLE_BASIC,
        free_dimension_overrides={"batch": 1},
        config_entries={"a": "b"},
        logid="x",
    )
    assert zrt.SessionOptions(**json.loads(json.dumps(dataclasses.asdict(options)))) == options


class TestRunOptions:
    def test_ort_gets_every_argument(self):
        options = zrt.RunOptions(
            tag="my tag", log_severity_level="error", log_verbosity_level=3, config_entries={"a": "1", "b": ""}
        )
        table, pointer = api(), options._open().pointer
        tag = status.fetch(table.RunOptionsGetRunTag, "const char *", pointer)
        assert ffi.string(tag) == b"my tag"
        assert status.fetch(table.RunOptionsGetRunLogSeverityLevel, "int", pointer) == 3
        assert status.fetch(table.RunOptionsGetRunLogVerbosityLevel, "int", pointer) == 3
        assert ffi.string(table.GetRunConfigEntry(pointer, b"a")) == b"1"
        assert ffi.string(table.GetRunConfigEntry(pointer, b"b")) == b""
        assert not table.GetRunConfigEntry(pointer, b"c")

    def test_attributes_hold_the_arguments(self):
        options = zrt.RunOptions(tag="t", log_severity_level=1, log_verbosity_level=2, config_entries={"a": "1"})
        assert (options.tag, options.log_severity_level, options.log_verbosity_level) == ("t", 1, 2)
        assert options.config_entries == {"a": "1"}
        assert not options.terminated

    def test_tag_marks_the_log(self, build, capfd):
        session = zrt.Session(build("(float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }"))
        with pytest.raises(zrt.OrtError):
            session.run([X, np.ones(3, np.float32)], options=zrt.RunOptions(tag="request 17"))
        assert re.search(r"\[E:onnxruntime:[^\]]*request 17", capfd.readouterr().err)

    def test_severity_silences_a_run(self, build, capfd):
        session = zrt.Session(build("(float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }"))
        capfd.readouterr()
        with pytest.raises(zrt.OrtError):
            session.run([X, np.ones(3, np.float32)], options=zrt.RunOptions(log_severity_level=LogSeverity.FATAL))
        assert capfd.readouterr().err == ""

    def test_config_entries_take_effect(self, build):
        # The session has no arena, so that a run cannot shrink it: ONNX Runtime read the entry.
        session = zrt.Session(build(RELU), zrt.SessionOptions(enable_cpu_mem_arena=False))
        shrink = zrt.RunOptions(config_entries={"memory.enable_memory_arena_shrinkage": "cpu:0"})
        with pytest.raises(InvalidArgumentError, match="memory arena shrink"):
            session.run([X], options=shrink)
        assert zrt.Session(build(RELU)).run([X], options=shrink)[0].tolist() == [0, 2]

    def test_shrink_arenas_shrinks_the_arena(self, build):
        session = zrt.Session(build(RELU), zrt.SessionOptions(intra_op_num_threads=1))
        allocator = session.allocator()
        # The arena keeps its first allocation, so this run needs a second one.
        session.run([X])
        allocator.allocate(1).close()
        allocator.allocate(1 << 22).close()
        before = allocator.stats()
        session.run([X], options=zrt.RunOptions(shrink_arenas=[zrt.MemoryInfo.cpu()]))
        change = allocator.stats() - before
        assert change.num_arena_shrinkages == 1
        assert change.total_allocated_bytes <= -(1 << 22)

    def test_shrink_arenas_accepts_several_devices(self):
        arenas = [zrt.MemoryInfo.cpu(), zrt.MemoryInfo.cuda(3)]
        options = zrt.RunOptions(shrink_arenas=arenas, config_entries={"a": "1"})
        assert (options.shrink_arenas, options.config_entries) == (arenas, {"a": "1"})
        key = b"memory.enable_memory_arena_shrinkage"
        assert ffi.string(api().GetRunConfigEntry(options._open().pointer, key)) == b"cpu:0;gpu:3"

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"shrink_arenas": 5}, DTypeError, "shrink_arenas: expected a list of MemoryInfo, got int 5"),
            ({"shrink_arenas": "cpu:0"}, DTypeError, "shrink_arenas: expected a list of MemoryInfo, got str 'cpu:0'"),
            ({"shrink_arenas": [zrt.MemoryInfo.of("a", "NPU")]}, ArgumentError, "shrink_arenas: memory 'a': "),
            ({"tag": 5}, DTypeError, "tag: expected a str, got int 5"),
            ({"tag": "a\0b"}, ArgumentError, "tag: .* NUL"),
            ({"log_severity_level": "loud"}, ArgumentError, "log_severity_level: 'loud' is none of"),
            ({"log_verbosity_level": -1}, ArgumentError, "log_verbosity_level: -1 is not between"),
            ({"config_entries": ["a"]}, DTypeError, "config_entries: expected a dict of strings, got list"),
            ({"config_entries": {"a": 1}}, DTypeError, r"config_entries\['a'\]: expected a str, got int 1"),
        ],
        ids=str,
    )
    def test_wrong_arguments_raise(self, arguments, error, message):
        with pytest.raises(error, match=message):
            zrt.RunOptions(**arguments)

    def test_closed_run_options_raise(self, relu):
        options = zrt.RunOptions()
        options.close()
        for call in (options.terminate, options.reset, lambda: relu.run([X], options=options)):
            with pytest.raises(ClosedError, match="this RunOptions is closed"):
                call()
        assert relu.run([X])[0].tolist() == [0, 2]

    def test_every_kind_of_run_accepts_them(self, add):
        options = zrt.RunOptions(tag="x")
        value = zrt.Value.from_array(X)
        for _ in range(2):
            assert add.run([X, X], options=options)[0].tolist() == [-2, 4]
            assert add.run([value, X], options=options)[0].tolist() == [-2, 4]
            assert add.prepare([X, X]).run(options)[0].tolist() == [-2, 4]


class TestTermination:
    @pytest.mark.parametrize("form", ["run", "values", "prepared", "binding"])
    def test_another_thread_ends_a_run(self, loop, background, endless, form):
        options = zrt.RunOptions()
        if form == "prepared":
            prepared = loop.prepare(endless)
            job = background(lambda: prepared.run(options))
        elif form == "values":
            values = {name: zrt.Value.from_array(array) for name, array in endless.items()}
            job = background(lambda: loop.run(values, options=options))
        elif form == "binding":
            binding = loop.binding()
            for name, array in endless.items():
                binding.bind_input(name, array)
            binding.bind_output("y")
            job = background(lambda: binding.run(options))
        else:
            job = background(lambda: loop.run(endless, options=options))
        job.under_way()
        assert job.running
        options.terminate()
        assert options.terminated
        with pytest.raises(TerminatedError, match="terminate flag") as caught:
            job.result()
        assert caught.value.code == 1
        # The session still works.
        assert loop.run({"n": np.array(2), "x": X[1:]})[0].tolist() == [8]

    def test_terminate_ends_all_runs_with_the_object_only(self, loop, background, endless):
        mine, other = zrt.RunOptions(), zrt.RunOptions()
        jobs = [background(lambda: loop.run(endless, options=mine)) for _ in range(3)]
        apart = background(lambda: loop.run(endless, options=other))
        for job in [*jobs, apart]:
            job.under_way()
        mine.terminate()
        for job in jobs:
            with pytest.raises(TerminatedError):
                job.result()
        assert apart.running
        other.terminate()
        with pytest.raises(TerminatedError):
            apart.result()

    def test_terminated_options_refuse_runs_until_reset(self, relu):
        options = zrt.RunOptions()
        options.terminate()
        for _ in range(2):
            with pytest.raises(TerminatedError):
                relu.run([X], options=options)
        assert relu.run([X])[0].tolist() == [0, 2]
        options.reset()
        assert not options.terminated
        assert relu.run([X], options=options)[0].tolist() == [0, 2]

    def test_other_failures_are_not_terminated_errors(self, add):
        options = zrt.RunOptions(log_severity_level=4)
        with pytest.raises(zrt.OrtError) as caught:
            add.run([X, np.ones(3, np.float32)], options=options)
        assert not isinstance(caught.value, TerminatedError)

    def test_options_may_be_closed_during_a_run(self, loop, background, endless):
        options, switch = zrt.RunOptions(), zrt.RunOptions()
        options.close()
        job = background(lambda: loop.run(endless, options=switch))
        job.under_way()
        switch.terminate()
        switch.close()
        with pytest.raises(TerminatedError):
            job.result()


class TestHelpers:
    def test_choose_accepts_members_names_and_values(self):
        for value in (ExecutionMode.PARALLEL, "PARALLEL", "parallel", 1):
            assert choose(ExecutionMode, value, "mode") is ExecutionMode.PARALLEL

    def test_integer_checks_the_range(self):
        assert integer(5, "n", 5, 5) == 5
        with pytest.raises(ArgumentError, match="n: 6 is not between 5 and 5"):
            integer(6, "n", 5, 5)

    def test_text_and_entries_encode_utf_8(self):
        assert text("ключ", "key") == "ключ".encode()
        assert entries({"a": "b"}, "map") == [(b"a", b"b")]

    def test_path_bytes_accepts_str_and_path(self, tmp_path):
        assert path_bytes(tmp_path, "path") == path_bytes(str(tmp_path), "path") == bytes(tmp_path)
