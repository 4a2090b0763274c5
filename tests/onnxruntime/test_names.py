"""The drop-in has every public name of the official package, with the same arguments and defaults.

The test walks the package that is installed beside zrt (walk.py), of any version from 1.27 to the newest tested one,
and lists all that is missing. The table has the names that zrt cannot give, each with the reason and the version that
brought it; a name that is no longer missing must leave the table.
"""

import importlib.util
import inspect
import operator
import pkgutil
import re
import types
import typing
from typing import Any

import pytest

from tests.onnxruntime import walk
from zrt.onnxruntime.homes import EP_CONTEXT_DATA, LACKING

LACKING_LATER = {
    name: 31 if name.startswith("OrtEp") else 32 for name in LACKING if name.startswith(("OrtEp", "Model"))
}

onnxruntime = pytest.importorskip("onnxruntime")
MINOR = int(onnxruntime.__version__.split(".")[1])

pytestmark = pytest.mark.skipif(onnxruntime.get_device() != "CPU", reason="the official package is not for the CPU")

# The name in messages of each module, and the modules themselves.
MODULES = {
    "": [""],
    "state": ["capi.onnxruntime_pybind11_state", "capi._pybind_state"],
    "collection": ["capi.onnxruntime_inference_collection"],
    "validation": ["capi.onnxruntime_validation"],
    "info": ["capi.build_and_package_info"],
    "npz": ["capi.convert_npz_to_onnx_adapter"],
    "backend": ["backend"],
    "backend.backend": ["backend.backend"],
    "backend.backend_rep": ["backend.backend_rep"],
}

# One class has one reason in all modules that have it.
MISSING = {
    27: {
        "import_capi_exception": "A variable of the official package's import, which is None once the import succeeds.",
        "SparseTensor.format=...": "Its setter raises an error in both packages, whatever is set.",
        **{name: reason for name, reason in LACKING.items() if name not in LACKING_LATER},
    },
    31: {
        **{name: reason for name, reason in LACKING.items() if LACKING_LATER.get(name) == 31},
        "ModelCompiler.clear_ep_context_data_write_func": EP_CONTEXT_DATA,
        "ModelCompiler.set_ep_context_data_write_func": EP_CONTEXT_DATA,
        "SessionOptions.clear_ep_context_data_read_func": EP_CONTEXT_DATA,
        "SessionOptions.set_ep_context_data_read_func": EP_CONTEXT_DATA,
    },
    32: {name: reason for name, reason in LACKING.items() if LACKING_LATER.get(name) == 32},
}

NO_BUILD = "It serves the official package's own build and its start."
FROM_OFFICIAL = "Taken from the official package where that is installed (zrt.onnxruntime.install)."

MISSING_MODULES = {
    "capi._ld_preload": NO_BUILD,
    "capi.onnxruntime_collect_build_info": NO_BUILD,
    "datasets": FROM_OFFICIAL,
    "quantization": FROM_OFFICIAL,
    "tools": FROM_OFFICIAL,
    "transformers": FROM_OFFICIAL,
}


def test_names_are_all_there_but_for_the_table() -> None:
    entries = {entry for label, names in MODULES.items() for name in names for entry in walk.missing(label, name)}
    found = {re.sub(r"^(backend\.backend|collection|state)\.", "", entry) for entry in entries}
    table = {name for minor, names in MISSING.items() if minor <= MINOR for name in names}
    assert found - table == set(), "missing in zrt.onnxruntime"
    assert table - found == set(), "in the table, and no longer missing"


def test_modules_are_all_there_but_for_the_table() -> None:
    official = {each.name for each in pkgutil.iter_modules(onnxruntime.__path__)}
    official |= {f"capi.{each.name}" for each in pkgutil.iter_modules(onnxruntime.capi.__path__)}
    # Shared libraries beside the modules have names that a module could have.
    official = {name for name in official if "libonnxruntime" not in name}
    missing = {name for name in official if importlib.util.find_spec(f"zrt.onnxruntime.{name}") is None}
    assert missing == MISSING_MODULES.keys()


def resolves(function: Any) -> bool:
    """Whether the annotations can be read at run time, as dependency injection and command-line builders do."""
    try:
        typing.get_type_hints(function)
    except (NameError, TypeError):
        return False
    return True


def test_annotations_resolve_where_the_official_ones_do() -> None:
    import zrt.onnxruntime

    functions = {("capi", "onnxruntime_inference_collection", "check_and_normalize_provider_args")} | {
        (name, member)
        for name, kind in walk.public_names(onnxruntime).items()
        if isinstance(kind, type)
        for member in ("__init__", *walk.members(kind))
        if not {name, f"{name}.{member}"} & {missing for names in MISSING.values() for missing in names}
        if isinstance(inspect.getattr_static(kind, member), types.FunctionType | staticmethod)
    }
    official, own = (
        {path for path in functions if resolves(operator.attrgetter(".".join(path))(package))}
        for package in (onnxruntime, zrt.onnxruntime)
    )
    assert len(official) >= 80
    assert official - own == set()


@pytest.mark.parametrize("name", LACKING)
def test_error_of_a_missing_name_says_why(name) -> None:
    from zrt.onnxruntime.capi import onnxruntime_pybind11_state as state

    with pytest.raises(AttributeError, match=re.escape(LACKING[name])):
        getattr(state, name)


def test_walk_reads_all_public_names() -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state

    assert len(walk.public_names(onnxruntime)) >= 60
    assert len(walk.public_names(onnxruntime_pybind11_state)) >= 90
    assert {"run", "run_async", "get_inputs"} <= walk.members(onnxruntime.InferenceSession).keys()
    assert {"__dlpack__", "data_ptr"} <= walk.members(onnxruntime_pybind11_state.OrtValue).keys()


def test_walk_compares_classes_member_by_member() -> None:
    class Theirs:
        kept = property(lambda self: 0, lambda self, value: None)
        frozen = property(lambda self: 0, lambda self, value: None)

        def __init__(self, a: int) -> None: ...

        def method(self, a: int) -> None: ...

        def lost(self) -> None: ...

        @staticmethod
        def make(a: int) -> None: ...

        def __len__(self) -> int:
            return 0

    class Ours:
        kept = property(lambda self: 0, lambda self, value: None)
        frozen = property(lambda self: 0)

        def __init__(self, b: int) -> None: ...

        def method(self) -> None: ...

        @staticmethod
        def make(b: int) -> None: ...

    Theirs.__module__ = "onnxruntime.test"
    expected = {"T(a)", "T.frozen=...", "T.method(a)", "T.lost", "T.make(a)", "T.__len__"}
    assert set(walk.missing_in_class("T", Theirs, Ours)) == expected
    assert list(walk.missing_in_class("T", Theirs, None)) == ["T"]


def test_missing_names_of_a_module_are_listed() -> None:
    def function(a: int) -> None: ...

    function.__module__ = "onnxruntime.test"
    theirs: Any = types.SimpleNamespace(function=function, other=function, constant=1, text="x")
    ours: Any = types.SimpleNamespace(function=lambda: None, constant="1", text="y")
    assert list(walk.missing_in_module("m", theirs, ours)) == ["m.constant: int", "m.function(a)", "m.other"]
