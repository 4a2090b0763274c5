"""`SessionOptions` and `RunOptions` have the same effects on sessions and runs as those of the official package."""

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.onnxruntime.models import FEEDS, TWOS, identity, model
from tests.support import models, plugin
from tests.support.models import LOOP
from tests.support.together import in_threads

CPU = "CPUExecutionProvider"

# The model is z = x + w, and the first of the weights w is 0.
N = 64
X = {"x": np.ones(N, np.float32)}
NEGATED = "agraph (float[n] x) => (float[n] y) { y = Neg(x) }"
FOLDED = "agraph (float[n] x) => (float[n] y) { a = Identity(x) b = Identity(a) y = Abs(b) }"


def outside(folder: Path) -> str:
    """The path of the model with its weights in the file w.bin beside it."""
    return str(models.save_apart(models.weighted(), folder / "m.onnx", "w.bin"))


@pytest.fixture
def load(ort, options) -> Callable[..., Any]:
    """A session on the CPU with the options; without `enable_fallback` an error comes out as it is."""

    def load(model: Any = None, providers: Any = (CPU,)) -> Any:
        model = models.weighted() if model is None else model
        providers = list(providers) if providers is not None else None
        return ort.InferenceSession(model, options, providers=providers, enable_fallback=0)

    return load


def total(session: Any) -> float:
    return float(session.run(None, X)[0][0])


class TestSharing:
    def test_session_keeps_its_settings(self, options, load) -> None:
        options.add_session_config_entry("key", "value")
        first = load()
        options.logid = "second"
        options.add_session_config_entry("key", "other")
        second = load()
        assert first.get_session_options().logid == ""
        assert first.get_session_options().get_session_config_entry("key") == "value"
        assert second.get_session_options().logid == "second"
        assert second.get_session_options().get_session_config_entry("key") == "other"

    def test_session_returns_a_copy_of_its_own(self, ort, options, load) -> None:
        session = load()
        session.get_session_options().logid = "changed"
        assert type(session.get_session_options()) is ort.SessionOptions
        assert session.get_session_options().logid == "changed"
        assert options.logid == load().get_session_options().logid == ""


class TestEffects:
    def test_optimized_model_is_written(self, ort, options, load, tmp_path) -> None:
        counts = {}
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
            options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
            options.optimized_model_filepath = str(tmp_path / level)
            load(model(FOLDED))
            counts[level] = len(onnx.load(tmp_path / level).graph.node)
        assert counts == {"ORT_DISABLE_ALL": 3, "ORT_ENABLE_ALL": 1}

    def test_optimized_model_in_a_missing_folder_is_an_invalid_argument(self, options, load, tmp_path) -> None:
        options.optimized_model_filepath = str(tmp_path / "missing" / "m.onnx")
        with pytest.raises(Exception, match=r"SystemError : 2|cannot be written") as caught:
            load()
        assert type(caught.value).__name__ == "InvalidArgument"

    def test_free_dimension_is_fixed(self, options, load) -> None:
        options.add_free_dimension_override_by_name("n", N)
        assert load(identity("float")).get_inputs()[0].shape == [N]

    @pytest.mark.parametrize("size", [-1, -7, -(2**63)])
    def test_free_dimension_of_negative_size_stays_free(self, options, load, size) -> None:
        options.add_free_dimension_override_by_name("n", size)
        options.add_free_dimension_override_by_denotation("DATA_BATCH", size)
        session = load(identity("float"))
        for count in (0, 1, N):
            assert session.run(None, {"x": np.zeros(count, np.float32)})[0].shape == (count,)

    def test_first_of_several_sizes_is_taken(self, options, load) -> None:
        for size in (N, N + 1, -1):
            options.add_free_dimension_override_by_name("n", size)
        assert load(identity("float")).get_inputs()[0].shape == [N]

    @pytest.mark.parametrize("level", [9, -5])
    def test_unknown_log_severity_raises_at_load(self, options, load, level) -> None:
        options.log_severity_level = level
        with pytest.raises(RuntimeError, match=f"Not a valid onnxruntime::logging::Severity value: {level}"):
            load()

    def test_threads_of_the_environment_must_be_there(self, options, load) -> None:
        options.use_per_session_threads = False
        with pytest.raises(RuntimeError, match=r"(?i)pools"):
            load()

    @pytest.mark.parametrize("name", ["intra_op_num_threads", "inter_op_num_threads", "log_verbosity_level"])
    def test_negative_numbers_stand_for_the_default(self, options, load, name) -> None:
        setattr(options, name, -1)
        assert total(load()) == 1

    def test_parallel_mode_computes_the_same(self, ort, options, load) -> None:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.enable_mem_pattern = options.enable_cpu_mem_arena = False
        options.use_deterministic_compute = True
        assert total(load()) == 1

    def test_load_is_canceled(self, state, options, load) -> None:
        options.set_load_cancellation_flag(True)
        with pytest.raises(state.ModelLoadCanceled, match="MODEL_LOAD_CANCELED"):
            load()
        options.set_load_cancellation_flag(False)
        assert total(load()) == 1


class TestWeights:
    @pytest.fixture
    def weight(self, ort) -> Any:
        return ort.OrtValue.ortvalue_from_numpy(np.full(N, 5, np.float32))

    def test_replace_those_of_the_model(self, options, load, weight) -> None:
        options.add_initializer("w", weight)
        assert total(load()) == 6

    def test_that_the_model_lacks_are_ignored(self, options, load, weight) -> None:
        options.add_initializer("unknown", weight)
        assert total(load()) == 1

    def test_replace_those_outside_the_model(self, options, load, weight, tmp_path) -> None:
        options.add_external_initializers(["w"], [weight])
        assert total(load(outside(tmp_path))) == 6

    def test_outside_that_the_model_lacks_raise(self, options, load, weight, tmp_path) -> None:
        options.add_external_initializers(["unknown"], [weight])
        with pytest.raises(Exception, match="unknown"):
            load(outside(tmp_path))

    def test_come_from_files_in_memory(self, options, load, tmp_path) -> None:
        model = outside(tmp_path)
        (tmp_path / "w.bin").unlink()
        content = np.full(N, 7, np.float32).tobytes()
        options.add_external_initializers_from_files_in_memory(["w.bin"], [content], [len(content)])
        assert total(load(model)) == 8


class TestProviders:
    @pytest.fixture
    def _registered(self, ort) -> Iterator[None]:
        """The tests' own provider library, whose devices negate for the sessions that ask for them."""
        ort.register_execution_provider_library("test_options_in_sessions", str(plugin.path()))
        yield
        gc.collect()
        ort.unregister_execution_provider_library("test_options_in_sessions")

    @pytest.mark.parametrize("names", [[CPU], pytest.param(["AzureExecutionProvider", CPU], marks=pytest.mark.azure)])
    def test_of_the_options_are_used(self, options, load, names) -> None:
        for name in names:
            options.add_provider(name, {})
        assert load(providers=None).get_providers() == names

    def test_of_the_call_take_precedence_with_a_warning(self, options, load) -> None:
        options.add_provider(CPU, {})
        with pytest.warns(UserWarning, match="providers"):
            assert total(load()) == 1

    @pytest.mark.usefixtures("_registered")
    @pytest.mark.parametrize("names", [[CPU], [plugin.PROVIDER, CPU]])
    def test_of_devices_are_used(self, ort, options, load, names) -> None:
        for name in names:
            device = next(device for device in ort.get_ep_devices() if device.ep_name == name)
            options.add_provider_for_devices([device], {})
        assert load(model(NEGATED), providers=None).get_providers() == names

    @pytest.mark.usefixtures("_registered")
    def test_of_a_policy_are_used(self, ort, options, load) -> None:
        assert load(model(NEGATED), providers=None).get_providers() == [CPU]
        options.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.PREFER_CPU)
        assert load(model(NEGATED), providers=None).get_providers() == [plugin.PROVIDER, CPU]
        assert total(load(providers=None)) == 1

    def test_of_a_delegate_are_used(self, ort, options, load) -> None:
        calls = []

        def choose(*arguments: Any) -> list[Any]:
            calls.append(arguments)
            return [device for device in arguments[0] if device.ep_name == CPU]

        options.set_provider_selection_policy_delegate(choose)
        assert total(load(providers=None)) == 1
        ((devices, model, runtime, most),) = calls
        assert {type(device) for device in devices} == {ort.OrtEpDevice}
        assert model["graph_name"] == "test"
        assert runtime == {}
        assert most == 8

    @pytest.mark.parametrize("fallback", [0, 1])
    def test_of_a_delegate_that_raises_do_not_load(self, ort, state, options, fallback) -> None:
        options.set_provider_selection_policy_delegate(lambda *arguments: 1 // 0)
        with pytest.raises(state.Fail, match="ZeroDivisionError"):
            ort.InferenceSession(models.weighted(), options, enable_fallback=fallback)


@pytest.mark.parametrize("fallback", [0, 1])
@pytest.mark.parametrize(
    ("name", "value"), [("q", np.ones(4, np.float32)), ("w", np.ones(64)), ("w", np.ones(5, np.float32))], ids=str
)
def test_weights_that_do_not_fit_fail(ort, state, options, tmp_path, fallback, name, value) -> None:
    options.add_external_initializers([name], [ort.OrtValue.ortvalue_from_numpy(value)])
    with pytest.raises(state.Fail):
        ort.InferenceSession(outside(tmp_path), options, enable_fallback=fallback)


class TestRuns:
    @pytest.fixture
    def runs(self, ort) -> Any:
        return ort.RunOptions()

    def test_settings_do_not_change_results(self, load, runs) -> None:
        session = load()
        runs.logid = "run"
        runs.log_severity_level = 3
        runs.log_verbosity_level = -3
        runs.only_execute_path_to_fetches = True
        runs.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        for _ in range(2):
            assert session.run(None, X, runs)[0][0] == 1
        runs.logid = "other"
        assert session.run(None, X, runs)[0][0] == 1

    def test_wrong_config_entry_raises(self, state, load, runs) -> None:
        runs.add_run_config_entry("memory.enable_memory_arena_shrinkage", "foo:0")
        with pytest.raises(state.InvalidArgument, match="2 : INVALID_ARGUMENT : Unsupported device specified"):
            load().run(None, X, runs)

    def test_unknown_log_severity_raises(self, state, load, runs) -> None:
        runs.log_severity_level = 9
        with pytest.raises(state.Fail, match="Not a valid onnxruntime::logging::Severity value: 9"):
            load().run(None, X, runs)

    def test_terminated_options_refuse_runs_until_they_are_reset(self, state, load, runs) -> None:
        session = load()
        for _ in range(2):
            runs.terminate = True
            with pytest.raises(
                state.Fail,
                match=r"^\[ONNXRuntimeError\] : 1 : FAIL : Exiting due to terminate flag being set to true\.$",
            ):
                session.run(None, X, runs)
            assert runs.terminate is True
            runs.terminate = False
            assert session.run(None, X, runs)[0][0] == 1

    def test_terminate_ends_a_run_that_has_begun(self, state, load, runs, background, endless) -> None:
        session = load(model(f"agraph {LOOP}"))
        job = background(lambda: session.run(None, endless, runs))
        job.under_way()
        # A change makes new options for the next run, and the first must end all the same.
        runs.logid = "later"
        runs.terminate = True
        with pytest.raises(state.Fail, match="terminate flag"):
            job.result()

    def test_options_serve_several_threads(self, load, runs) -> None:
        session = load()
        results: list[float] = []
        in_threads(*[lambda: results.append(session.run(None, X, runs)[0][0])] * 4)
        assert results == [1] * 4


class TestOptionsOfTheModel:
    """With ORT_LOAD_CONFIG_FROM_MODEL=1 the model's metadata has the options, in the place of the caller's."""

    @pytest.fixture
    def options_of(self, ort, options, monkeypatch) -> Any:
        def options_of(config: str | None, variable: str = "1") -> Any:
            proto = onnx.load_from_string(model())
            if config is not None:
                onnx.helper.set_model_props(proto, {"ort_config": config})
            options.logid = "mine"
            monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", variable)
            session = ort.InferenceSession(proto.SerializeToString(), options, enable_fallback=False)
            assert session.run(None, FEEDS)[0].tolist() == TWOS
            return session.get_session_options()

        return options_of

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"intra_op_num_threads": 2, "inter_op_num_threads": 3}, {"intra_op_num_threads": 2}),
            ({"execution_mode": 1, "graph_optimization_level": 1}, {"execution_mode": 1}),
            ({"enable_profiling": 0, "unknown": 5}, {"enable_profiling": 0}),
            ({}, {}),
            (3, {}),
        ],
    )
    def test_take_the_place_of_the_callers(self, options_of, settings, expected) -> None:
        options = options_of(json.dumps({"session_options": settings}))
        expected = {"intra_op_num_threads": 0, "execution_mode": 0, **expected}
        assert {name: int(getattr(options, name)) for name in expected} == expected
        assert options.logid == ""

    def test_are_the_defaults_without_metadata(self, options_of) -> None:
        assert options_of(None).intra_op_num_threads == 0

    def test_are_left_alone_without_the_variable(self, options_of) -> None:
        options = options_of('{"session_options": {"intra_op_num_threads": 2}}', "0")
        assert (options.logid, options.intra_op_num_threads) == ("mine", 1)

    @pytest.mark.parametrize("config", ["{", '{"session_options": {"execution_mode": 7}}'])
    def test_that_are_wrong_raise(self, options_of, state, config) -> None:
        with pytest.raises((RuntimeError, state.Fail), match=r"ort_config|execution_mode"):
            options_of(config)
