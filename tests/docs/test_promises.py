"""The tests that the docs name exist; `docs/promises.md` names those that hold each promise."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tests_of_every_promise_exist() -> None:
    rows = re.findall(r"^\| .+ \| (.+) \|$", (ROOT / "docs" / "promises.md").read_text("utf-8"), re.MULTILINE)
    cells = [cell for cell in rows if cell != "tests"]
    paths = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    assert all(paths), cells
    assert [path for row in paths for path in row if not (ROOT / path).exists()] == []


def test_tests_that_the_docs_name_exist() -> None:
    named = {
        (page.name, path)
        for page in (ROOT / "docs").glob("*.md")
        for path in re.findall(r"tests/[\w/]+\.py", page.read_text("utf-8"))
    }
    assert len(named) > 20
    assert [each for each in sorted(named) if not (ROOT / each[1]).exists()] == []
