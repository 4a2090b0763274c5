from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.support import models
from zrt._common.installation import install_line

OURS = ["c_loop", "lane", "prepared_run", "session_run"]
THEIRS = ["ort_run", "ort_run_with_iobinding"]
PERCENTILES = {"samples", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"}


class TestJson:
    @pytest.mark.official
    def test_every_contender_has_every_figure(self, zrt_json, saved):
        pytest.importorskip("onnxruntime")
        found = zrt_json("bench", saved(models.add()), "--runs", 20, "--warmup", 2)
        assert list(found["contenders"]) == OURS + THEIRS
        for figures in found["contenders"].values():
            assert figures["median_ns"] > 0
            assert figures["ratio_to_c_loop"] > 0
            assert figures["runs"] >= 20
            assert set(figures["latency"]) == PERCENTILES
            assert figures["latency"]["samples"] >= 20
        assert found["contenders"]["c_loop"]["ratio_to_c_loop"] == 1
        assert found["unmeasured"] == {}

    @pytest.mark.official
    def test_ratios_to_the_c_loop_and_to_the_same_work_in_onnxruntime(self, zrt_json, saved):
        pytest.importorskip("onnxruntime")
        found = zrt_json("bench", saved(models.add()), "--runs", 5)["ratios"]
        assert set(found) == {f"{key}_to_c_loop" for key in (OURS + THEIRS)[1:]} | {
            "lane_to_ort_run_with_iobinding",
            "prepared_run_to_ort_run",
            "session_run_to_ort_run",
        }

    def test_json_has_header_and_set_up(self, zrt_json, saved):
        path = saved(models.double())
        found = zrt_json("bench", path, "--runs", 3, "--threads", 2, "--shape", "x=8,4", "--policy", "latency")
        assert found["model"]["path"] == str(path)
        assert found["model"]["inputs"]["x"] == {"type": "float32", "shape": [8, 4], "source": "made up"}
        settings = found["settings"]
        assert (settings["provider"], settings["threads"]) == ("CPUExecutionProvider", 2)
        assert (settings["policy"], settings["warmup"]) == ("latency", 10)
        assert {"zrt", "onnxruntime", "path", "source", "api_version", "build_info"} == set(found["versions"])
        assert {"processor", "cores", "python", "numpy"} < set(found["machine"])
        set_up = found["set_up"]
        assert set_up["load_ns"] > 0
        assert set_up["first_run_ns"] > 0
        assert set_up["resident_after_first_run"] >= set_up["resident_before_load"] > 0

    def test_json_has_the_timers_cost(self, zrt_json, saved):
        timer = zrt_json("bench", saved(models.add()), "--runs", 3)["timer"]
        assert set(timer["python"]) == set(timer["c"]) == PERCENTILES
        assert timer["python"]["p50_ns"] > 0
        assert timer["empty_loop_ns"] > 0

    def test_lanes_option_measures_lanes_together(self, zrt_json, saved):
        path = saved(models.add())
        assert zrt_json("bench", path, "--runs", 3)["lanes"] is None
        found = zrt_json("bench", path, "--runs", 30, "--lanes", 2)["lanes"]
        assert found["count"] == len(found["latency"]) == 2
        assert found["runs_per_second"] > 0
        assert found["scaling"] == pytest.approx(found["runs_per_second"] / found["single_runs_per_second"])

    def test_neither_rich_nor_onnxruntime_is_needed(self, zrt_json, missing, saved):
        missing("rich")
        missing("onnxruntime")
        found = zrt_json("bench", saved(models.add()), "--runs", 3)
        assert list(found["contenders"]) == OURS
        assert list(found["unmeasured"]) == THEIRS
        assert all("onnxruntime" in reason for reason in found["unmeasured"].values())


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

    def test_text_names_missing_contenders(self, zrt, missing, saved):
        missing("onnxruntime")
        out = zrt("bench", saved(models.add()), "--runs", 3)
        assert "not measured: onnxruntime run: onnxruntime cannot be imported" in out
        assert "not measured: onnxruntime run_with_iobinding" in out

    def test_lines_fit_a_page_without_a_terminal(self, zrt):
        assert max(map(len, zrt("bench", "--runs", 3).splitlines())) <= 120


class TestPlot:
    def test_plot_writes_png(self, zrt_json, saved, tmp_path):
        pytest.importorskip("matplotlib")
        picture = tmp_path / "figures.png"
        zrt_json("bench", saved(models.add()), "--runs", 30, "--plot", picture)
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(content) > 20_000

    def test_plot_writes_svg(self, zrt, saved, tmp_path):
        pytest.importorskip("matplotlib")
        picture = tmp_path / "figures.SVG"
        assert str(picture) in zrt("bench", saved(models.add()), "--runs", 1, "--plot", picture)
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")

    def test_plot_names_the_baseline_and_draws_lanes(self, zrt, saved, tmp_path):
        pytest.importorskip("matplotlib")
        picture = tmp_path / "figures.svg"
        zrt("bench", saved(models.add()), "--runs", 5, "--lanes", 2, "--plot", picture)
        # Each text is a comment beside its glyphs.
        for text in ("(the baseline)", "shorter is faster", "2 times one lane", "runs a second"):
            assert text in picture.read_text("utf-8")

    def test_c_loop_is_the_baseline_without_onnxruntime(self, zrt, saved, missing, tmp_path):
        pytest.importorskip("matplotlib")
        missing("onnxruntime")
        picture = tmp_path / "figures.svg"
        zrt("bench", saved(models.add()), "--runs", 5, "--plot", picture)
        assert "C loop is 1" in picture.read_text("utf-8")

    def test_legend_covers_no_axes(self, zrt, saved, tmp_path, monkeypatch):
        figure = pytest.importorskip("matplotlib.figure").Figure
        drawn = []
        saving = figure.savefig
        monkeypatch.setattr(figure, "savefig", lambda self, path: (drawn.append(self), saving(self, path)))
        zrt("bench", saved(models.add()), "--runs", 5, "--lanes", 2, "--plot", tmp_path / "figures.png")
        [found] = drawn
        [legend] = found.legends
        assert len(found.axes) == 3
        assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in found.axes)
        assert not any(axes.get_legend() for axes in found.axes)

    def test_contenders_differ_without_colour(self):
        pytest.importorskip("matplotlib")
        from zrt.cli.plot import STYLES

        assert set(OURS + THEIRS) < STYLES.keys()
        for field in ("color", "marker"):
            assert len({getattr(style, field) for style in STYLES.values()}) == len(STYLES)

    def test_plot_replaces_no_file_unasked(self, zrt, complaint, saved, tmp_path):
        pytest.importorskip("matplotlib")
        picture = tmp_path / "figures.png"
        picture.write_bytes(b"precious")
        arguments = ("bench", saved(models.add()), "--runs", 1, "--plot", picture)
        assert "--overwrite replaces it" in complaint(*arguments, status=2)
        assert picture.read_bytes() == b"precious"
        zrt(*arguments, "--overwrite")
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_plot_does_not_replace_the_model(self, complaint, saved):
        pytest.importorskip("matplotlib")
        model = saved(models.add(), "model.png")
        before = model.read_bytes()
        arguments = ("bench", model, "--runs", 1, "--plot", model, "--overwrite")
        assert "the same file" in complaint(*arguments, status=2)
        assert model.read_bytes() == before

    def test_missing_plot_package_fails_before_the_measurement(self, complaint, missing, tmp_path):
        missing("matplotlib")
        err = complaint("bench", "nope.onnx", "--plot", tmp_path / "figures.png", status=1)
        assert install_line("plot") in err


@pytest.mark.parametrize("model", [models.convolution(), models.picky_reshape()], ids=["conv", "reshape"])
def test_model_that_does_not_run_has_status_1(complaint, saved, model):
    assert "zrt bench: " in complaint("bench", saved(model), status=1)


def test_missing_shape_is_wrong_usage(complaint, saved):
    assert "'x'" in complaint("bench", saved(models.flatten_of_unknown_rank()), status=2)


@pytest.mark.gpu
def test_cuda_puts_onnxruntime_in_its_own_process(zrt_json, saved):
    found = zrt_json(
        "bench", saved(models.convolution()), "--shape", "image=1,1,64,64", "--runs", 5, "--provider", "cuda"
    )
    assert found["onnxruntime_package"]["own_process"] is True
    assert list(found["contenders"])[:3] == ["c_loop", "lane", "lane_copying"]
    assert found["copies"]
