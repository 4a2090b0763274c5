"""`zrt.check`: models that load, and models with one planted fault each, which the check must name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.support.models import parse, save_apart, weighted
from zrt.diagnosis import int8, report
from zrt.diagnosis.check import RELEASES
from zrt.diagnosis.trials import limits
from zrt.errors import DTypeError

CPU = "CPUExecutionProvider"
NEG = parse("(float[2] x) => (float[2] y) { y = Neg(x) }")


def model(text: str, opset: int = 17, ir_version: int = 8, **domains: int) -> onnx.ModelProto:
    imports = "".join(f', "{domain.replace("_", ".")}" : {version}' for domain, version in domains.items())
    parsed = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{imports}]> g {text}')
    for number, node in enumerate(parsed.graph.node):
        node.name = f"node {number}"
    return parsed


def errors(check: zrt.Check) -> list[tuple[str, str, tuple[str, ...]]]:
    """The errors: culprit, remedy and nodes."""
    return [(each.subject, each.remedy, each.nodes) for each in check.problems if each.severity == "error"]


def reasons(check: zrt.Check) -> str:
    return "\n".join(each.reason for each in check.problems)


class TestLoads:
    @pytest.mark.parametrize("name", ["w.bin", "./w.bin", "a/../w.bin"])
    def test_file_of_weights_in_memory_has_several_names(self, tmp_path: Path, name: str) -> None:
        path = save_apart(weighted(), tmp_path / "m.onnx", "w.bin")
        options = zrt.SessionOptions(external_initializer_files={name: (tmp_path / "w.bin").read_bytes()})
        (tmp_path / "w.bin").unlink()
        zrt.Session(path, options).close()
        assert zrt.check(path, options).verdict == report.RUNS
        options.external_initializer_files = None
        with pytest.raises(DTypeError, match="external_initializer_files"):
            zrt.check(path, options)

    def test_model_that_runs(self) -> None:
        check = zrt.check(model("(float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Add(a, b) }"))
        assert (check.verdict, check.loads, check.problems) == ("runs", True, ())
        assert (check.nodes, check.operators) == ({CPU: 3}, 2)
        assert str(check) == f"model in memory: runs with ONNX Runtime {check.library}"

    def test_file_is_called_by_its_path(self, tmp_path: Path) -> None:
        path = tmp_path / "a.onnx"
        onnx.save(model("(float[2] x) => (float[2] y) { y = Neg(x) }"), path)
        assert zrt.check(path).model == str(path)

    def test_open_shapes_are_notes(self) -> None:
        check = zrt.check(model("(float[n, 3] x, float[2] z) => (float[n, 3] y, float[2] w) { y = Neg(x) w = Neg(z) }"))
        [problem] = check.problems
        assert (problem.severity, problem.subject) == ("note", "input 'x'")
        assert "[n, 3]" in problem.reason

    def test_nodes_on_the_cpu_for_which_another_provider_was_asked(self) -> None:
        if "AzureExecutionProvider" not in zrt.available_providers():
            pytest.skip("this library has no second provider that runs anywhere")
        check = zrt.check(
            model("(float[2] x) => (float[2] y) { y = Neg(x) }"), providers=["AzureExecutionProvider", CPU]
        )
        assert (check.verdict, check.loads) == ("runs in part on the CPU", True)
        [problem] = check.problems
        assert (problem.severity, problem.subject, problem.nodes) == ("warning", "AzureExecutionProvider", ("node 0",))
        assert problem.reason == "1 of 1 nodes run on the CPU"

    def test_own_format_is_loaded_and_not_examined(self, tmp_path: Path) -> None:
        path = tmp_path / "a.ort"
        zrt.save_optimized(NEG, path)
        check = zrt.check(path)
        assert (check.verdict, check.operators) == ("runs", None)
        assert "own format" in reasons(check)

    def test_options_are_left_as_they_are_and_nothing_is_written(self, tmp_path: Path) -> None:
        options = zrt.SessionOptions(optimized_model_filepath=str(tmp_path / "written.onnx"), profile_file_prefix="p")
        before = replace(options)
        zrt.check(NEG, options)
        assert options == before
        assert list(tmp_path.iterdir()) == []


class TestOtherProviders:
    """The tests' own provider takes each `Neg`, whatever its type, and computes it in float32."""

    def test_each_one_at_hand_is_asked(self, plugin: Any) -> None:
        text = model("(float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }")
        check = zrt.check(text)
        assert (check.verdict, check.nodes, check.problems) == ("runs", {CPU: 2}, ())
        assert check.others == {plugin.own.provider: {CPU: 1, plugin.own.provider: 1}}
        assert check.to_dict()["others"] == check.others
        assert zrt.check(text, providers=["cpu"]).others == {}

    def test_model_that_only_another_one_loads(self, plugin: Any, tmp_path: Path) -> None:
        compiled = tmp_path / "compiled.onnx"
        zrt.compile(NEG, compiled, providers=[plugin.own])
        check = zrt.check(compiled)
        assert check.verdict == "does not load"
        assert check.others == {plugin.own.provider: {plugin.own.provider: 1}}

    def test_one_that_refuses_says_why(self, plugin: Any) -> None:
        refuses = zrt.SessionOptions(config_entries={"ep.zrttestprovider.refuse": "1"})
        check = zrt.check(NEG, refuses)
        assert (check.verdict, check.others) == ("runs", {})
        [note] = check.problems
        assert (note.severity, note.subject) == ("note", plugin.own.provider)
        assert "was told to refuse the session" in note.reason

    def test_reason_of_all_providers_is_there_once(self, plugin: Any) -> None:
        check = zrt.check(model("(float[2] x) => (float[2] y) { y = shop.Price(x) }", shop=1))
        assert (check.others, [each.severity for each in check.problems]) == ({}, ["error"])


class TestOperators:
    def test_every_culprit_is_named_once_with_its_nodes(self) -> None:
        text = """(float[2] x) => (float[2] y) {
            a = Gelu(x)
            b = Gelu(a)
            c = Relu(b)
            d = Grelu(c)
            e = my.ops.Bar(x)
            f = my.ops.Bar(x)
            y = Add(c, e)
        }"""
        check = zrt.check(model(text, my_ops=1))
        assert (check.verdict, check.nodes) == ("does not load", None)
        register = "register its operators: SessionOptions.custom_ops or custom_op_libraries"
        assert errors(check) == [
            ("operator Gelu", "convert it to opset 20", ("node 0", "node 1")),
            ("operator Grelu", "", ("node 3",)),
            ("operator my.ops.Bar", register, ("node 4", "node 5")),
        ]
        assert "ONNX has it since opset 20, the model imports 17" in reasons(check)
        assert "ONNX has no operator of this name" in reasons(check)

    def test_remedy_mends(self) -> None:
        text = "(float[2] x) => (float[2] y) { y = Gelu(x) }"
        assert not zrt.check(model(text, 19)).loads
        assert zrt.check(model(text, 20)).loads

    def test_operator_that_onnx_dropped(self) -> None:
        text = '(float[2, 2] x) => (float[2, 2] y) { y = Upsample <mode = "nearest"> (x, s) }'
        proto = model(text.replace("(x, s)", "(x, x)"), 10)
        check = zrt.check(proto)
        assert not check.loads
        assert [subject for subject, _, _ in errors(check)] == ["operator Upsample"]

    def test_domain_that_is_not_imported(self) -> None:
        proto = model("(float[2] x) => (float[2] y) { y = my.ops.Bar(x) }", my_ops=1)
        del proto.opset_import[1:]
        [(subject, remedy, nodes)] = errors(zrt.check(proto))
        assert (subject, nodes) == ("operator my.ops.Bar", ("node 0",))
        assert "opset_import" in remedy

    def test_known_domains_name_what_brings_them(self) -> None:
        proto = model("(string[n] x) => (string[n] y) { y = ai.onnx.contrib.StringLower(x) }", ai_onnx_contrib=1)
        [(_, remedy, _)] = errors(zrt.check(proto))
        assert "onnxruntime-extensions" in remedy

    def test_registered_operators_are_there(self) -> None:
        class Twice(zrt.CustomOp):
            inputs = ("float32",)
            outputs = ("float32",)

            def compute(self, context: Any) -> None:
                raise AssertionError("the model is never run")

        domain = zrt.CustomOpDomain("my.ops", [Twice()])
        proto = model("(float[2] x) => (float[2] y) { a = my.ops.Twice(x) y = Grelu(a) }", my_ops=1)
        check = zrt.check(proto, zrt.SessionOptions(custom_ops=[domain]))
        assert [subject for subject, _, _ in errors(check)] == ["operator Grelu"]

    def test_types_without_a_kernel_and_those_with_one(self) -> None:
        check = zrt.check(model("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }"))
        [(subject, remedy, _)] = errors(check)
        assert subject == "operator Relu"
        assert "no kernel for bfloat16 on the CPU" in reasons(check)
        assert remedy == "cast its inputs: it has one for float32, float16, float64"
        check = zrt.check(model("(int16[2] x) => (int16[2] y) { y = Relu(x) }"))
        assert errors(check)[0][1].startswith("cast its inputs: it has one for int32")

    def test_wrong_types_and_attributes_have_the_librarys_reason(self) -> None:
        check = zrt.check(model("(string[2] x) => (string[2] y) { a = Relu(x) y = Concat(a, x) }"))
        assert [subject for subject, _, _ in errors(check)] == ["operator Relu", "operator Concat"]
        assert "tensor(string)" in reasons(check)
        assert "Required attribute 'axis' is missing" in reasons(check)

    def test_nodes_of_subgraphs_and_functions(self) -> None:
        text = """(bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = left () => (float[2] a) { [inner] a = Grelu(x) },
                       else_branch = right () => (float[2] b) { b = Neg(x) }>
        }"""
        [(subject, _, nodes)] = errors(zrt.check(model(text)))
        assert (subject, nodes) == ("operator Grelu", ("inner",))
        function = onnx.parser.parse_function('<opset_import: ["" : 17], domain: "own"> F (p) => (q) { q = Grelu(p) }')
        proto = model("(float[2] x) => (float[2] y) { y = own.F(x) }", own=1)
        proto.functions.append(function)
        assert [subject for subject, _, _ in errors(zrt.check(proto))] == ["operator Grelu"]

    @pytest.mark.parametrize("others", [("F",), ("G", "F")])
    def test_functions_that_call_themselves(self, others: tuple[str, ...]) -> None:
        """The onnx package ends the process over them."""
        proto = model("(float[2] x) => (float[2] y) { y = own.F(x) }", own=1)
        for name, called in zip(("F", *others), others, strict=False):
            text = f'<opset_import: ["" : 17, "own" : 1], domain: "own"> {name} (p) => (q) {{ q = own.{called}(p) }}'
            proto.functions.append(onnx.parser.parse_function(text))
        check = zrt.check(proto)
        assert errors(check)[0][0].startswith("function ")
        assert "it calls itself" in reasons(check)

    def test_small_weights_stay_weights(self) -> None:
        """An operator may need them as constants: its trial by itself has them too."""
        text = """(float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] s = {1, 1, 2, 2}> {
            a = Resize(x, , s)
            y = Grelu(a)
        }"""
        assert [subject for subject, _, _ in errors(zrt.check(model(text)))] == ["operator Grelu"]


class TestVersions:
    def test_newer_than_the_library_reads(self) -> None:
        newest = limits([""])
        opset, ir = newest.opsets[""], newest.ir_version
        assert opset is not None
        assert ir is not None
        proto = model("(float[2] x) => (float[2] y) { y = Grelu(x) }")
        proto.opset_import[0].version, proto.ir_version = opset + 1, ir + 1
        check = zrt.check(proto)
        subjects = [subject for subject, _, _ in errors(check)]
        assert subjects == [f"IR version {ir + 1}", f"opset {opset + 1} of ai.onnx", "operator Grelu"]
        assert f"this library reads {opset} and older" in reasons(check)
        assert f"convert_version(model, {opset})" in errors(check)[1][1]

    def test_table_of_releases_is_that_of_the_library(self) -> None:
        newest = limits([""])
        version = tuple(map(int, zrt.check(NEG).library.split(".")[:2]))
        opset, ir, _ = [row for row in RELEASES if tuple(map(int, row[2].split("."))) <= version][-1]
        assert (newest.opsets[""], newest.ir_version) == (opset, ir)

    def test_remedy_names_the_release(self, monkeypatch: pytest.MonkeyPatch) -> None:
        newest = limits([""]).opsets[""]
        assert newest is not None
        monkeypatch.setattr("zrt.diagnosis.check.RELEASES", ((newest, 13, "1.1"), (newest + 5, 99, "9.9")))
        proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
        proto.opset_import[0].version = newest + 1
        assert errors(zrt.check(proto))[0][1].endswith("or take ONNX Runtime 9.9 or later")


class TestWeights:
    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        """A model whose weights are in w.bin beside it."""
        proto = model("(float[512] x) => (float[512] y) { y = Add(x, w) }")
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(512, np.float32), "w"))
        onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        return tmp_path / "m.onnx"

    def test_there(self, outside: Path) -> None:
        assert zrt.check(outside).loads

    def test_missing_and_short(self, outside: Path) -> None:
        weights = outside.with_name("w.bin")
        content = weights.read_bytes()
        weights.write_bytes(content[:100])
        check = zrt.check(outside)
        assert (check.verdict, [subject for subject, _, _ in errors(check)]) == (
            "does not load",
            ["the weights in 'w.bin'"],
        )
        assert "'w'" in reasons(check)
        weights.unlink()
        assert "No such file" in reasons(zrt.check(outside))

    def test_missing_weights_that_no_node_takes(self, outside: Path) -> None:
        outside.with_name("w.bin").unlink()
        proto = onnx.load(outside, load_external_data=False)
        proto.graph.node[0].input[1] = "x"
        outside.write_bytes(proto.SerializeToString())
        zrt.Session(outside).close()
        check = zrt.check(outside)
        assert (check.verdict, errors(check)) == ("runs", [])
        assert "note: the weights in 'w.bin'" in str(check)

    def test_missing_weights_of_one_name_with_two_shapes(self, outside: Path) -> None:
        outside.with_name("w.bin").unlink()
        proto = onnx.load(outside, load_external_data=False)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(3, np.float32), "w"))
        outside.write_bytes(proto.SerializeToString())
        assert [subject for subject, _, _ in errors(zrt.check(outside))] == ["the weights in 'w.bin'"]

    def test_other_faults_are_found_too(self, outside: Path) -> None:
        outside.with_name("w.bin").unlink()
        proto = onnx.load(outside, load_external_data=False)
        proto.graph.node[0].op_type = "Grelu"
        outside.write_bytes(proto.SerializeToString())
        assert [subject for subject, _, _ in errors(zrt.check(outside))] == ["the weights in 'w.bin'", "operator Grelu"]

    def test_outside_the_folder(self, outside: Path, tmp_path: Path) -> None:
        (tmp_path / "below").mkdir()
        moved = tmp_path / "below" / "m.onnx"
        proto = onnx.load(outside, load_external_data=False)
        proto.graph.initializer[0].external_data[0].value = "../w.bin"
        moved.write_bytes(proto.SerializeToString())
        check = zrt.check(moved)
        assert [subject for subject, _, _ in errors(check)] == ["the weights in '../w.bin'"]
        assert "trusted_folders" in reasons(check)

    def test_supplied_by_the_options(self, outside: Path) -> None:
        outside.with_name("w.bin").unlink()
        options = zrt.SessionOptions(initializers={"w": np.ones(512, np.float32)})
        assert zrt.check(outside, options).loads


class TestFiles:
    @pytest.mark.parametrize("content", [b"", b"abc", b"\x08\x0a\x3a\xff\xff\xff\xff\x0f", b"\x00" * 100])
    def test_broken_file_gets_a_check(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "a.onnx"
        path.write_bytes(content)
        check = zrt.check(path)
        assert (check.verdict, check.operators) == ("does not load", None)
        [problem] = check.problems
        assert problem.subject == "the file"
        assert problem.reason

    def test_every_cut_gets_a_check(self) -> None:
        whole = model("(float[2] x) => (float[2] y) { a = Neg(x) y = Add(a, x) }").SerializeToString()
        for size in range(0, len(whole), 3):
            check = zrt.check(whole[:size])
            assert not check.loads
            assert check.problems

    def test_file_beyond_the_limit_of_protobuf(self, tmp_path: Path) -> None:
        path = tmp_path / "large.onnx"
        path.write_bytes(NEG)
        with open(path, "r+b") as file:
            # A field that the reader skips: 2.2 GB of a sparse file.
            file.seek(0, 2)
            file.write(b"\xfa\x7f\x80\xa0\xe8\xa0\x08")
            file.truncate(file.tell() + 2_200_000_000 + 1)
        check = zrt.check(path)
        assert not check.loads

    def test_graph_with_a_cycle_has_the_librarys_reason(self) -> None:
        proto = model("(float[2] x) => (float[2] y) { a = Add(x, y) y = Neg(a) }")
        [(subject, _, _)] = errors(zrt.check(proto))
        assert subject == "the model"


class TestWarnings:
    def test_16_bits_that_the_cpu_computes_in_32(self) -> None:
        text = "(float16[1, 1, 4, 4] x, float16[1, 1, 2, 2] w) => (float16[1, 1, 3, 3] y) { y = Conv(x, w) }"
        check = zrt.check(model(text))
        [problem] = check.problems
        assert (check.verdict, problem.severity, problem.subject) == ("runs", "warning", "values of float16")
        assert "Conv" in problem.reason
        assert problem.nodes == ("node 0",)

    def test_operators_that_only_move_values_are_not_cast(self) -> None:
        assert zrt.check(model("(float16[4] x) => (float16[4] y) { y = Identity(x) }")).problems == ()

    @pytest.mark.parametrize(
        ("flags", "entries", "warned"),
        [
            ({"avx2"}, {}, True),
            ({"avx2", "avx512_vnni"}, {}, False),
            ({"avx2", "avx_vnni"}, {}, False),
            (set(), {}, False),
            ({"avx2"}, {"session.x64quantprecision": "1"}, False),
        ],
    )
    def test_int8_without_vnni(
        self, monkeypatch: pytest.MonkeyPatch, flags: set[str], entries: dict[str, str], warned: bool
    ) -> None:
        monkeypatch.setattr(int8, "processor_flags", lambda: flags)
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        text = "(uint8[2, 2] x) => (int32[2, 2] y) <int8[2, 2] w = {1, 2, 3, 4}> { y = MatMulInteger(x, w) }"
        check = zrt.check(model(text), zrt.SessionOptions(config_entries=entries))
        assert [problem.subject for problem in check.problems] == ["weights of int8"] * warned

    def test_int8_weights_of_subgraphs_and_constants(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(int8, "processor_flags", lambda: {"avx2"})
        monkeypatch.setattr("platform.machine", lambda: "x86_64")
        check = zrt.check(
            model(
                """(uint8[2, 2] x, bool c) => (int32[2, 2] y) <int8[2, 2] w = {1, 2, 3, 4}> {
                    v = Constant <value = int8[2, 2] {1, 2, 3, 4}> ()
                    y = If (c) <
                        then_branch = t () => (int32[2, 2] a) { [outer] a = MatMulInteger(x, w) },
                        else_branch = e () => (int32[2, 2] b) { [constant] b = MatMulInteger(x, v) }
                    >
                }"""
            )
        )
        assert [(problem.subject, problem.nodes) for problem in check.problems] == [
            ("weights of int8", ("outer", "constant"))
        ]


def test_problems_of_one_kind_are_one_and_errors_come_first() -> None:
    findings = report.Findings("a", "model 'a'", "1.0")
    for severity, node in (("note", "a"), ("error", "b"), ("note", "c"), ("warning", "d")):
        findings.add(severity, "s", "r", "", (node,))
    check = findings.result({CPU: 1})
    assert [(each.severity, each.nodes) for each in check.problems] == [
        ("error", ("b",)),
        ("warning", ("d",)),
        ("note", ("a", "c")),
    ]
    assert (check.verdict, check.nodes) == ("does not load", None)


@pytest.mark.onnx_data("node")
def test_trial_agrees_with_the_load() -> None:
    """Of a model of one node, the check must say that it loads where it does."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    wrong: list[str] = []
    paths = sorted(folder.glob("*/model.onnx"))[::7]
    assert len(paths) > 100
    quiet = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1)
    for path in paths:
        try:
            zrt.Session(path, quiet).close()
            loads = True
        except zrt.Error:
            loads = False
        check = zrt.check(path)
        if check.loads != loads or (not loads and not [each for each in check.problems if each.severity == "error"]):
            wrong.append(path.parent.name)
    assert wrong == []


def test_untyped_inputs_do_not_end_the_process(script: Callable[..., Any]) -> None:
    script("untyped_inputs.py")
