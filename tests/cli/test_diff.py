"""``zrt diff``: two ways to run a model, in words."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.diagnosis.test_diff import APPROXIMATE, GELU, layers
from tests.support import models
from zrt.cli.diff import _side
from zrt.types import LogSeverity


@pytest.fixture
def model(saved: Callable[..., Path]) -> Path:
    return saved(layers(4).SerializeToString())


@pytest.fixture
def other(saved: Callable[..., Path]) -> Path:
    """Of the same layers, one weight of which is another."""
    return saved(layers(4, changed=2).SerializeToString(), "other.onnx")


def test_equal_sides_are_status_0(zrt, zrt_json, model):
    assert zrt("diff", model, "default", "default").startswith("equal within the tolerance: 1 outputs, 8 values")
    document = zrt_json("diff", model, "level=disable_all,threads=2", "reference")
    assert (document["equal"], document["first"], len(document["values"])) == (True, None, 8)


def test_settings_before_a_file_of_options_change_them_too(model, options):
    file = options("[session]\nintra_op_num_threads = 2\nlog_severity_level = 'ERROR'\n")
    for words in (f"threads=3,options={file}", f"options={file},threads=3"):
        side = _side(words, model)
        assert (side.options.intra_op_num_threads, side.options.log_severity_level) == (3, LogSeverity.ERROR)


def test_first_value_is_named_with_status_1(zrt, model, other):
    lines = zrt("diff", model, "default", f"model={other}", "--worst", "2", status=1).splitlines()
    assert lines[0].startswith("output 't3' of node 'tanh3' (Tanh): at most ")
    assert lines[1].startswith("the first value that differs is 'm2' of node 'mul2' (MatMul): at most ")
    assert lines[2] == "the 2 values that are farthest apart:"
    assert [line.split()[0] for line in lines if line.startswith((" m", " t"))] == ["m2", "t2"]


def test_inputs_are_shown_with_their_shapes_and_origin(zrt, zrt_json, saved):
    path = saved(models.parse("(float[n, 3] x, float[m] z) => (float[n, 3] y) { y = Neg(x) }"))
    sides = ("diff", path, "default", "reference", "--input", "z=1,2")
    assert zrt(*sides).splitlines()[-2:] == ["input x: float32[1, 3], made up", "input z: float32[2], given"]
    assert zrt_json(*sides)["inputs"]["x"] == {"type": "float32", "shape": [1, 3], "source": "made up"}


def test_tolerance_decides(zrt, model, other):
    assert "equal" in zrt("diff", model, "default", f"model={other}", "--atol", "10")


def test_made_up_inputs_with_which_no_side_runs_are_named(complaint, saved):
    body = "(float[n] x, int64[1] s) => (float[k] y) { y = Reshape(x, s) }"
    path = saved(models.parse(body))
    text = complaint("diff", path, "default", "reference", "--shape", "x=7", status=1)
    assert "Reshape" in text
    assert "made up: 'x', 's'. The model may need other data" in text


@pytest.mark.parametrize("swapped", [False, True])
def test_inputs_of_one_model_alone_are_fed_too(zrt, complaint, saved, swapped):
    one = saved(models.parse("(float[n] x) => (float[n] y) { y = Neg(x) }"))
    other = saved(models.parse("(float[n] x, float[n] z) => (float[n] y) { t = Neg(x) y = Add(t, z) }"), "other.onnx")
    first, second = (other, one) if swapped else (one, other)
    sides = ("diff", first, "default", f"model={second}")
    assert zrt(*sides, status=1).startswith("output 'y' ")
    assert zrt(*sides, "--input", "z=0,0", "--shape", "x=2").startswith("equal within the tolerance: 1 outputs")
    assert "the model has no input 'q'; it has 'x', 'z'" in complaint(*sides, "--input", "q=1", status=2)


def test_model_in_another_format_is_named(zrt, complaint, saved, tmp_path):
    compiled = tmp_path / "model.ort"
    model = saved(models.parse("(float[n] x) => (float[n] y) { y = Neg(x) }"))
    zrt("compile", model, compiled)
    assert "model.ort' is in ONNX Runtime's own format" in complaint(
        "diff", model, "default", f"model={compiled}", status=1
    )


@pytest.mark.parametrize(("first", "second", "failing"), [("model", "bad", "b"), ("bad", "model", "a")])
def test_side_that_does_not_load_is_the_difference(zrt, saved, first, second, failing):
    paths = {
        "model": saved(models.parse("(float[n] x) => (float[n] y) { y = Neg(x) }")),
        "bad": saved(models.parse("(float[n] x) => (float[n] y) { y = NoSuch(x) }"), "bad.onnx"),
    }
    assert zrt("diff", paths[first], "default", f"model={paths[second]}", status=1).startswith(f"{failing} fails, and ")


def test_keys_with_a_dot_are_config_entries(zrt, saved):
    [(key, value)] = APPROXIMATE.items()
    path = saved(GELU.SerializeToString())
    text = zrt("diff", path, "default", f"{key}={value}", "--rtol", "1e-6", "--atol", "1e-7", status=1)
    assert "the optimizer fuses node" in text


def test_options_of_a_file(zrt, model, options):
    file = options("[session]\ngraph_optimization_level = 'disable_all'\n")
    assert "equal" in zrt("diff", model, "default", f"options={file}")


def test_mistakes_in_a_file_of_options_are_named(complaint, model, options):
    file = options("[session]\nintra_op_num_thread = 1\n")
    text = complaint("diff", model, "default", f"options={file}", "--json", status=2)
    assert "did you mean 'intra_op_num_threads'?" in text


def test_files_that_options_name_are_not_written(zrt, model, options, tmp_path):
    written = tmp_path / "written"
    file = options(f"[session]\noptimized_model_filepath = '{written}'\nprofile_file_prefix = '{written}'\n")
    assert "equal" in zrt("diff", model, f"options={file}", "default")
    assert not list(tmp_path.glob("written*"))


def test_inputs_are_those_of_the_user(zrt_json, saved, tmp_path):
    same = saved(models.parse("(float[n] x) => (float[n] y) { y = Identity(x) }"))
    square = saved(models.parse("(float[n] x) => (float[n] y) { y = Mul(x, x) }"), "square.onnx")
    for x, largest in (([0, 1], 0), ([1, 10, 4], 90)):
        np.savez(tmp_path / "x.npz", x=np.array(x, np.float32))
        sides = ("diff", same, "default", f"model={square}")
        document = zrt_json(*sides, "--input", tmp_path / "x.npz", status=int(largest > 0))
        assert document["outputs"][0]["largest"] == largest


def test_numbers_that_json_lacks_are_null(zrt_json, saved):
    a = saved(models.parse("(float[2] x) => (float[2] y) { y = Sqrt(x) }"))
    b = saved(models.parse("(float[2] x) => (float[2] y) { h = Abs(x) y = Sqrt(h) }"), "b.onnx")
    document = zrt_json("diff", a, "default", f"model={b}", "--input", "x=-4,1", status=1)
    assert document["outputs"][0]["largest"] is None


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        (("reference", "reference"), "one of them is a session"),
        (("default", "nonsense"), "'nonsense'"),
        (("default", "level=best"), "'best' is no level"),
        (("default", "threads=x"), "'x' is no threads"),
        (("default", "provider=nope"), "nope"),
        (("default", "color=red"), "there are model, level"),
        (("default", "level="), "'level='"),
    ],
)
def test_mistakes_are_status_2(complaint, model, sides, words):
    assert words in complaint("diff", model, *sides, "--json", status=2)


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_wrong_tolerances_are_named_before_the_models_are_read(complaint, tmp_path, option, number):
    text = complaint("diff", tmp_path / "none.onnx", "default", "default", option, number, "--json", status=2)
    assert f"{option[2:]}: expected a finite number of at least 0, got {float(number)}" in text


def test_missing_files(complaint, model, tmp_path):
    assert "none.onnx" in complaint("diff", tmp_path / "none.onnx", "default", "default", "--json", status=1)
    assert "none.toml" in complaint("diff", model, "default", f"options={tmp_path}/none.toml", "--json", status=1)


@pytest.mark.usefixtures("plots")
class TestPlot:
    """``--plot`` and ``--dark``; test_bench.py tests what every plot shares."""

    def test_picture_shows_the_first_value_and_how_many_differ(self, zrt, model, other, tmp_path):
        light = tmp_path / "d.svg"
        lines = zrt("diff", model, "default", f"model={other}", "--plot", light, "--dark", status=1).splitlines()
        assert lines[-2:] == [f"picture: {light}", f"picture: {tmp_path / 'd-dark.svg'}"]
        text = light.read_text()
        assert "<!-- first: m2, node 'mul2' (MatMul) -->" in text
        assert "<!-- beyond the tolerance (4 values) -->" in text

    @pytest.mark.parametrize("far", ["equal", "infinite", "other shapes", "no floats"])
    def test_any_values_are_drawn(self, zrt, saved, tmp_path, far):
        texts = {
            "equal": ["y = Neg(x)"] * 2,
            "infinite": ["h = Sub(x, x) y = Div(x, h)", "h = Sub(x, x) y = Mul(x, h)"],
            "other shapes": [
                "h = Concat<axis = 0>(x, x) y = ReduceSum<keepdims = 0>(h)",
                "h = Neg(x) y = ReduceSum<keepdims = 0>(h)",
            ],
            "no floats": ["h = Less(x, x) y = Cast<to = 1>(h)", "h = LessOrEqual(x, x) y = Cast<to = 1>(h)"],
        }[far]
        kinds = "float" if far == "other shapes" else "float[n]"
        one, other = (
            saved(models.parse(f"(float[n] x) => ({kinds} y) {{ {text} }}"), f"{number}.onnx")
            for number, text in enumerate(texts)
        )
        picture = tmp_path / "d.png"
        zrt("diff", one, "default", f"model={other}", "--plot", picture, status=0 if far == "equal" else 1)
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_dollars_in_names_are_no_formulas(self, zrt, saved, tmp_path):
        both = [layers(4), layers(4, changed=2)]
        for model in both:
            for node in model.graph.node:
                node.output[:] = [name.replace("m2", "$\\bad{$") for name in node.output]
                node.input[:] = [name.replace("m2", "$\\bad{$") for name in node.input]
        one, other = (saved(model.SerializeToString(), f"{number}$x^$.onnx") for number, model in enumerate(both))
        zrt("diff", one, "default", f"model={other}", "--plot", tmp_path / "d.svg", status=1)
        assert "<!-- first: $\\bad{$, node 'mul2' (MatMul) -->" in (tmp_path / "d.svg").read_text()

    def test_side_that_fails_leaves_no_picture(self, zrt, saved, tmp_path):
        text = "(float[4] x) => (float[n] y) <int64[1] s = {SIZE}> { y = Reshape(x, s) }"
        one, other = (saved(models.parse(text.replace("SIZE", size)), f"{size}.onnx") for size in "43")
        picture = tmp_path / "d.png"
        assert "b fails, and a runs" in zrt("diff", one, "default", f"model={other}", "--plot", picture, status=1)
        assert not picture.exists()

    def test_picture_replaces_no_file(self, complaint, model, tmp_path):
        picture = tmp_path / "d.png"
        picture.write_text("mine")
        assert "--overwrite replaces it" in complaint("diff", model, "default", "default", "--plot", picture, status=2)
        assert picture.read_text() == "mine"

    def test_picture_replaces_no_weights_of_a_side(self, complaint, model, tmp_path):
        other = models.save_apart(models.weighted(), tmp_path / "split.onnx", "weights.svg")
        arguments = ("--plot", tmp_path / "weights.svg", "--overwrite")
        text = complaint("diff", model, "default", f"model={other}", *arguments, status=2)
        assert "is the same file as the input" in text
