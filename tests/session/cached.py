"""Fixtures of the tests of the cache: its folder, a model, and loads that wait for their entries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.session.chains import finish, saved
from zrt.loading import cache
from zrt.session import cached_load

X = np.ones((1, 160), np.float32)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_load, "DELAY_S", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path)


@pytest.fixture
def load(folder: Path) -> Callable[..., str | None]:
    """Loads a model through the cache, waits for its entry, and returns `Session.cache`."""

    def load(model: Any, expected: float = 160, **arguments: Any) -> str | None:
        options = {"cache": folder, "intra_op_num_threads": 1} | arguments.pop("options", {})
        session = zrt.Session(model, zrt.SessionOptions(**options), **arguments)
        finish()
        assert np.array_equal(session.run([X])[0], np.full((1, 160), expected, np.float32))
        return session.cache

    return load


def entries(folder: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in cache.list_entries(os.fspath(folder)))


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Waits until files have the age at which the cache trusts their time stamps."""
    monkeypatch.setattr(cache, "SETTLED_NS", 20_000_000)

    def settle(*paths: Path) -> None:
        while time.time_ns() - max(path.stat().st_ctime_ns for path in paths) <= cache.SETTLED_NS:
            time.sleep(0.01)

    return settle
