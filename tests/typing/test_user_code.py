"""The file of user code that the type checkers read uses every public class and function."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import zrt
from zrt import custom_ops, graph, providers, ray, serving, typing

USER_CODE = Path(__file__).with_name("user_code.py")


@pytest.mark.parametrize(
    "module", [zrt, custom_ops, graph, providers, ray, serving, typing], ids=lambda module: module.__name__
)
def test_user_code_uses_every_public_name(module: ModuleType) -> None:
    short = module.__name__.removeprefix("zrt.")
    used = {
        node.attr
        for node in ast.walk(ast.parse(USER_CODE.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == short
    }
    public = {
        name
        for name in module.__all__
        if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
    }
    assert public - used == set()
