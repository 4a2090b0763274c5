"""The pages of docs/reference describe every public name, each once."""

import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import zrt

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").glob("*.rst"))
NAMES = ("custom_ops", "errors", "graph", "providers", "ray", "serving", "types", "typing")
MODULES = ("zrt", *(f"zrt.{name}" for name in NAMES))

DIRECTIVE = re.compile(r"^\.\. (current)?(module|auto\w+|data):: ([\w.]+)$", re.MULTILINE)


def public_value(name: str) -> Any:
    """The value of a full name, such as `zrt.errors.Error`."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@cache
def described() -> Counter[str]:
    """The full names that the pages describe, each with the number of its descriptions."""
    names: Counter[str] = Counter()
    for page in PAGES:
        module = ""
        for _, kind, name in DIRECTIVE.findall(page.read_text("utf-8")):
            if kind == "module":
                module = name
                names[name] += 1
            else:
                names[name if name.startswith("zrt.") else f"{module}.{name}"] += 1
    return names


def home(module: str, name: str) -> str:
    """The full name under which the reference describes a public name: the module that its value reports, if any."""
    value = public_value(f"{module}.{name}")
    if isinstance(value, type | FunctionType):
        return f"{value.__module__}.{name}"
    return f"{module}.{name}"


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_described(module: str) -> None:
    wanted = {home(module, name) for name in importlib.import_module(module).__all__}
    # Modules are described once, where their page begins with ".. module::".
    assert wanted - set(described()) == set()


def test_no_name_is_described_twice() -> None:
    assert {name for name, count in described().items() if count > 1} - {"zrt"} == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_reports_a_public_module(module: str) -> None:
    homes = {home(module, name) for name in importlib.import_module(module).__all__}
    assert {name for name in homes if name.rpartition(".")[0] not in MODULES} == set()


def test_every_described_name_is_public() -> None:
    for name in described():
        if name in MODULES:
            continue
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__, name


def test_index_lists_every_page() -> None:
    index = next(page for page in PAGES if page.stem == "index")
    listed = set(re.findall(r"^   ([\w-]+)$", index.read_text("utf-8"), re.MULTILINE))
    assert listed == {page.stem for page in PAGES} - {"index"}


def test_every_public_module_has_a_page() -> None:
    modules = {f"zrt.{name}" for name in zrt.__all__ if type(getattr(zrt, name)) is type(zrt)}
    assert modules <= set(MODULES)
    assert set(MODULES) <= set(described())
