"""`SessionOptions` and `RunOptions`: ONNX Runtime gets every field, and an error names the field with a bad value."""

import dataclasses
import re

import numpy as np
import onnx
import pytest

import zrt
from tests.support import tasks
from tests.support.bindings import bind
from zrt._native import ffi, status
from zrt._native.library import api
from zrt.errors import ArgumentError, DTypeError, FileError, InvalidArgumentError, TerminatedError
from zrt.types import AllocatorType, GraphOptimizationLevel, LogSeverity

RELU = "(float[n] x) => (float[n] y) { y = Relu(x) }"
X = np.array([-1, 2], np.float32)


@pytest.fixture
def logged(build, capfd):
    """The log lines of ONNX Runtime about the options of a session that is loaded with them."""

    def logged(**fields: object) -> str:
        capfd.readouterr()
        zrt.Session(build(RELU), zrt.SessionOptions(log_severity_level="INFO", **fields))
        return next(line for line in capfd.readouterr().err.splitlines() if "Session Options {" in line)

    return logged


class TestSessionOptionsReachOrt:
    @pytest.mark.parametrize(("fields", "sign"), [
        ({}, "graph_optimization_level:4 "), ({}, "execution_mode:0 "), ({}, "enable_mem_pattern:1 "),
        ({}, "enable_cpu_mem_arena:1 "), ({}, "enable_profiling:0 "), ({}, "use_deterministic_compute:0 "),
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
    ], ids=str)  # fmt: skip
    def test_ort_logs_the_value_of_a_field(self, logged, fields, sign):
        assert sign in logged(**fields)

    def test_ort_gets_config_entries(self):
        options = zrt.SessionOptions(
            intra_op_allow_spinning=False,
            inter_op_allow_spinning=True,
            record_placement=True,
            config_entries={"a": "1", "ключ": "значение", "empty": ""},
        )
        assert options.effective_config_entries() == {
            "session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "1",
            "session.record_ep_graph_assignment_info": "1", "a": "1", "ключ": "значение", "empty": "",
        }  # fmt: skip
        assert zrt.SessionOptions().effective_config_entries() == {}

    def test_config_entry_overrides_a_field(self):
        key = "session.intra_op.allow_spinning"
        assert zrt.SessionOptions(
            intra_op_allow_spinning=True, config_entries={key: "0"}
        ).effective_config_entries() == {key: "0"}

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


class TestInvalidSessionOptions:
    @pytest.mark.parametrize(("field", "value"), [
        ("intra_op_num_threads", 1), ("inter_op_num_threads", 2), ("intra_op_allow_spinning", False),
        ("inter_op_allow_spinning", True), ("intra_op_thread_affinities", "1"), ("thread_factory", print),
    ])  # fmt: skip
    def test_threads_of_the_environment_take_no_options_of_a_session(self, build, field, value):
        options = zrt.SessionOptions(use_per_session_threads=False, **{field: value})
        with pytest.raises(ArgumentError, match=f"^{field}: with use_per_session_threads=False"):
            zrt.Session(build(RELU), options)

    @pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(zrt.SessionOptions)])
    def test_error_names_the_field_with_an_object_of_a_wrong_type(self, build, field):
        options = zrt.SessionOptions(**{field: object()})
        with pytest.raises((DTypeError, ArgumentError), match=f"{field}.*object"):
            zrt.Session(build(RELU), options)

    def test_unknown_field_raises(self):
        with pytest.raises(TypeError, match="nonesuch"):
            zrt.SessionOptions(nonesuch=1)
        with pytest.raises(AttributeError):
            zrt.SessionOptions().nonesuch = 1

    def test_optimized_model_in_a_missing_folder_raises(self, build, tmp_path):
        path = tmp_path / "no such folder" / "model.onnx"
        with pytest.raises(FileError, match=f"optimized_model_filepath: {str(path)!r} cannot be written"):
            zrt.Session(build(RELU), zrt.SessionOptions(optimized_model_filepath=path))


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

    def test_every_kind_of_run_accepts_them(self, add):
        options = zrt.RunOptions(tag="x")
        value = zrt.Value.from_array(X)
        for _ in range(2):
            assert add.run([X, X], options=options)[0].tolist() == [-2, 4]
            assert add.run([value, X], options=options)[0].tolist() == [-2, 4]
            assert add.prepare([X, X]).run(options)[0].tolist() == [-2, 4]


class TestTermination:
    @pytest.mark.parametrize(
        "start",
        [
            lambda session, feeds: lambda options: session.run(feeds, options=options),
            lambda session, feeds: (
                lambda options: session.run(
                    {name: zrt.Value.from_array(array) for name, array in feeds.items()}, options=options
                )
            ),
            lambda session, feeds: session.prepare(feeds).run,
            lambda session, feeds: bind(session, feeds, "y").run,
        ],
        ids=["run", "values", "prepared", "binding"],
    )
    def test_another_thread_ends_a_run(self, loop, background, endless, start):
        options, run = zrt.RunOptions(), start(loop, endless)
        job = background(lambda: run(options))
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
