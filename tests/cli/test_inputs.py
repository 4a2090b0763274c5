"""``--input`` of ``bench``, ``profile`` and ``run``: values, files, and files of all inputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import models
from tests.support.compiler import shared_library

COMMANDS = ("bench", "profile", "run")
CPU = "CPUExecutionProvider"


@pytest.fixture
def command(request: pytest.FixtureRequest, zrt_json: Any, saved: Any) -> Any:
    """Runs a command with few runs and gives its document."""

    def run(name: str, *arguments: object, status: int = 0) -> Any:
        few = () if name == "run" else ("--runs", 2)
        return zrt_json(name, *arguments, *few, status=status)

    return run


def shapes_of(name: str, document: Any) -> dict[str, Any]:
    """Each input's type and shape as the document of the command has them."""
    if name == "profile":
        return dict(document["inputs"])
    inputs = document["model"]["inputs"] if name == "bench" else document["providers"][CPU]["inputs"]
    return {key: f"{fed['type']}{fed['shape']}" for key, fed in inputs.items()}


@pytest.fixture
def detector(build: Any, saved: Any) -> Path:
    """A model that runs at a rate of 16000 only, as a voice detector does: any other one fails in a branch."""
    text = """(float[1, 4] sound, int64 rate) => (float[] out) <int64 wanted = {16000}> {
        right = Equal(rate, wanted)
        out = If (right) <
            then_branch = same () => (float[] a) <int64[2] s = {1, 4}> { a = Reshape(sound, s) },
            else_branch = other () => (float[] b) <int64[1] s = {3}> { b = Reshape(sound, s) }
        >
    }"""
    return saved(build(text).SerializeToString())


@pytest.mark.parametrize("name", COMMANDS)
class TestValues:
    def test_one_value_fills_the_input(self, command, complaint, detector, name):
        complaint(name, detector, status=1)
        document = command(name, detector, "--input", "rate=16000")
        assert shapes_of(name, document) == {"sound": "float32[1, 4]", "rate": "int64[]"}

    def test_several_values_are_the_elements(self, command, saved, name):
        document = command(name, saved(models.add(["n"])), "--input", "x=1,-2.5,3e2", "--input", "y=7")
        assert shapes_of(name, document) == {"x": "float32[3]", "y": "float32[3]"}

    def test_number_of_values_is_checked(self, complaint, saved, name):
        err = complaint(name, saved(models.add()), "--input", "x=1,2", status=2)
        assert "input 'x': 2 values for the shape [4]" in err

    @pytest.mark.parametrize(
        ("text", "says"),
        [("many", "'many'"), ("1,,3,4", "''"), ("1.5.5", "1.5.5"), ("0x10", "0x10"), ("1e300", "1e300")],
    )
    def test_text_that_is_no_number_of_the_type_is_named(self, complaint, saved, name, text, says):
        err = complaint(name, saved(models.add()), "--input", f"x={text}", status=2)
        assert "input 'x'" in err
        assert says in err

    def test_unknown_input_is_wrong_usage(self, complaint, saved, name):
        err = complaint(name, saved(models.add()), "--input", "nope=1", status=2)
        assert "'nope'" in err
        assert "'x', 'y'" in err


@pytest.mark.parametrize("name", COMMANDS)
class TestFiles:
    def test_file_of_all_inputs(self, command, saved, tmp_path, name):
        file = tmp_path / "feeds.npz"
        np.savez(file, x=np.arange(3, dtype=np.float32), y=np.ones(3, np.float32))
        document = command(name, saved(models.add(["n"])), "--input", file)
        assert shapes_of(name, document) == {"x": "float32[3]", "y": "float32[3]"}

    def test_file_of_one_input_gives_the_others_their_sizes(self, command, saved, tmp_path, name):
        file = tmp_path / "x.npy"
        np.save(file, np.arange(5, dtype=np.float32))
        document = command(name, saved(models.add(["n"])), "--input", f"x={file}")
        assert shapes_of(name, document) == {"x": "float32[5]", "y": "float32[5]"}

    def test_input_given_twice_is_wrong_usage(self, complaint, saved, tmp_path, name):
        file = tmp_path / "feeds.npz"
        np.savez(file, x=np.arange(4, dtype=np.float32))
        for again in (("--input", "x=1"), ("--input", file), ("--shape", "x=4")):
            assert "'x'" in complaint(name, saved(models.add()), "--input", file, *again, status=2)

    def test_array_of_another_type_is_wrong_usage(self, complaint, saved, tmp_path, name):
        file = tmp_path / "feeds.npz"
        np.savez(file, x=np.arange(4))
        assert "int64" in complaint(name, saved(models.add()), "--input", file, status=2)

    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
    def test_broken_file_is_named(self, complaint, saved, tmp_path, name, content):
        for argument in ("feeds.npz", "x=x.npy"):
            file = tmp_path / argument.rpartition("=")[2]
            file.write_bytes(content)
            file_argument = argument.replace(file.name, str(file))
            assert file_argument in complaint(name, saved(models.add()), "--input", file_argument, status=1)


def identity(element_type: int, size: int = 4) -> bytes:
    ends = [[models.tensor(name, element_type, [size])] for name in "xy"]
    return models.build([models.node("Identity", ["x"], ["y"])], *ends)


def test_values_reach_the_model(zrt_json, saved):
    document = zrt_json("run", saved(models.add()), "--input", "x=1,2,3,4", "--input", "y=0.5")
    output = document["providers"][CPU]["outputs"]["z"]
    assert (output["min"], output["max"]) == (1.5, 4.5)
    assert document["providers"][CPU]["inputs"]["x"]["source"] == "given"


@pytest.mark.parametrize(
    ("element_type", "text", "dtype"),
    [
        (onnx.TensorProto.BOOL, "true,0,false,1", "bool"),
        (onnx.TensorProto.UINT8, "255", "uint8"),
        (onnx.TensorProto.FLOAT16, "nan,inf,-1,2", "float16"),
        (onnx.TensorProto.BFLOAT16, "1", "bfloat16"),
        (onnx.TensorProto.STRING, "one,two,three,four", "string"),
    ],
)
def test_values_of_every_kind(zrt_json, saved, element_type, text, dtype):
    status = 1 if "nan" in text else 0
    document = zrt_json("run", saved(identity(element_type)), "--input", f"x={text}", status=status)["providers"][CPU]
    assert document["inputs"]["x"]["type"] == dtype


@pytest.mark.parametrize(("element_type", "text"), [(onnx.TensorProto.UINT8, "256"), (onnx.TensorProto.BOOL, "2")])
def test_values_out_of_range_are_wrong_usage(complaint, saved, element_type, text):
    assert f"'{text}'" in complaint("run", saved(identity(element_type)), "--input", f"x={text}", status=2)


def test_long_text_is_a_value_and_no_file(zrt_json, saved):
    assert zrt_json("run", saved(identity(onnx.TensorProto.STRING, 1)), "--input", f"x={'text ' * 2000}")["providers"][
        CPU
    ]["inputs"]["x"]


@pytest.mark.parametrize("size", [10**12, 10**18])
def test_too_large_input_of_one_value_is_named(complaint, saved, size):
    err = complaint("run", saved(models.add(["n"])), "--shape", f"x={size}", "--input", "x=1", status=1)
    assert "input 'x'" in err


def test_shape_option_applies_to_values(zrt_json, saved):
    document = zrt_json("run", saved(models.double()), "--shape", "x=2,4", "--input", "x=1")["providers"][CPU]
    assert document["inputs"]["x"]["shape"] == [2, 4]


def test_rank_of_an_open_shape_follows_the_values(zrt_json, saved):
    path = saved(models.flatten_of_unknown_rank())
    assert zrt_json("run", path, "--input", "x=1,2,3")["providers"][CPU]["inputs"]["x"]["shape"] == [3]


def test_trace_does_not_replace_an_input(complaint, saved, tmp_path):
    file = tmp_path / "feeds.npz"
    np.savez(file, x=np.zeros(4, np.float32))
    before = file.read_bytes()
    link: Path = tmp_path / "trace.json"
    link.symlink_to(file)
    arguments = ("profile", saved(models.add()), "--input", file, "--trace", link, "--overwrite")
    assert "the same file" in complaint(*arguments, status=2)
    assert file.read_bytes() == before


@pytest.mark.parametrize("named", ["sub/w", "..", "w.onnx"])
def test_weights_of_an_optimized_model_have_a_plain_name(complaint, saved, tmp_path, named):
    entries = {"session.optimized_model_external_initializers_file_name": named}
    session = {"optimized_model_filepath": str(tmp_path / "w.onnx"), "config_entries": entries}
    (tmp_path / "options.json").write_text(json.dumps({"session": session}))
    text = complaint("run", saved(models.add()), "--options", tmp_path / "options.json", status=2)
    assert f"the weights of optimized_model_filepath: '{named}': expected a file's plain name" in text


@pytest.mark.parametrize("command", ["run", "bench", "profile"])
@pytest.mark.parametrize("named", ["feeds.npz", "link", "options.json"])
@pytest.mark.parametrize("weights", [False, True], ids=["model", "weights"])
def test_optimized_model_does_not_replace_what_a_command_reads(complaint, saved, tmp_path, command, named, weights):
    file, options = tmp_path / "feeds.npz", tmp_path / "options.json"
    np.savez(file, x=np.zeros(4, np.float32))
    (tmp_path / "link").symlink_to(file)
    written = "written.onnx" if weights else named
    entries = {"session.optimized_model_external_initializers_file_name": named} if weights else {}
    session = {"optimized_model_filepath": str(tmp_path / written), "config_entries": entries}
    options.write_text(json.dumps({"session": session}))
    before = file.read_bytes(), options.read_bytes()
    arguments = (command, saved(models.add()), "--input", file, "--options", options)
    assert "optimized_model_filepath" in complaint(*arguments, status=2)
    assert (file.read_bytes(), options.read_bytes()) == before


@pytest.mark.parametrize("command", ["run", "compile", "profile", "compile in place"])
def test_library_of_operators_is_not_replaced(complaint, saved, options, tmp_path, command):
    library = shared_library(tmp_path / "operators.so", "void *RegisterCustomOps(void) { return 0; }")
    session = {"custom_op_libraries": [str(library)]}
    more = {
        "run": (),
        "compile": (library, "--overwrite"),
        "compile in place": ("--in-place", "--weights", library.name, "--overwrite"),
        "profile": ("--trace", library, "--overwrite"),
    }[command]
    if command == "run":
        session["optimized_model_filepath"] = str(library)
    before = library.read_bytes()
    file = options(json.dumps({"session": session}), "options.json")
    arguments = (command.split()[0], saved(models.add()), *more, "--options", file)
    assert "operators.so' is the same file as " in complaint(*arguments, status=2)
    assert library.read_bytes() == before


@pytest.mark.parametrize("start", [100, 200, 400])
def test_damaged_compressed_file_is_named(complaint, saved, tmp_path, start):
    path = tmp_path / "damaged.npz"
    np.savez_compressed(path, x=np.arange(4000, dtype=np.float32))
    content = bytearray(path.read_bytes())
    content[start : start + 100] = b"\xff" * 100
    path.write_bytes(content)
    complaint_of_run = complaint("run", saved(models.add(["n"])), "--input", path, status=1)
    assert f"--input {path}: no .npy or .npz file of numbers: " in complaint_of_run


def test_file_that_is_too_large_for_memory_is_called_so(complaint, saved, tmp_path):
    path = tmp_path / "large.npy"
    with path.open("wb") as file:
        form = {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
        np.lib.format.write_array_header_1_0(file, form)
    complaint_of_run = complaint("run", saved(models.add(["n"])), "--input", f"x={path}", status=1)
    assert f"--input x={path}: Unable to allocate" in complaint_of_run
