"""The origin that optimized and compiled models carry, and sessions of stale ones."""

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import zrt
from benches.models import build
from zrt.errors import CallbackError, FileError, ModelError
from zrt.loading import origin

QUIET = zrt.SessionOptions(log_severity_level="FATAL", intra_op_num_threads=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.onnx"
    path.write_bytes(build.cnn().SerializeToString())
    return path


def read(model: Any) -> dict[str, Any]:
    entries = zrt.Session(model, QUIET).metadata.custom_metadata_map
    record: dict[str, Any] = json.loads(entries["zrt.origin"])
    return record


def change(path: Path) -> None:
    """Another weight, in a file that is newer than all others."""
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    path.write_bytes(model.SerializeToString())
    touch(path)


def touch(path: Path) -> None:
    later = max(each.stat().st_mtime_ns for each in path.parent.iterdir()) + 10**9
    os.utime(path, ns=(later, later))


def optimized(source: Path) -> Path:
    made = source.with_name("made.onnx")
    zrt.save_optimized(source, made)
    return made


def in_own_format(source: Path) -> Path:
    made = source.with_name("made.ort")
    zrt.save_optimized(source, made)
    return made


def compiled(source: Path) -> Path:
    made = source.with_name("made.onnx")
    zrt.compile(source, made, QUIET)
    return made


@pytest.mark.parametrize(
    ("make", "level"), [(optimized, "ENABLE_EXTENDED"), (in_own_format, "ENABLE_EXTENDED"), (compiled, "DISABLE_ALL")]
)
def test_made_models_carry_their_origin(source: Path, make: Callable[[Path], Path], level: str) -> None:
    record = read(make(source))
    found = zrt.fingerprint(source)
    assert (record["graph"], record["weights"], record["file"]) == (found.graph, found.weights, "source.onnx")
    assert (record["zrt"], record["level"], record["providers"]) == (zrt.__version__, level, [])
    assert "processor" not in record


@pytest.mark.parametrize("make", [zrt.save_optimized, zrt.compile], ids=["optimized", "compiled"])
def test_options_are_in_the_origin(source: Path, make: Callable[..., Any]) -> None:
    entries = {"session.disable_prepacking": "1"}
    options = zrt.SessionOptions(log_severity_level="FATAL", config_entries=entries)
    make(source, source.with_name("made.onnx"), options)
    assert read(source.with_name("made.onnx"))["config_entries"] == entries


def test_pieces_and_bytes_carry_it_too(source: Path) -> None:
    pieces: list[bytes] = []
    zrt.compile(source, pieces.append, QUIET)
    whole = zrt.compile(source, None, QUIET)
    assert whole is not None
    assert b"".join(pieces) == whole
    onnx.checker.check_model(onnx.load_model_from_string(whole))
    assert "file" not in read(whole)


def test_failure_with_the_last_piece_is_the_callers(source: Path) -> None:
    def write(piece: bytes) -> None:
        if b"zrt.origin" in piece:
            raise ValueError("full")

    with pytest.raises(CallbackError, match="full") as raised:
        zrt.compile(source, write, QUIET)
    assert isinstance(raised.value.__cause__, ValueError)


@pytest.mark.parametrize("make", [optimized, in_own_format, compiled])
def test_changed_source_makes_the_model_stale(source: Path, make: Callable[[Path], Path]) -> None:
    made = make(source)
    zrt.Session(made, QUIET, strict=True).close()
    change(source)
    words = f"{made.name}' is stale: its source 'source.onnx' has changed"
    with pytest.warns(UserWarning, match=re.escape(words)) as caught:
        zrt.Session(made, QUIET).close()
    assert caught[0].filename == __file__
    with pytest.raises(ModelError, match="stale"):
        zrt.Session(made, QUIET, strict=True)
    make(source)
    touch(made)
    zrt.Session(made, QUIET, strict=True).close()


def test_model_made_of_one_in_onnx_runtimes_own_format_carries_its_own_origin(source: Path) -> None:
    first = in_own_format(source)
    for name in ("second.ort", "second.onnx"):
        second = source.with_name(name)
        options = zrt.SessionOptions(config_entries={"session.load_model_format": "ORT"})
        zrt.save_optimized(first, second, options)
        record = read(second)
        assert (record["file"], record["level"]) == ("made.ort", "ENABLE_ALL")
        assert not {"graph", "weights"} & record.keys()


def test_newer_source_of_the_same_content_is_current(source: Path) -> None:
    made = optimized(source)
    touch(source)
    zrt.Session(made, QUIET, strict=True).close()


@pytest.mark.parametrize("kind", ["gone", "broken", "pipe", "folder"])
def test_source_that_cannot_be_read_says_nothing(source: Path, kind: str) -> None:
    made = optimized(source)
    source.unlink()
    if kind == "broken":
        source.write_bytes(b"\xff" * 100)
    elif kind == "pipe":
        os.mkfifo(source)
    elif kind == "folder":
        source.mkdir()
    if kind != "gone":
        touch(source)
    zrt.Session(made, QUIET, strict=True).close()


def test_other_folders_are_not_named(source: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    zrt.save_optimized(source, tmp_path / "made" / "m.onnx")
    assert "file" not in read(tmp_path / "made" / "m.onnx")
    (tmp_path / "sources").mkdir()
    shutil.copy(source, tmp_path / "sources" / "s.onnx")
    zrt.save_optimized(tmp_path / "sources" / "s.onnx", tmp_path / "m.onnx")
    assert read(tmp_path / "m.onnx")["file"] == os.path.join("sources", "s.onnx")


def test_model_optimized_in_place_does_not_name_itself(source: Path) -> None:
    zrt.save_optimized(source, source, in_place=True)
    assert "file" not in read(source)


def with_origin(path: Path, content: object) -> Path:
    model = onnx.load(path)
    del model.metadata_props[:]
    model.metadata_props.add(key="zrt.origin", value=content if isinstance(content, str) else json.dumps(content))
    made = path.with_name("with.onnx")
    onnx.save(model, made)
    return made


def test_other_library_or_processor_makes_the_model_stale(source: Path) -> None:
    record = read(optimized(source))
    older = with_origin(source, {**record, "onnxruntime": "1.2.3"})
    with pytest.warns(UserWarning, match=r"ONNX Runtime '1\.2\.3' made it"):
        zrt.Session(older, QUIET).close()
    zrt.save_optimized(source, source.with_name("all.onnx"), zrt.SessionOptions(graph_optimization_level="ENABLE_ALL"))
    record = read(source.with_name("all.onnx"))
    assert record["level"] == "ENABLE_ALL"
    with pytest.raises(ModelError, match="processor of another machine"):
        zrt.Session(with_origin(source, {**record, "processor": "other"}), QUIET, strict=True)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        "[" * 100_000,
        [],
        {},
        {"onnxruntime": None},
        {"file": "../source.onnx"},
        {"file": "/etc/passwd"},
        {"file": 5},
        {"file": "a\0b"},
        {"file": ""},
    ],
)
def test_odd_origins_harm_nobody(source: Path, content: Any) -> None:
    record = read(optimized(source))
    made = with_origin(source, {**record, **content} if isinstance(content, dict) else content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zrt.Session(made, QUIET).close()


def test_warning_as_an_error_leaves_no_session(source: Path) -> None:
    made = optimized(source)
    change(source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="stale"):
            zrt.Session(made, QUIET)


def test_full_disk_leaves_the_old_file(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = optimized(source)
    before = made.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(origin, "open", full, raising=False)
    with pytest.raises(FileError, match=r"made\.onnx.*no space"):
        zrt.save_optimized(source, made)
    assert made.read_bytes() == before
    assert sorted(os.listdir(made.parent)) == ["made.onnx", "source.onnx"]
