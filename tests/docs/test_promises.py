"""`docs/promises.md` names the tests that hold each promise."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tests_of_every_promise_exist() -> None:
    rows = re.findall(r"^\| .+ \| (.+) \|$", (ROOT / "docs" / "promises.md").read_text("utf-8"), re.MULTILINE)
    cells = [cell for cell in rows if cell != "tests"]
    paths = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    assert all(paths), cells
    assert [path for row in paths for path in row if not (ROOT / path).exists()] == []
