"""The guide's tables of options match the code: each provider, field, type, meaning, key and file."""

import re
from pathlib import Path

import pytest

from tests.providers.kinds import KINDS
from zrt.environment.options import Option, Route
from zrt.providers import Provider

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"

HEAD = ["| field | takes | what it says | ONNX Runtime's key | found in |", "|---|---|---|---|---|"]


def row(kind: type[Provider], name: str, option: Option) -> str:
    meaning = option.meaning.replace("``", "`")
    if option.route is Route.DROPPED:
        meaning += "; refused, since the C API of ONNX Runtime drops it"
    file = (option.source or kind.source).rpartition("/")[2]
    return f"| `{name}` | {option.type} | {meaning} | `{option.key or name}` | `{file}` |"


def section(kind: type[Provider]) -> list[str]:
    """The lines that the guide must have under a provider's heading."""
    line = f"`{kind.name}`. {kind.comes_with}."
    lines = [f'{line} To install it: `pip install "zrt-onnx[{kind.installed_by}]"`.' if kind.installed_by else line]
    if kind.options():
        files = dict.fromkeys(option.source or kind.source for option in kind.options().values())
        return [
            *lines,
            "Keys: " + ", ".join(f"`{file}`." if file == [*files][-1] else f"`{file}`" for file in files),
            "",
            *HEAD,
            *(row(kind, name, option) for name, option in kind.options().items()),
        ]
    return [*lines, "It has no options."]


def sections(text: str) -> dict[str, list[str]]:
    """The lines of each section whose heading is the name of a class."""
    found = {}
    for heading, body in re.findall(r"^### `(\w+)`\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL):
        found[heading] = body.strip().splitlines()
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_section_matches_the_class(kind):
    shown = sections(PAGE.read_text("utf-8")).get(kind.__name__, [])
    assert shown == section(kind), "the guide should have:\n" + "\n".join(section(kind))


def test_sections_are_those_of_all_providers():
    assert list(sections(PAGE.read_text("utf-8"))) == [kind.__name__ for kind in KINDS]
