"""`python -m benches.mallocs`: the calls of the allocator with each binding."""

from __future__ import annotations

import shutil
import sys

import pytest

from benches import mallocs


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
def test_table_has_a_row_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError, reason="the official package takes part")
    mallocs.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.count("|") == 6
    assert [row.split(" | ")[0] for row in rows][:2] == ["| Add of 4 numbers", "| digits"]
    for row in rows:
        lane, session, binding, run = (int(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")[1:])
        assert 0 < lane <= binding
        assert lane < session
        assert binding < run
