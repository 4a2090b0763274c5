import re

import numpy as np
import pytest

from tests.support import models
from zrt import providers

CPU = "CPUExecutionProvider"


@pytest.fixture
def array(tmp_path):
    """Writes an array to a file."""

    def save(values, dtype=np.float32, name="x.npy"):
        path = tmp_path / name
        np.save(path, np.asarray(values, dtype))
        return path

    return save


class TestDigits:
    def test_text_has_predictions_and_the_number_of_right_ones(self, zrt):
        out = zrt("run")
        assert "353 of 360 right (98.1 %)" in out
        # Three that it reads, drawn beside the first that it does not.
        assert "3 (86.4 %)" in out
        assert "8 (50.2 %), it is 9" in out
        assert "██" in out

    def test_json_has_every_prediction(self, zrt_json):
        document = zrt_json("run", "--provider", "cpu")
        digits = document["digits"][CPU]
        assert (digits["right"], digits["count"]) == (353, 360)
        assert len(digits["predicted"]) == len(digits["labels"]) == 360
        output = document["providers"][CPU]["outputs"]["probabilities"]
        assert output["shape"] == [360, 10]
        assert output["top"][0]["index"] == digits["predicted"][0]

    def test_shape_option_runs_the_classifier_without_digits(self, zrt_json):
        document = zrt_json("run", "--shape", "image=2,1,8,8")
        assert "digits" not in document
        assert document["providers"][CPU]["inputs"]["image"] == {
            "type": "float32",
            "shape": [2, 1, 8, 8],
            "source": "made up",
        }


class TestOutputs:
    def test_numbers_of_each_output(self, zrt_json, saved, array):
        x, y = array([1, 2, 3, 4]), array([0, 0, 0, 2], name="y.npy")
        document = zrt_json("run", saved(models.add()), "--input", f"x={x}", "--input", f"y={y}")
        assert document["finite"] is True
        output = document["providers"][CPU]["outputs"]["z"]
        assert output == {
            "kind": "tensor",
            "type": "float32",
            "shape": [4],
            "min": 1.0,
            "max": 6.0,
            "mean": 3.0,
            "deviation": pytest.approx(np.std([1, 2, 3, 6])),
            "nan": 0,
            "infinite": 0,
            "top": None,
        }

    def test_json_has_times(self, zrt_json, saved):
        document = zrt_json("run", saved(models.add()))["providers"][CPU]
        assert all(document[key] > 0 for key in ("load_ns", "first_run_ns", "second_run_ns"))

    def test_synthetic_inputs_are_the_same_each_time(self, zrt_json, saved):
        path = saved(models.double())
        first, again = (zrt_json("run", path)["providers"][CPU] for _ in range(2))
        assert first["outputs"] == again["outputs"]
        assert first["inputs"]["x"]["shape"] == [1, 4]

    def test_size_in_a_file_resolves_synthetic_inputs(self, zrt_json, saved, array):
        ids = array(np.ones((2, 7)), np.int64)
        document = zrt_json("run", saved(models.tokens()), "--input", f"ids={ids}")["providers"][CPU]
        assert document["inputs"]["ids"] == {"type": "int64", "shape": [2, 7], "source": "from a file"}
        assert document["inputs"]["mask"]["shape"] == [2, 7]
        assert document["inputs"]["mask"]["source"] == "made up"

    def test_an_empty_output_has_no_numbers(self, zrt_json, zrt, saved):
        path = saved(models.scalar_and_empty())
        output = zrt_json("run", path)["providers"][CPU]["outputs"]["e_out"]
        assert (output["shape"], output["min"], output["mean"], output["nan"]) == ([0, 3], None, None, 0)
        assert "e_out" in zrt("run", path)

    def test_non_numeric_output_has_its_kind(self, zrt_json, zrt, saved):
        path = saved(models.to_sequence())
        assert zrt_json("run", path)["providers"][CPU]["outputs"]["y"] == {"kind": "sequence"}
        assert "sequence" in zrt("run", path)

    def test_text_has_the_output_and_the_time(self, zrt, saved):
        out = zrt("run", saved(models.add()))
        for fact in (CPU, "x float32[4], made up", "z", "first run", "deviation"):
            assert fact in out


def test_non_finite_elements_are_counted_and_the_status_is_1(zrt, zrt_json, build, saved, array):
    model = build("(float[4] x) => (float[4] y) { y = Log(x) }")
    arguments = ("run", saved(model.SerializeToString()), "--input", f"x={array([-1, 0, 1, np.e])}")
    document = zrt_json(*arguments, status=1)
    output = document["providers"][CPU]["outputs"]["y"]
    assert document["finite"] is False
    assert (output["nan"], output["infinite"]) == (1, 1)
    # The others still have their range.
    assert (output["min"], output["max"]) == (0.0, pytest.approx(1.0))
    assert re.search(r"^ y .* 1 +1 *$", zrt(*arguments, status=1), re.MULTILINE)


def test_status_is_1_where_no_provider_ran(zrt_json, monkeypatch):
    monkeypatch.setattr(providers, "usable", lambda name: "out of order")
    document = zrt_json("run", status=1)
    assert document["providers"][CPU] == {"problem": "not usable here: out of order"}


class TestWrongInputs:
    @pytest.mark.parametrize(
        ("values", "dtype", "said"),
        [
            ([1, 2, 3, 4], np.float64, "float64"),
            ([1, 2], np.float32, "[2]"),
            (1.0, np.float32, "[]"),
        ],
        ids=["dtype", "shape", "rank"],
    )
    def test_array_that_does_not_fit_is_named(self, complaint, saved, array, values, dtype, said):
        err = complaint("run", saved(models.add()), "--input", f"x={array(values, dtype)}", status=2)
        assert "input 'x'" in err
        assert said in err

    def test_missing_file_fails(self, complaint, saved):
        err = complaint("run", saved(models.add()), "--input", "x=nope.npy", status=1)
        assert "x=nope.npy" in err
        assert "No such file" in err

    def test_file_of_python_objects_is_not_loaded(self, complaint, saved, tmp_path):
        path = tmp_path / "x.npy"
        np.save(path, np.array([{}]), allow_pickle=True)
        assert f"x={path}" in complaint("run", saved(models.add()), "--input", f"x={path}", status=1)

    def test_file_of_several_arrays_fails(self, complaint, saved, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, x=np.zeros(4))
        assert "several arrays" in complaint("run", saved(models.add()), "--input", f"x={path}", status=1)


class TestProviders:
    def test_each_provider_is_tried_or_has_a_reason(self, zrt_json, saved):
        answers = zrt_json("run", saved(models.add()))["providers"]
        assert list(answers) == providers.available_providers()
        for name, outcome in answers.items():
            assert ("problem" in outcome) is (providers.usable(name) is not None)

    @pytest.mark.azure
    def test_a_provider_that_took_no_node_is_not_named_as_running_them(self, zrt, zrt_json):
        answers = zrt_json("run")["providers"]
        assert [outcome["nodes"] for outcome in answers.values()] == [{CPU: 8}, {CPU: 8}]
        out = zrt("run")
        assert out.count("AzureExecutionProvider") == 1
        assert "\nAzureExecutionProvider took no node\n" in out
        assert out.count("top 5 of probabilities") == 1
        assert "nodes  8 " in out
        assert "353 of 360 right (98.1 %)\n" in out

    @pytest.mark.azure
    def test_a_chosen_provider_that_took_no_node_has_its_outputs(self, zrt):
        out = zrt("run", "--provider", "azure")
        assert "CPUExecutionProvider (AzureExecutionProvider took no node)\n" in out
        assert out.count("AzureExecutionProvider") == 1
        assert "353 of 360 right (98.1 %)\n" in out

    @pytest.mark.azure
    def test_profile_names_the_providers_that_ran_nodes(self, zrt):
        out = zrt("profile", "--provider", "azure", "--runs", "1", "--warmup", "0")
        assert "runs on  CPUExecutionProvider" in out
        assert "Azure" not in out

    def test_only_the_chosen_provider_runs(self, zrt_json, saved):
        assert list(zrt_json("run", saved(models.add()), "--provider", "CPU")["providers"]) == [CPU]

    def test_unusable_provider_is_skipped_unless_chosen(self, zrt_json, complaint, saved, monkeypatch):
        for place in (providers, providers.base):
            monkeypatch.setattr(place, "available_providers", lambda: ["WarpExecutionProvider", CPU])
        monkeypatch.setattr(providers, "usable", lambda name: "no warp core" if "Warp" in name else None)
        model = saved(models.add())
        answers = zrt_json("run", model)["providers"]
        assert answers["WarpExecutionProvider"] == {"problem": "not usable here: no warp core"}
        assert "outputs" in answers[CPU]
        assert "no warp core" in complaint("run", model, "--provider", "warp", status=1)
