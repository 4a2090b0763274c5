"""Places that take no output: none at all, a disk that is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zrt.cli import main


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["inspect"], ["--version"], ["nope"]])
def test_a_closed_standard_output_is_no_error(arguments: list[str]) -> None:
    """As a service has it whose output was closed."""
    command = ["sh", "-c", '"$0" -m zrt "$@" >&-', sys.executable, *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if arguments == ["nope"] else 0)


def test_a_picture_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = pytest.importorskip("matplotlib.figure")

    def savefig(self: object, path: Path) -> None:
        # As the system says it where it is a write that fails, and not the opening.
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(picture.Figure, "savefig", savefig)
    assert main(["bench", "--runs", "1", "--plot", str(tmp_path / "picture.png")]) == 1
    assert capsys.readouterr().err == f"zrt bench: --plot {tmp_path / 'picture.png'}: No space left on device\n"
