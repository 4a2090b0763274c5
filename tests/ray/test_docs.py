"""The examples of the guide that need Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the packages of the extra ray")

# The flake's own suite has neither Ray nor the guide.
from tests.docs.test_docs import DOCS, page_name, run_page
from tests.ray.conftest import WARNINGS

PAGES = [page for page in sorted(DOCS.glob("*.md")) if "\n```python ray\n" in page.read_text("utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    run_page(page.read_text("utf-8"), page_name(page), tmp_path, ("python", "python ray"), ("error", *WARNINGS))
