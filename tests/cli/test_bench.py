import os
import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from tests.support import models
from zrt._common.installation import install_line
from zrt.bench import study

OURS = ["c_loop", "lane", "prepared_run", "session_run"]
THEIRS = ["ort_run", "ort_run_with_iobinding"]
PERCENTILES = {"samples", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"}


class TestJson:
    @pytest.mark.official
    def test_every_contender_has_every_figure(self, zrt_json, saved):
        document = zrt_json("bench", saved(models.add()), "--runs", 20, "--warmup", 2)
        assert list(document["contenders"]) == OURS + THEIRS
        for figures in document["contenders"].values():
            assert figures["median_ns"] > 0
            assert figures["ratio_to_c_loop"] > 0
            assert figures["runs"] >= 20
            assert set(figures["latency"]) == PERCENTILES
            assert figures["latency"]["samples"] >= 20
        assert document["contenders"]["c_loop"]["ratio_to_c_loop"] == 1
        assert document["unmeasured"] == {}
        assert document["onnxruntime_package"]["own_process"] is False
        same_work = {"lane_to_ort_run_with_iobinding", "prepared_run_to_ort_run", "session_run_to_ort_run"}
        assert set(document["ratios"]) == {f"{key}_to_c_loop" for key in (OURS + THEIRS)[1:]} | same_work

    def test_json_has_header_set_up_timers_and_lanes(self, zrt_json, saved):
        path = saved(models.double())
        arguments = ("--threads", 2, "--shape", "x=8,4", "--policy", "latency", "--lanes", 2)
        document = zrt_json("bench", path, "--runs", 3, *arguments)
        assert document["model"]["path"] == str(path)
        assert document["model"]["inputs"]["x"] == {"type": "float32", "shape": [8, 4], "source": "made up"}
        settings = document["settings"]
        assert (settings["provider"], settings["threads"]) == ("CPUExecutionProvider", 2)
        assert (settings["policy"], settings["warmup"]) == ("latency", 10)
        assert {"zrt", "onnxruntime", "path", "source", "api_version", "build_info"} == set(document["versions"])
        assert {"processor", "cores", "python", "numpy"} < set(document["machine"])
        set_up = document["set_up"]
        assert set_up["load_ns"] > 0
        assert set_up["first_run_ns"] > 0
        assert set_up["resident_after_first_run"] >= set_up["resident_before_load"] > 0
        timer = document["timer"]
        assert set(timer["python"]) == set(timer["c"]) == PERCENTILES
        assert timer["python"]["p50_ns"] > 0
        assert timer["empty_loop_ns"] > 0
        lanes = document["lanes"]
        assert lanes["count"] == len(lanes["latency"]) == 2
        assert lanes["runs_per_second"] > 0
        assert lanes["scaling"] == pytest.approx(lanes["runs_per_second"] / lanes["single_runs_per_second"])

    @pytest.mark.official
    @pytest.mark.usefixtures("small_caches")
    def test_paced_calls_and_the_self_check(self, zrt, zrt_json, complaint, saved):
        arguments = ("bench", saved(models.add()), "--runs", 3, "--paced", "--self-check")
        document = zrt_json(*arguments)
        assert document["settings"]["paced"] is True
        assert document["machine"]["cache_bytes"] == 1 << 20
        assert list(document["contenders"]) == [*OURS, *THEIRS, "ort_run_again"]
        for figures in document["contenders"].values():
            assert (figures["runs"], figures["runs_per_batch"], figures["latency"]["samples"]) == (3, 1, 3)
            assert figures["latency"]["p50_ns"] == figures["median_ns"] <= figures["latency"]["p99_ns"]
        assert document["ratios"]["ort_run_again_to_ort_run"] > 0
        out = zrt(*arguments)
        assert "with empty caches" in out
        assert "onnxruntime run, again takes" in out
        assert "--lanes" in complaint(*arguments, "--lanes", 2, status=2)

    def test_neither_rich_nor_onnxruntime_is_needed(self, zrt_json, missing, saved):
        missing("rich")
        missing("onnxruntime")
        document = zrt_json("bench", saved(models.add()), "--runs", 3)
        assert list(document["contenders"]) == OURS
        assert list(document["unmeasured"]) == THEIRS
        assert all("onnxruntime" in reason for reason in document["unmeasured"].values())
        assert all(name.endswith("_to_c_loop") for name in document["ratios"])


class TestPeople:
    def test_text_has_the_tables(self, zrt):
        out = zrt("bench", "--runs", 20, "--lanes", 2)
        for fact in (
            "digits.onnx: image float32[1, 1, 8, 8]",
            "1 thread",
            "C loop",
            "lane",
            "prepared run",
            "Session.run",
            "1.000",
            "p99.9",
            "The timer itself takes",
            "load time",
            "first run",
            "resident memory",
            "2 lanes at once",
        ):
            assert fact in out
        # As wide as a page, although this is no terminal.
        assert max(map(len, out.splitlines())) <= 120

    def test_text_names_missing_contenders(self, zrt, missing, saved):
        missing("onnxruntime")
        out = zrt("bench", saved(models.add()), "--runs", 3)
        assert "not measured: onnxruntime run: onnxruntime cannot be imported" in out
        assert "not measured: onnxruntime run_with_iobinding" in out


@pytest.mark.usefixtures("plots")
class TestPlot:
    def test_plot_names_the_baseline_and_draws_lanes(self, zrt, saved, tmp_path):
        picture = tmp_path / "figures.SVG"
        arguments = ("--runs", 5, "--lanes", 2, "--plot", picture)
        # A dollar in a name begins no formula.
        assert str(picture) in zrt("bench", saved(models.add(), "m$x^$.onnx"), *arguments)
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")
        # Each text is a comment beside its glyphs.
        for text in ("(the baseline)", "shorter is faster", "2 times one lane", "runs a second", "m$x^$.onnx: "):
            assert text in picture.read_text("utf-8")

    def test_plot_that_cannot_be_written_takes_no_figures_away(self, zrt_json, saved, monkeypatch, tmp_path):
        folder = tmp_path / "plots"
        folder.mkdir()

        def measure(*arguments: object) -> object:
            folder.rmdir()
            return measured(*arguments)

        measured = study.measure
        monkeypatch.setattr(study, "measure", measure)
        arguments = ("--runs", 5, "--plot", folder / "figures.svg")
        assert zrt_json("bench", saved(models.add()), *arguments, status=1)["contenders"]["lane"]

    @pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no such name")
    def test_plot_of_a_model_whose_name_is_no_text(self, zrt, saved, tmp_path):
        path = tmp_path / "plot.svg"
        zrt("bench", saved(models.add(), os.fsdecode(b"m\xff\x1b.onnx")), "--runs", "1", "--plot", path)
        assert "m??.onnx" in path.read_text()

    def test_dark_draws_the_same_measurement_on_a_dark_page(self, zrt, complaint, saved, tmp_path):
        light, dark = tmp_path / "figures.svg", tmp_path / "figures-dark.svg"
        arguments = ("bench", saved(models.add()), "--runs", 5, "--plot", light, "--dark")
        assert zrt(*arguments).endswith(f"picture: {light}\npicture: {dark}\n")
        texts = [re.findall(r"<!-- (.*) -->", picture.read_text("utf-8")) for picture in (light, dark)]
        assert texts[0] == texts[1] != []
        colors = [set(re.findall(r"#[0-9a-f]{6}", picture.read_text("utf-8"))) for picture in (light, dark)]
        assert colors[0] - colors[1] == {"#222222", "#999999", "#e5e5e5", "#ffffff"}
        light.unlink()
        assert f"{str(dark)!r} exists" in complaint(*arguments, status=2)
        assert not light.exists()
        assert "--dark applies only with --plot" in complaint("bench", "--dark", status=2)
        dark.unlink()
        dark.mkdir()
        assert f"--dark: {str(dark)!r} is no plain file" in complaint(*arguments, status=2)

    def test_c_loop_is_the_baseline_without_onnxruntime(self, zrt, saved, missing, tmp_path):
        missing("onnxruntime")
        picture = tmp_path / "figures.svg"
        zrt("bench", saved(models.add()), "--runs", 1, "--plot", picture)
        assert "C loop is 1" in picture.read_text("utf-8")

    def test_legend_covers_no_axes(self, zrt, saved, tmp_path, monkeypatch):
        figure_type = pytest.importorskip("matplotlib.figure").Figure
        drawn = []
        save = figure_type.savefig
        monkeypatch.setattr(figure_type, "savefig", lambda self, path: (drawn.append(self), save(self, path)))
        zrt("bench", saved(models.add()), "--runs", 5, "--lanes", 2, "--plot", tmp_path / "figures.png")
        [figure] = drawn
        [legend] = figure.legends
        assert len(figure.axes) == 3
        assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)
        assert not any(axes.get_legend() for axes in figure.axes)
        content = (tmp_path / "figures.png").read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(content) > 20_000

    def test_contenders_differ_without_colour(self):
        from zrt.cli.bench_plot import STYLES

        assert {*OURS, *THEIRS, "lane_copying", "ort_run_again"} == STYLES.keys()
        for field in ("color", "marker"):
            assert len({getattr(style, field) for style in STYLES.values()}) == len(STYLES)


@pytest.mark.parametrize("command", [("bench", "nope.onnx"), ("diff", "nope.onnx", "default", "default")], ids=" ".join)
def test_missing_plot_package_fails_before_the_work(complaint, missing, tmp_path, command):
    missing("matplotlib")
    assert install_line("plot") in complaint(*command, "--plot", tmp_path / "figures.png", status=1)


@pytest.mark.parametrize("model", [models.convolution(), models.picky_reshape()], ids=["conv", "reshape"])
@pytest.mark.parametrize("command", ["bench", "profile", "run"])
def test_model_that_refuses_made_up_inputs_has_a_hint(complaint, saved, command, model):
    err = complaint(command, saved(model), status=1)
    for words in (f"zrt {command}: ", "Reshape" if "Reshape" in str(model) else "Conv", "'", "--input", "--shape"):
        assert words in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "--runs", "99999999999999999999"),
        ("bench", "--warmup", "99999999999999999999"),
        ("bench", "--lanes", "99999999999999999999"),
        ("profile", "--runs", "99999999999999999999"),
        ("profile", "--warmup", "99999999999999999999"),
        ("diff", "m.onnx", "default", "default", "--worst", "99999999999999999999"),
    ],
)
def test_number_too_large_to_count_is_wrong_usage(complaint, arguments):
    assert f"argument {arguments[-2]}: expected a whole number from" in complaint(*arguments, status=2)


def test_missing_shape_is_wrong_usage(complaint, saved):
    assert "'x'" in complaint("bench", saved(models.flatten_of_unknown_rank()), status=2)


@pytest.mark.gpu
def test_cuda_puts_onnxruntime_in_its_own_process(zrt_json, saved):
    document = zrt_json(
        "bench", saved(models.convolution()), "--shape", "image=1,1,64,64", "--runs", 5, "--provider", "cuda"
    )
    assert document["onnxruntime_package"]["own_process"] is True
    assert list(document["contenders"])[:3] == ["c_loop", "lane", "lane_copying"]
    assert document["copies"]
