"""Outputs that cannot be written: a closed standard output, a full disk."""

import errno
import os
import sys
from pathlib import Path

import pytest

from tests.support import processes
from zrt.cli import main
from zrt.cli.common import shipped


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["inspect"], ["--version"], ["nope"]])
def test_closed_standard_output_is_not_an_error(arguments):
    """Services may run with their output closed."""
    done = processes.run("sh", "-c", '"$0" -m zrt "$@" >&-', sys.executable, *arguments)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if arguments == ["nope"] else 0)


always_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a file that is always full")


@always_full
@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (["info"], ""),
        (["info", "--json"], ""),
        (["--version"], ""),
        (["compile", "digits.onnx", "o.onnx"], ""),
        # More than Python keeps until the command has ended; and it keeps nothing.
        (["run", "--json"], ""),
        (["info", "--json"], "1"),
    ],
)
def test_standard_output_on_a_full_disk_is_named(tmp_path, monkeypatch, arguments, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        done = processes.run(*processes.ZRT, *arguments, cwd=tmp_path, stdout=full)
    assert done.stderr == "zrt: standard output cannot be written: [Errno 28] No space left on device\n"
    assert done.returncode == 1


@always_full
def test_standard_error_on_a_full_disk_leaves_the_status():
    with open("/dev/full", "w") as full:
        done = processes.run(*processes.ZRT, "run", "--input", "none=1", stderr=full)
    assert done.returncode == 2


def test_closed_standard_error_leaves_standard_output_alone(tmp_path):
    command = ("sh", "-c", '"$0" -m zrt "$@" 2>&-', sys.executable, "inspect", tmp_path / "none", "--json")
    done = processes.run(*command)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.usefixtures("digits")
@pytest.mark.skipif(sys.platform != "linux", reason="macOS takes no such name")
@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict"])
@pytest.mark.parametrize("more", [[], ["--required-operators"]])
def test_name_that_standard_output_cannot_show(tmp_path, monkeypatch, encoding, more):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    name = os.fsdecode(b"m\xff.onnx")
    done = processes.run(*processes.ZRT, "compile", "digits.onnx", name, *more, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "m?.onnx" in done.stdout


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_plot_that_cannot_be_written_is_named(tmp_path, monkeypatch, capsys, number):
    picture = pytest.importorskip("matplotlib.figure")

    def savefig(self: object, path: Path) -> None:
        # As the system says it where it is a write that fails, and not the opening.
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(picture.Figure, "savefig", savefig)
    assert main(["bench", "--runs", "1", "--plot", str(tmp_path / "picture.png")]) == 1
    assert capsys.readouterr().err == (
        f"zrt bench: --plot: '{tmp_path / 'picture.png'}' cannot be written: {os.strerror(number)}\n"
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(
    ("command", "before", "after", "subject", "printed"),
    [
        ("compile", [], ["--required-operators"], "path", ""),
        ("tune", ["--output"], ["--seconds", "0.000001"], "--output", "the given options stay as they are\n"),
    ],
)
def test_text_that_cannot_be_written_is_named(
    tmp_path, monkeypatch, capsys, number, command, before, after, subject, printed
):
    def write_text(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    output = tmp_path / "written.toml"
    monkeypatch.setattr(Path, "write_text", write_text)
    assert main([command, str(shipped("digits.onnx")), *before, str(output), *after]) == 1
    out, err = capsys.readouterr()
    assert err == f"zrt {command}: {subject}: '{output}' cannot be written: {os.strerror(number)}\n"
    # Without its file a measurement is still there.
    assert (out[-len(printed) :] if printed else out) == printed
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("arguments", [("fast.onnx",), ("fast.ort",), ("fast.onnx", "--weights", "fast.weights")])
def test_compile_on_a_full_disk_names_the_file(tmp_path, arguments):
    # No file may be larger than a few blocks.
    command = ("sh", "-c", 'ulimit -f 8; "$0" -m zrt compile digits.onnx "$@"', sys.executable, *arguments)
    done = processes.run(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert repr(arguments[0]) in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["digits.onnx"]
