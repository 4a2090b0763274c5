import json
import os
import sys
import textwrap

import numpy as np
import onnx
import pytest

import zrt as package
from tests.support import models, processes


@pytest.fixture
def basic(options):
    """A file of options that says how far to optimize."""
    return options('[session]\ngraph_optimization_level = "ENABLE_BASIC"')


@pytest.fixture
def split(tmp_path):
    """A model with its weights in a file beside it."""
    return models.save_apart(models.weighted(), tmp_path / "split.onnx", "split.weights")


def nodes(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_without_provider_writes_the_optimized_model(zrt, zrt_json, digits, tmp_path):
    path = tmp_path / "fast.onnx"
    out = zrt("compile", digits, path)
    assert f"{digits}: optimized for the CPU in" in out
    assert str(path) in out
    assert "FusedConv" in nodes(path)
    arguments = ("--level", "enable_basic", "--provider", "cpu", "--threads", 1, "--overwrite")
    document = zrt_json("compile", digits, path, *arguments)
    assert "FusedConv" not in nodes(path)
    assert document["output"] == str(path)
    assert document["files"] == {str(path): path.stat().st_size}
    assert not document["compiled"]
    assert document["time_ns"] > 0


def test_options_file_sets_the_optimization_level(zrt, digits, tmp_path, basic):
    path = tmp_path / "fast.onnx"
    zrt("compile", digits, path, "--options", basic)
    assert "FusedConv" not in nodes(path)


def test_weights_go_into_a_file_beside_the_model(zrt_json, digits, tmp_path):
    path = tmp_path / "fast.onnx"
    document = zrt_json("compile", digits, path, "--weights", "fast.weights", "--weights-from", 2000)
    assert set(document["files"]) == {str(path), str(tmp_path / "fast.weights")}
    outside = [info.name for info in package.list_initializers(path) if info.location]
    assert len(outside) == 2


@pytest.mark.azure
def test_provider_option_uses_the_compile_api(zrt_json, complaint, digits, tmp_path):
    path = tmp_path / "compiled.onnx"
    arguments = ("compile", digits, path, "--provider", "azure", "--weights", "compiled.weights", "--embed")
    document = zrt_json(*arguments)
    assert document["compiled"]
    assert set(document["files"]) == {str(path), str(tmp_path / "compiled.weights")}
    assert "Conv" in nodes(path)
    assert "--overwrite replaces it" in complaint(*arguments, status=2)
    assert "Unable to compile any nodes" in complaint(*arguments, "--overwrite", "--require-compiled", status=1)
    assert "--in-place" in complaint("compile", digits, "--in-place", "--provider", "azure", status=2)


class TestNothingIsDestroyed:
    def test_one_argument_is_the_model_and_not_the_output(self, complaint, digits, monkeypatch, tmp_path):
        before = digits.read_bytes()
        monkeypatch.setenv("ZRT_MODEL", str(tmp_path / "other.onnx"))
        err = complaint("compile", digits, status=2)
        assert "OUTPUT" in err
        assert "--in-place" in err
        assert "MODEL" in complaint("compile", status=2)
        assert digits.read_bytes() == before

    def test_existing_output_needs_overwrite(self, zrt, complaint, saved, tmp_path):
        model = saved(models.add(["n"]))
        path = tmp_path / "fast.onnx"
        path.write_bytes(b"precious")
        assert "--overwrite replaces it" in complaint("compile", model, path, status=2)
        assert path.read_bytes() == b"precious"
        zrt("compile", model, path, "--overwrite")
        assert nodes(path) == ["Add"]

    def test_link_that_leads_nowhere_is_kept(self, complaint, saved, tmp_path):
        path = tmp_path / "fast.onnx"
        path.symlink_to("elsewhere.onnx")
        assert "--overwrite replaces it" in complaint("compile", saved(models.add()), path, status=2)
        assert path.is_symlink()

    def test_existing_weights_need_overwrite(self, zrt, complaint, split):
        other = split.with_name("other.weights")
        other.write_bytes(b"precious")
        arguments = ("compile", split, split.with_name("new.onnx"), "--weights", other.name, "--weights-from", 0)
        assert "--weights" in complaint(*arguments, status=2)
        assert other.read_bytes() == b"precious"
        zrt(*arguments, "--overwrite")
        assert other.stat().st_size >= 256

    @pytest.mark.parametrize("link", [None, os.symlink, os.link])
    @pytest.mark.parametrize("name", ["split.onnx", "split.weights"])
    def test_files_of_the_model_are_no_output_even_with_overwrite(self, complaint, split, tmp_path, link, name):
        before = {each: (tmp_path / each).read_bytes() for each in ("split.onnx", "split.weights")}
        output = tmp_path / name
        if link is not None:
            output = tmp_path / "linked.onnx"
            link(tmp_path / name, output)
        assert "the same file" in complaint("compile", split, output, "--overwrite", status=2)
        new = tmp_path / "new.onnx"
        err = complaint("compile", split, new, "--weights", output.name, "--overwrite", status=2)
        assert "--weights" in err
        assert "the same file" in err
        assert before == {each: (tmp_path / each).read_bytes() for each in before}
        assert not new.exists()

    def test_parts_of_sparse_weights_are_no_output(self, complaint, tmp_path):
        text = "(float[64] x) => (float[64] z) { z = Add(x, w) }"
        model = models.save_sparse_apart(text, (64,), tmp_path / "sparse.onnx", "values")
        np.ones(64, np.float32).tofile(tmp_path / "values")
        before = (tmp_path / "values").read_bytes()
        assert "the same file" in complaint("compile", model, tmp_path / "values", "--overwrite", status=2)
        assert (tmp_path / "values").read_bytes() == before

    def test_options_file_is_no_output(self, complaint, digits, basic):
        before = basic.read_text()
        assert "the same file" in complaint("compile", digits, basic, "--options", basic, "--overwrite", status=2)
        assert basic.read_text() == before

    def test_in_place_replaces_the_model(self, zrt, zrt_json, complaint, digits, split, tmp_path):
        assert "no OUTPUT" in complaint("compile", digits, tmp_path / "fast.onnx", "--in-place", status=2)
        document = zrt_json("compile", digits, "--in-place")
        assert document["output"] == str(digits)
        assert "FusedConv" in nodes(digits)
        zrt("compile", split, "--in-place", "--weights", "split.weights", "--weights-from", 0)
        assert package.Session(split).run([np.zeros(64, np.float32)])[0][5] == 5

    def test_in_place_follows_links_and_keeps_other_files(self, zrt, complaint, digits, tmp_path):
        (tmp_path / "links").mkdir()
        link = tmp_path / "links" / "link.onnx"
        link.symlink_to(digits)
        (tmp_path / "other.weights").write_bytes(b"precious")
        for name in ("other.weights", "new.weights"):
            err = complaint("compile", link, "--in-place", "--weights", name, status=2)
            assert name in err
            assert f"beside the link {str(link)!r}" in err
        before = digits.read_bytes()
        zrt("compile", link, "--in-place")
        assert link.is_symlink()
        assert digits.read_bytes() != before
        assert (tmp_path / "other.weights").read_bytes() == b"precious"

    @pytest.mark.parametrize("output", [".", os.devnull])
    def test_folder_and_device_are_no_output(self, complaint, digits, monkeypatch, tmp_path, output):
        monkeypatch.chdir(tmp_path)
        assert "is no plain file" in complaint("compile", digits, output, "--overwrite", status=2)

    def test_new_folder_is_no_output(self, complaint, digits, tmp_path):
        assert "new/' names a folder" in complaint("compile", digits, f"{tmp_path}/new/", status=2)
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--embed",), "name one"),
        (("--require-compiled",), "name one"),
        (("--level", "most"), "most"),
        (("--weights-from", "-1"), "-1"),
        (("--provider", "nonesuch"), "nonesuch"),
        (("--weights-from", "0"), "--weights-from goes with --weights"),
        (("--weights", "a/b"), "--weights: 'a/b'"),
        (("--weights", "fast.onnx"), "--weights: 'fast.onnx'"),
        (("--weights", "fast\udcff"), "cannot be written as UTF-8"),
        (("--weights", "w", "--weights-from", 1 << 31), "--weights-from: expected a whole number from 0 to 2147483647"),
    ],
    ids=str,
)
def test_contradictory_arguments_are_wrong_usage(complaint, digits, tmp_path, arguments, words):
    path = tmp_path / "fast.onnx"
    assert words in complaint("compile", digits, path, *arguments, status=2)
    assert not path.exists()


def test_ort_file_has_no_weights_beside_it(complaint, digits, tmp_path):
    for name in ("fast.ort", "fast.ORT"):
        assert "keeps its weights" in complaint("compile", digits, tmp_path / name, "--weights", "w", status=2)
    assert list(tmp_path.glob("fast*")) == []


def test_rich_is_not_needed(zrt, missing, digits, tmp_path):
    missing("rich")
    assert "optimized" in zrt("compile", digits, tmp_path / "fast.onnx")


def test_invalid_model_is_named(complaint, saved, tmp_path):
    broken = saved(b"no model", "broken.onnx")
    assert "broken.onnx" in complaint("compile", broken, tmp_path / "fast.onnx", status=1)


class TestRequiredOperators:
    """`--required-operators`: the list for ONNX Runtime's reduced build."""

    @pytest.fixture
    def operators(self, zrt_json, tmp_path):
        """The operators that a model needs, as the command writes them to `operators.config`."""
        path = tmp_path / "operators.config"
        return lambda model, *more: zrt_json("compile", model, path, "--required-operators", *more)["operators"]

    def test_list_has_the_operators_before_and_after_optimization(self, zrt, digits, tmp_path):
        path = tmp_path / "operators.config"
        out = zrt("compile", digits, path, "--required-operators")
        lines = dict(line.rsplit(";", 1) for line in path.read_text().splitlines() if not line.startswith("#"))
        assert lines["ai.onnx;17"] == "Conv,Flatten,Gemm,MaxPool,Relu,Softmax"
        assert lines["com.microsoft;1"] == "FusedConv"
        # Which of these the optimizer takes depends on the CPU.
        assert "ReorderOutput" in lines["com.microsoft.nchwc;1"]
        assert (
            out == f"{path}: {sum(len(names.split(',')) for names in lines.values())} operators that {digits} needs\n"
        )

    def test_operators_in_graphs_inside_are_listed(self, operators, saved):
        assert {"If", "Identity"} <= set(operators(saved(models.branches()))["ai.onnx;21"])

    def test_functions_of_the_model_are_no_operators(self, operators, saved):
        text = """<ir_version: 10, opset_import: ["" : 17, "my" : 1]> g (float[n] x) => (float[n] y) { y = my.Twice(x) }
        <opset_import: ["" : 17], domain: "my"> Twice (a) => (b) { b = Add(a, a) }"""
        model = saved(onnx.parser.parse_model(text).SerializeToString())
        assert operators(model) == {"ai.onnx;17": ["Add"]}

    def test_function_with_the_name_of_a_kernel_is_an_operator(self, operators, saved):
        """ONNX Runtime takes its kernel, and not the function."""
        text = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[n] x) => (float[n] y) { y = com.microsoft.Gelu(x) }
        <opset_import: ["" : 17], domain: "com.microsoft"> Gelu (a) => (b) { b = Add(a, a) }"""
        model = saved(onnx.parser.parse_model(text).SerializeToString())
        assert operators(model)["com.microsoft;1"] == ["Gelu"]

    def test_upstream_s_parser_reads_the_list(self, operators, digits, tmp_path):
        """In a process of its own: the parser comes with the official package."""
        listed = operators(digits)
        code = """
            import json, sys
            try:
                from onnxruntime.tools.reduced_build_config_parser import parse_config
            except ImportError as error:
                sys.exit(f"lacks: {error}")
            required, _ = parse_config(sys.argv[1])
            lines = [(of, at, sorted(names)) for of, opsets in required.items() for at, names in opsets.items()]
            print(json.dumps({f"{of};{at}": names for of, at, names in lines}))
        """
        done = processes.run(sys.executable, "-c", textwrap.dedent(code), tmp_path / "operators.config")
        if done.stderr.startswith("lacks: "):
            pytest.skip(f"this environment {done.stderr}")
        assert json.loads(done.stdout) == listed, done.stderr

    def test_options_write_no_profiles_and_no_other_format(self, operators, digits, options, tmp_path):
        file = options(
            f"[session]\nprofile_file_prefix = {str(tmp_path / 'trace')!r}\n"
            '[session.config_entries]\n"session.save_model_format" = "ORT"\n'
        )
        operators(digits, "--options", file)
        assert not list(tmp_path.glob("trace*"))

    @pytest.mark.parametrize(
        "more", [["--in-place"], ["--level", "disable_all"], ["--weights", "w"], ["--weights-from", "0"]]
    )
    def test_options_of_a_written_model_are_refused(self, zrt, digits, tmp_path, more):
        before = digits.read_bytes()
        target = [] if more == ["--in-place"] else [tmp_path / "c"]
        zrt("compile", digits, *target, "--required-operators", *more, status=2)
        assert digits.read_bytes() == before

    def test_file_that_exists_is_kept(self, zrt, digits, tmp_path):
        path = tmp_path / "operators.config"
        path.write_text("mine")
        zrt("compile", digits, path, "--required-operators", status=2)
        assert path.read_text() == "mine"
