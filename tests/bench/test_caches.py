"""The size of the processor's caches, as the system reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zrt.bench import caches


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (["48K", "2048K", "36864K"], 36 << 20),
        # Some virtual machines report caches of no size.
        (["0K", "0K"], caches.UNKNOWN_SIZE),
        (["unknown"], caches.UNKNOWN_SIZE),
        ([], caches.UNKNOWN_SIZE),
    ],
)
def test_largest_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sizes: list[str], expected: int) -> None:
    for number, size in enumerate(sizes):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{size}\n")
    monkeypatch.setattr(caches, "CACHES", tmp_path)
    assert caches.last_level_size() == expected
