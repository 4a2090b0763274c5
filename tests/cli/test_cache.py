"""``zrt cache``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.session.chains import finish
from tests.support import models
from zrt import Session, SessionOptions
from zrt.loading import cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with two entries, the second of a model that the trial run cannot run."""
    folder = tmp_path / "cache"
    weight = np.ones(40_000, np.float32)
    good = models.parse("(float[40000] x) => (float[40000] y) { y = Add(x, w) }", w=weight)
    sequence = "(seq(float[n]) x) => (float[m] y) { z = ConcatFromSequence <axis = 0> (x) y = Add(z, w) }"
    for number, model in enumerate((good, models.parse(sequence, w=weight))):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(model)
        Session(path, SessionOptions(cache=folder)).close()
    finish()
    return folder


def test_lists_entries(zrt, zrt_json, folder: Path, tmp_path: Path) -> None:
    document = zrt_json("cache", "--folder", folder)
    assert document["folder"] == str(folder)
    assert document["removed"] == []
    described = {entry["model"]: entry for entry in document["entries"]}
    assert set(described) == {str(tmp_path / "0.onnx"), str(tmp_path / "1.onnx")}
    assert described[str(tmp_path / "0.onnx")]["refused"] is None
    assert "only tensors" in described[str(tmp_path / "1.onnx")]["refused"]
    assert "2 entries" in zrt("cache", "list", "--folder", folder)


def test_variable_names_the_folder(
    zrt_json, complaint, folder: Path, cache_variable, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_variable(str(folder))
    monkeypatch.setenv("ZRT_CACHE_SIZE", "123456")
    document = zrt_json("cache")
    assert (len(document["entries"]), document["limit"]) == (2, 123456)
    monkeypatch.setenv("ZRT_CACHE_SIZE", "much")
    assert "ZRT_CACHE_SIZE: 'much' is no number of bytes" in complaint("cache", "--json", status=2)


def test_verify_removes_damaged_entries(zrt, zrt_json, folder: Path) -> None:
    assert zrt_json("cache", "verify", "--folder", folder)["removed"] == []
    largest = max(folder.glob("*.zrt"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[5000] ^= 1
    largest.write_bytes(content)
    assert "checksum is wrong" in zrt("cache", "verify", "--folder", folder, status=1)
    assert not largest.exists()
    assert len(zrt_json("cache", "--folder", folder)["entries"]) == 1


@pytest.mark.parametrize("action", ["verify", "clear"])
def test_entry_that_cannot_be_removed(complaint, zrt_json, folder: Path, action: str) -> None:
    """A folder in its place."""
    place = max(folder.glob("*.zrt"), key=lambda path: path.stat().st_size)
    place.unlink()
    place.mkdir()
    words = complaint("cache", action, "--folder", folder, status=1)
    assert f"1 entry cannot be removed, such as {str(place)!r}" in words
    assert len(list(folder.glob("*.zrt"))) == (1 if action == "clear" else 2)


def test_clear_removes_what_is_the_caches(zrt_json, folder: Path) -> None:
    foreign = folder / "mine.txt"
    foreign.write_text("kept")
    assert len(zrt_json("cache", "clear", "--folder", folder)["removed"]) == 2
    assert sorted(path.name for path in folder.iterdir()) == [".zrt-notes", "mine.txt"]


def test_entry_that_another_process_makes_anew_is_no_failure(
    zrt_json, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trim = cache.trim

    def made_anew(*arguments: Any) -> list[str]:
        removed = trim(*arguments)
        entry.write_bytes(content)
        return removed

    entry = next(folder.glob("*.zrt"))
    content = entry.read_bytes()
    monkeypatch.setattr(cache, "trim", made_anew)
    assert len(zrt_json("cache", "clear", "--folder", folder)["removed"]) == 2


def test_note_that_another_process_removes_meanwhile_keeps_no_other(
    zrt_json, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def one_goes(path: Any) -> Any:
        found = list(scandir(path))
        if str(path) == str(notes):
            os.unlink(found[0].path)
        return iter(found)

    notes = folder / ".zrt-notes"
    for number in range(3):
        (notes / f"{number}-1.note").write_text("of an earlier load")
    monkeypatch.setattr(os, "scandir", one_goes)
    zrt_json("cache", "clear", "--folder", folder)
    monkeypatch.undo()
    assert list(notes.iterdir()) == []


def test_clear_of_another_folder_removes_nothing(zrt_json, tmp_path: Path) -> None:
    notes = tmp_path / "elsewhere"
    for place in (tmp_path / "project" / "files", notes):
        place.mkdir(parents=True)
        for name in ("2024-05", "cafe-1", ".new-draft", "cafe-1.note"):
            (place / name).write_text("kept")
    (tmp_path / "project" / ".zrt-notes").symlink_to(notes)
    (tmp_path / "project").chmod(0o700)
    assert zrt_json("cache", "clear", "--folder", tmp_path / "project")["removed"] == []
    assert len(list(notes.iterdir())) == len(list((tmp_path / "project" / "files").iterdir())) == 4


def test_list_does_not_mark_entries_as_used(zrt_json, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SETTLED_NS", 0)
    (tmp := folder.parent / "0.onnx").touch()
    assert Session(tmp, SessionOptions(cache=folder)).cache == "hit"
    files = [*folder.glob("*.zrt"), *(folder / ".zrt-notes").iterdir()]
    assert len(files) > 2
    for file in files:
        os.utime(file, (10**9, 10**9))
    for action in ("list", "verify"):
        assert {entry["used"][:4] for entry in zrt_json("cache", action, "--folder", folder)["entries"]} == {"2001"}


def test_folder_of_everybody_is_refused(zrt, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    zrt("cache", "clear", "--folder", tmp_path, status=1)


def test_missing_folder_is_an_empty_cache(zrt_json, tmp_path: Path) -> None:
    assert zrt_json("cache", "--folder", tmp_path / "none")["entries"] == []
