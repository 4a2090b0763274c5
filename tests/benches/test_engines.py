"""`python -m benches.engines` measures each build in processes of its own, and says where results differ."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", exc_type=ImportError, reason="the official package is the yardstick")

import onnxruntime

import zrt
from benches import engines


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder with this zrt, and the official package beside it."""
    for package in (zrt, onnxruntime):
        source = Path(package.__file__).parent
        (tmp_path / source.name).symlink_to(source)
    for metadata in Path(onnxruntime.__file__).parents[1].glob("onnxruntime*.dist-info"):
        (tmp_path / metadata.name).symlink_to(metadata)
    return str(tmp_path)


@pytest.mark.slow
def test_table_has_each_figure_of_each_build(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["engines", f"one={folder}", f"other={folder}", "--rounds", "1"])
    engines.main()
    printed = capsys.readouterr().out
    head, size, *rows = printed.splitlines()
    assert head.split() == ["one", "other", "onnxruntime"]
    assert len(set(size.split()[2:])) == 1
    titles = [f"{name}, ms" for name in engines.TIMES] + ["resident, MB"]
    assert [row[:18].strip() for row in rows] == titles
    # onnxruntime beside itself; zrt alone opens and registers by itself.
    assert [row.endswith("(1.00)") for row in rows] == [name not in ("open", "register") for name in engines.TIMES] + [
        True
    ]
    assert "DIFFER" not in printed


@pytest.mark.slow
def test_ratios_are_to_the_yardstick(folder, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["engines", f"one={folder}", f"other={folder}", "--rounds", "1", "--yardstick", "one"]
    )
    engines.main()
    [run] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("run, ms")]
    assert run[18:36].endswith("(1.00)")


def test_each_build_comes_first_in_turn():
    assert list(engines.turns(["a", "b", "c"], 3)) == [*"abc", *"bca", *"cab"]
