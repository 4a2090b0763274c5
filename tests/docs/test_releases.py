"""Releases: those of ONNX Runtime that `docs/building.md` lists as tested, and the changelog of zrt's own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zrt._native import lib
from zrt._native.library import NEWEST_TESTED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "building.md"


def releases_of_the_page() -> list[str]:
    section = re.search(r"^## Releases of ONNX Runtime$(.*?)^## ", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section
    return re.findall(r"^\| (\d+\.\d+\.\d+) \|", section[1], re.MULTILINE)


def test_table_goes_from_the_oldest_release_to_the_newest_tested() -> None:
    releases = [[int(number) for number in release.split(".")] for release in releases_of_the_page()]
    assert releases == sorted(releases)
    assert releases_of_the_page()[0] == f"1.{lib.ZRT_API_VERSION}.0"
    assert releases_of_the_page()[-1] == NEWEST_TESTED


def test_page_says_which_api_version_zrt_asks_the_newest_release_for() -> None:
    asked = re.search(
        rf"^\| {re.escape(NEWEST_TESTED)} \|.* asks for API version (\d+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    newest = int(asked[1]) if asked else int(NEWEST_TESTED.split(".")[1])
    assert newest == lib.ZRT_NEWEST_API_VERSION


def test_release_collects_the_entries_of_the_changelog(tmp_path: Path) -> None:
    """Those that wait in docs/changes come along: a file there whose name has no kind is an error."""
    pytest.importorskip("towncrier", reason="towncrier is not installed: pip install --group docs")
    for name in ("CHANGELOG.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs" / "changes", tmp_path / "docs" / "changes")
    (tmp_path / "docs" / "changes" / "+singing.added.md").write_text("Lanes sing\nin tune.\n")
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.9.9"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    head, _, sections = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## ")
    collected = (tmp_path / "CHANGELOG.md").read_text("utf-8")
    assert collected.startswith(f"{head}\n## 9.9.9\n\n### Added\n\n")
    assert "- Lanes sing\n  in tune.\n" in collected
    assert collected.endswith(f"\n## {sections}")
    assert [file.name for file in (tmp_path / "docs" / "changes").iterdir()] == ["README.md"]
