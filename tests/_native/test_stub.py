"""`_ort.pyi` declares the names that the extension module has."""

import ast
from pathlib import Path

from zrt._native import _ort


def test_stub_declares_the_names_of_the_module():
    stub = Path(_ort.__file__).with_name("_ort.pyi")
    declared = {
        node.target.id
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert declared == {name for name in vars(_ort) if not name.startswith("__")} == {"ffi", "lib"}
