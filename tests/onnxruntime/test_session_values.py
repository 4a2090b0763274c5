"""`InferenceSession`: runs over `OrtValue` and over vectors of values, on the official package and on zrt's."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.onnxruntime.models import FEEDS, ONES, TWOS, model
from tests.onnxruntime.packages import ours
from tests.support import models


@pytest.fixture
def values(ort: Any) -> dict[str, Any]:
    return {name: ort.OrtValue.ortvalue_from_numpy(ONES) for name in "xy"}


@pytest.fixture
def feeds(state: Any, values: Any) -> Any:
    """A vector of the extension module with the inputs x and y."""
    vector = state.OrtValueVector()
    for value in values.values():
        vector.push_back(value._ortvalue)
    return vector


class TestOrtValues:
    """Runs over `OrtValue` and over vectors of the extension module."""

    @pytest.mark.parametrize("names", [None, [], ["z"]])
    def test_run_with_ort_values(self, ort: Any, add: Any, values: Any, names: Any) -> None:
        (z,) = add.run_with_ort_values(names, values)
        assert isinstance(z, ort.OrtValue)
        assert z.numpy().tolist() == TWOS
        (again,) = add.run_with_ort_values(names, {"x": z, "y": z}, ort.RunOptions())
        assert again.numpy().tolist() == [[4] * 4]

    def test_wrong_values_are_refused(self, ort: Any, add: Any, state: Any, values: Any, refused: Any) -> None:
        with pytest.raises(AttributeError, match="_get_c_value"):
            add.run_with_ort_values(None, FEEDS)
        with pytest.raises(ValueError, match=re.escape("Required inputs (['y']) are missing")):
            add.run_with_ort_values(None, {"x": values["x"]})
        doubles = ort.OrtValue.ortvalue_from_numpy(ONES.astype("f8"))
        with pytest.raises(state.InvalidArgument, match=re.escape("(tensor(double)) , expected: (tensor(float))")):
            add.run_with_ort_values(None, {**values, "x": doubles})
        with refused(state.InvalidArgument, "q"):
            add.run_with_ort_values(["q"], values)
        with pytest.raises(TypeError):
            add.run_with_ort_values(None, values, 1)
        with pytest.raises(TypeError):
            add.run_with_ort_values(values, values)
        # Names of nothing stand for all outputs.
        assert len(add.run_with_ort_values({}, values)) == 1

    def test_results_have_memory_of_their_own(self, add: Any, values: Any) -> None:
        (first,), (second,) = (add.run_with_ort_values(None, values) for _ in range(2))
        first.update_inplace(np.zeros((1, 4), np.float32))
        assert second.numpy().tolist() == TWOS
        assert values["x"].numpy().tolist() == ONES.tolist()

    @pytest.mark.parametrize("target", ["FLOAT16", "BFLOAT16", "BOOL", "UINT64", "STRING"])
    def test_results_have_the_type_of_the_output(self, ort: Any, load: Any, target: str) -> None:
        number = TensorProto.DataType.Value(target)
        session = load(model(f"agraph (float[n] x) => ({target.lower()}[n] z) {{ z = Cast <to = {number}> (x) }}"))
        (value,) = session.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))})
        assert (value.data_type(), value.shape()) == (f"tensor({target.lower()})", [2])

    def test_output_that_is_a_fed_weight_shares_its_memory(self, ort: Any, load: Any) -> None:
        text = "agraph (float[2] x, float[2] w) => (float[2] w, float[2] z) <float[2] w = {1, 2}> { z = Add(x, w) }"
        x, w = np.ones(2, np.float32), np.full(2, 5, np.float32)
        feeds = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in {"x": x, "w": w}.items()}
        passed, z = load(model(text)).run_with_ort_values(None, feeds)
        assert (np.shares_memory(passed.numpy(), w), z.numpy().tolist()) == (True, [6, 6])

    @pytest.mark.parametrize("shape", [",".join("1" * 65), "", "1"], ids=["declared", "undeclared", "declared wrongly"])
    def test_results_may_have_more_dimensions_than_arrays(self, ort: Any, load: Any, shape: str) -> None:
        text = f"agraph (float[1] x, int64[n] s) => (float[{shape}] z) {{ z = Reshape(x, s) }}"
        feeds = {"x": np.ones(1, np.float32), "s": np.ones(65, np.int64)}
        (value,) = load(model(text)).run_with_ort_values(
            None, {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
        )
        assert value.shape() == [1] * 65

    @ours
    def test_output_may_be_sparse_where_the_model_says_dense(self, ort: Any, load: Any) -> None:
        feeds = {"x": ort.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))}
        values = load(models.sparse_constant()).run_with_ort_values(None, feeds)
        assert [value.is_sparse_tensor() for value in values] == [True, False]

    @ours
    def test_later_runs_of_a_model_that_declares_wrongly_are_made_once(self, ort: Any, tmp_path: Path) -> None:
        options = ort.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
        session = ort.InferenceSession(models.sparse_constant(), options)
        feeds = {"x": ort.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))}
        for _ in range(4):
            session.run_with_ort_values(None, feeds)
        # The first one is two runs over arrays and one over values.
        assert Path(session.end_profiling()).read_text().count('"model_run"') == 3 + 3

    def test_absent_optional_has_no_value(self, ort: Any) -> None:
        session = ort.InferenceSession(
            model("agraph (optional(float[n]) o) => (optional(float[n]) p) { p = Identity(o) }")
        )
        (value,) = session.run_with_ort_values(None, {})
        assert not value.has_value()

    def test_run_with_ortvaluevector(self, ort: Any, state: Any, add: Any, feeds: Any, refused: Any) -> None:
        device, fetches = ort.OrtDevice.make("cpu", 0)._get_c_device(), state.OrtValueVector()
        arguments = (["x", "y"], feeds, ["z"], fetches, [device])
        add.run_with_ortvaluevector(ort.RunOptions(), *arguments)
        assert [each.numpy().tolist() for each in fetches] == [TWOS]
        with pytest.raises(TypeError):
            add.run_with_ortvaluevector(None, *arguments)
        with refused(state.InvalidArgument, "q"):
            add.run_with_ortvaluevector(ort.RunOptions(), ["x", "q"], *arguments[1:])

    def test_run_with_ortvaluevector_writes_into_given_values(self, ort: Any, state: Any, add: Any, feeds: Any) -> None:
        device = ort.OrtDevice.make("cpu", 0)._get_c_device()
        fetches, wrong = state.OrtValueVector(), state.OrtValueVector()
        place = np.zeros((1, 4), np.float32)
        fetches.push_back(ort.OrtValue.ortvalue_from_numpy(place)._ortvalue)
        add.run_with_ortvaluevector(ort.RunOptions(), ["x", "y"], feeds, ["z"], fetches, [device])
        assert place.tolist() == TWOS
        wrong.push_back(ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 4), np.float32))._ortvalue)
        with pytest.raises(state.InvalidArgument):
            add.run_with_ortvaluevector(ort.RunOptions(), ["x", "y"], feeds, ["z"], wrong, [device])


@ours
def test_run_with_ortvaluevector_binds_outputs_on_devices(ort: Any, state: Any, add: Any, feeds: Any) -> None:
    # This machine has none, so the outputs come to the host; the official package refuses the device.
    device, fetches = ort.OrtDevice.make("cuda", 0)._get_c_device(), state.OrtValueVector()
    add.run_with_ortvaluevector(ort.RunOptions(), ["x", "y"], feeds, ["z"], fetches, [device])
    assert [each.numpy().tolist() for each in fetches] == [TWOS]
    with pytest.raises(state.InvalidArgument, match="the numbers of names, values and devices differ"):
        add.run_with_ortvaluevector(ort.RunOptions(), ["x"], feeds, ["z"], fetches, [device])
