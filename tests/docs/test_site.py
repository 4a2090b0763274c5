"""The site builds without a warning; its reference has the docstrings, the attributes and the C functions.

Names in examples are links, and each page has a search, a dark mode, and tables that a phone can scroll.
"""

import html
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import zrt
from tests.docs.test_api_table import TABLES, is_reason, names_of, rows
from tests.support import processes

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(
            importlib.util.find_spec(name) is None for name in ("sphinx", "myst_parser", "furo", "sphinx_codeautolink")
        ),
        reason="a package of the site is not installed: pip install --group docs",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)],
        cwd=ROOT,
        env=processes.environment(),
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr
    return folder


def description(site: Path, name: str) -> str:
    """The text from a name's entry in the reference on."""
    for page in (site / "reference").glob("*.html"):
        _, found, rest = page.read_text("utf-8").partition(f'id="{name}"')
        if found:
            return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", rest[:8000])))
    raise AssertionError(f"the reference does not have {name}")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("zrt.SessionOptions.intra_op_num_threads", "OrtApi::SetIntraOpNumThreads"),
        ("zrt.Session.inputs", "OrtApi::SessionGetInputCount"),
        ("zrt.Session.closed", "Whether close was called."),
        ("zrt.providers.CUDA.device_id", "which GPU"),
        ("zrt.errors.ShapeError", "Bases: ArgumentError"),
        ("zrt.custom_ops.KernelContext.inputs", "OrtApi::KernelContext_GetInput"),
    ],
)
def test_entry_shows(site: Path, name: str, shown: str) -> None:
    assert shown in description(site, name)


def test_entries_have_the_docstrings_of_attributes(site: Path) -> None:
    """A docstring below a field is found although the class reports another module than the one that defines it."""
    from zrt.loading import session_options

    fields = re.findall(r'^    (\w+): .*\n    """([^"`.]+)', Path(session_options.__file__).read_text("utf-8"), re.M)
    assert len(fields) > 10
    page = re.sub(r"<[^>]*>", "", (site / "reference" / "options.html").read_text("utf-8"))
    text = re.sub(r"\s+", " ", html.unescape(page)).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    assert [name for name, meaning in fields if re.sub(r"\s+", " ", meaning).strip() not in text] == []


def test_entries_name_the_functions_of_the_c_api(site: Path) -> None:
    text = "".join(page.read_text("utf-8") for page in (site / "reference").glob("*.html"))
    for table in TABLES:
        for function, cell in rows(table):
            if not is_reason(cell) and any(not name.startswith("zrt ") for name in names_of(cell)):
                assert f"{table}::{function}" in text


def test_names_in_examples_are_links(site: Path) -> None:
    linked, plain = set(), set()
    for page in site.glob("*.html"):
        for block in re.findall(r'<div class="highlight-python .*?</pre>', page.read_text("utf-8"), re.DOTALL):
            linked |= set(re.findall(r'<a class="sphinx-codeautolink-a" href="reference/[\w-]+\.html#([\w.]+)"', block))
            code = re.sub(r'<a class="sphinx-codeautolink-a".*?</a>|<span class="[cs]\w?">.*?</span>', "", block)
            plain |= set(re.findall(r"\bzrt\.\w+", re.sub(r"<[^>]*>", "", code)))
    # Also names of objects that functions return.
    assert {"zrt.Session", "zrt.Session.run", "zrt.Lane.run", "zrt.GraphEdit.op", "zrt.serving.Application"} <= linked
    # The reference does not have these modules.
    assert plain <= {"zrt.onnxruntime", "zrt.cli"}


def test_pages_can_be_searched_read_in_the_dark_and_on_a_phone(site: Path) -> None:
    assert (site / "searchindex.js").exists()
    for name in ("providers", "performance", "reference/sessions"):
        page = (site / f"{name}.html").read_text("utf-8")
        assert "sidebar-search" in page
        assert "theme-toggle" in page
        assert 'content="width=device-width' in page
        # A table without a wrapper would widen the page.
        assert page.count("<table") == page.count('<div class="table-wrapper')


def test_sidebar_lists_the_versions_of_the_changelog(site: Path) -> None:
    versions = json.loads((site / "versions.json").read_text("utf-8"))
    assert f"v{zrt.__version__}" in versions
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", version) for version in versions)
    assert 'id="versions"' in (site / "reference" / "sessions.html").read_text("utf-8")
