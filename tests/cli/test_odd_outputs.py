"""Outputs that cannot be written: a closed standard output, a full disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from zrt.cli import main
from zrt.cli.common import shipped


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["inspect"], ["--version"], ["nope"]])
def test_closed_standard_output_is_not_an_error(arguments):
    """Services may run with their output closed."""
    command = ["sh", "-c", '"$0" -m zrt "$@" >&-', sys.executable, *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if arguments == ["nope"] else 0)


def test_plot_on_a_full_disk_is_named(tmp_path, monkeypatch, capsys):
    picture = pytest.importorskip("matplotlib.figure")

    def savefig(self: object, path: Path) -> None:
        # As the system says it where it is a write that fails, and not the opening.
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(picture.Figure, "savefig", savefig)
    assert main(["bench", "--runs", "1", "--plot", str(tmp_path / "picture.png")]) == 1
    assert capsys.readouterr().err == f"zrt bench: --plot {tmp_path / 'picture.png'}: No space left on device\n"


@pytest.mark.parametrize("arguments", [("fast.onnx",), ("fast.ort",), ("fast.onnx", "--weights", "fast.weights")])
def test_compile_on_a_full_disk_names_the_file(tmp_path, arguments):
    (tmp_path / "model.onnx").write_bytes(shipped("digits.onnx").read_bytes())
    # No file may be larger than a few blocks.
    command = ["sh", "-c", 'ulimit -f 8; "$0" -m zrt compile model.onnx "$@"', sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=processes.environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert repr(arguments[0]) in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
