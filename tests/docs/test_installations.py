"""Every line of the repository that installs zrt names its distribution, an extra and a group that exist."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from zrt.cli.entry import PLAIN

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
NAME = PROJECT["project"]["name"]
EXTRAS = {*PROJECT["project"]["optional-dependencies"]}
GROUPS = {*PROJECT["dependency-groups"]}

# The tracked files that are text; an installed zrt, an sdist and a checkout of the flake have a part of them.
PLACES = ("*.md", "*.toml", "*.nix", ".readthedocs.yaml", ".ci/*", "docs", "benches", "nix", "tests", "zrt")
ENDINGS = {"", ".md", ".nix", ".py", ".pyi", ".rst", ".sh", ".toml", ".yaml"}

# Commands that take the names of distributions, up to the end of the line or of the quoted text.
COMMAND = re.compile(r"\b(?:pipx?|uv)\b[^`\n]*? (?:install|download|wheel|add) ([^`;&|\n]*)")
BARE = re.compile(r"(?<![\w./{-])zrt(?![\w./-])")
EXTRA_LISTS = re.compile(r"(?<![\w.*])(zrt[\w-]*|\.)\\*\[([a-z]+(?:, ?[a-z]+)*)\\*\]")
GROUP = re.compile(r"--group\s+(?:\S+:)?([a-z]\w*)")
# The code that makes such lines for messages.
MADE = (
    re.compile(r"install_line\(\s*[\"'](\w+)"),
    re.compile(r"\b(?:require|missing)\(\s*\"?[\w-]+\"?,\s*\"(\w+)\","),
    re.compile(r"installed_by: ClassVar\[str\] = \"(\w+)\""),
)
# An installation, and the command that it is for, in one block of a page.
USED = re.compile(r"zrt-onnx\[([a-z,]+)\]\"\n(?:python -m )?zrt ([a-z]+)")
METADATA = re.compile(r"(?:metadata\.)?\b(?:version|distribution|requires|files)\(\"zrt\"\)")


def faults(text: str) -> Iterator[str]:
    """The mentions of an installation that name something else, or something that does not exist."""
    for command in COMMAND.finditer(text):
        if BARE.search(command[1]):
            yield command[0]
    for command in EXTRA_LISTS.finditer(text):
        if command[1] not in (NAME, ".") or not set(re.findall(r"\w+", command[2])) <= EXTRAS:
            yield command[0]
    for command in GROUP.finditer(text):
        if command[1] not in GROUPS:
            yield command[0]
    for pattern in MADE:
        for command in pattern.finditer(text):
            if command[1] and command[1] not in EXTRAS:
                yield command[0]
    yield from (command[0] for command in METADATA.finditer(text))


def texts() -> Iterator[Path]:
    for place in PLACES:
        for path in ROOT.glob(place):
            files = path.rglob("*") if path.is_dir() else [path]
            yield from (file for file in files if file.is_file() and file.suffix in ENDINGS)


def test_every_mention_of_an_installation_is_right() -> None:
    read = {path: path.read_text("utf-8") for path in texts() if path != Path(__file__)}
    assert len(read) > 100
    wrong = {str(path.relative_to(ROOT)): found for path, text in read.items() if (found := [*faults(text)])}
    assert wrong == {}


def test_an_installation_before_a_command_has_the_package_of_its_output() -> None:
    lacking, seen = [], 0
    for page in (ROOT / "docs").glob("*.md"):
        for extras, command in USED.findall(page.read_text("utf-8")):
            seen += 1
            if command not in PLAIN:
                lacking += [] if "cli" in extras.split(",") else [f"{page.name}: [{extras}] zrt {command}"]
    assert seen
    assert lacking == []


@pytest.mark.parametrize(
    "text",
    [
        'pip install "zrt[score]"',
        'pip install "zrt-onnx[sparql]"',
        'pip install -q -e ".[cpu,clu]"',
        "pip install -U zrt",
        "uv pip install zrt==0.1.0",
        "uv add zrt",
        "(`pip install --group\nserver`)",
        'installation.require("rich", "clip", "it")',
        "install_line('gpu')",
        'importlib.metadata.version("zrt")',
        'match=r"zrt\\[toml\\]"',
    ],
)
def test_a_wrong_mention_is_found(text: str) -> None:
    assert [*faults(text)]


@pytest.mark.parametrize(
    "text",
    [
        'pip install "zrt-onnx[score,serve]"',
        "python -m pip install -q --no-deps --group real",
        'ZRT_ORT_INCLUDE_DIR=include pip install --target site . && python -c "import zrt"',
        "pip install -e . && .venv/bin/zrt bench",
    ],
)
def test_a_right_mention_passes(text: str) -> None:
    assert not [*faults(text)]


def pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benches/*.md")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_page_that_installs_a_group_says_how_to_get_a_pip_that_can(page: Path) -> None:
    text = page.read_text("utf-8")
    if GROUP.search(text):
        assert re.search(r"pip install (?:-q )?-U pip\b", text)


def test_only_the_groups_for_tests_name_a_release_of_onnxruntime() -> None:
    pinned = {
        name
        for name, group in PROJECT["dependency-groups"].items()
        if any(isinstance(line, str) and line.startswith("onnxruntime=") for line in group)
    }
    assert pinned == {"dev", "newest"}
