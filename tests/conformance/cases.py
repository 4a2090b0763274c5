"""ONNX's own test cases (`onnx.backend.test`): models, feeds and expected results, and the list of those that fail."""

import json
import locale
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import zrt
from zrt._native.library import library

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
# A `real` model without its weights: each one is computed from its shape.
LIGHT = "onnx/backend/test/data/light/"
LIST = tomllib.loads(Path(__file__).with_name("exceptions.toml").read_text("utf-8"))
MISSING = f"the list is for onnx {LIST['onnx']} with its test data, which this onnx {onnx.__version__} is not"
# The tolerances of ONNX's runner for a case that names none.
RTOL, ATOL = 1e-3, 1e-7


@dataclass(frozen=True, slots=True)
class Case:
    """One test of ONNX's: a model, feeds and the results that it must compute from them."""

    name: str
    """Its kind and its folder: ``node/test_abs``."""
    path: Path
    """The model's file."""
    rtol: float = RTOL
    atol: float = ATOL
    download: str = ""
    """The address of the model if it is not among onnx's files."""

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        return onnx.load_model(self.path)

    def feeds(self, model: onnx.ModelProto) -> dict[str, Any]:
        """The feeds by input: arrays, lists for sequences, None for an optional without a value."""
        graph = model.graph
        if self.path.parent.name == "light":
            weights = {tensor.name for tensor in graph.initializer}
            return {info.name: _ramp(info) for info in graph.input if info.name not in weights}
        return {info.name: _read(path, info) for info, path in zip(graph.input, self._files("input"), strict=False)}

    def expected(self, model: onnx.ModelProto) -> list[Any]:
        """The expected results, in the order of the outputs."""
        return [_read(path, info) for info, path in zip(model.graph.output, self._files("output"), strict=True)]

    def _files(self, what: str) -> list[Path]:
        if self.path.parent.name == "light":
            return [self.path.with_name(f"{self.path.stem}_{what}_0.pb")]
        (folder,) = self.path.parent.glob("test_data_set_*")
        return [folder / f"{what}_{index}.pb" for index in range(len(list(folder.glob(f"{what}_*.pb"))))]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case fails on the loaded ONNX Runtime."""

    why: str
    error: str
    """A pattern that the message of the failure has."""


Run = Callable[[Case, "dict[str, Any]"], "Iterable[Sequence[Any]]"]
"""Runs a model on feeds, once or more, and yields the results of each run."""


def every() -> list[Any]:
    """All cases as parameters of a test, by name; those whose model onnx would download are skipped."""
    if not onnx.__version__.startswith(f"{LIST['onnx']}.") or not DATA.joinpath("node").is_dir():
        return [pytest.param(None, id="all", marks=pytest.mark.skip(MISSING))]
    return [_parameter(case) for kind in KINDS for case in _of_kind(kind)]


def listed(table: str) -> list[Any]:
    """The cases that the list has for the loaded ONNX Runtime, as parameters of a test."""
    failed = failures(table)
    return [parameter for parameter in every() if parameter.values[0] is None or parameter.id in failed]


@cache
def failures(table: str) -> dict[str, Failure]:
    """The cases of one table of the list that fail here, by name."""
    return {name: Failure(group["why"], group["error"]) for group in groups(table) for name in group["cases"]}


def groups(table: str) -> list[dict[str, Any]]:
    """The groups of one table of the list that hold for the loaded ONNX Runtime and on this system."""
    version = _numbers(library().version)
    return [
        group
        for group in LIST[table]
        if _numbers(group.get("since", "0")) <= version < _numbers(group.get("until", "999"))
        and not _has_locale(group.get("without_locale"))
    ]


def hold(case: Case, run: Run, failure: Failure | None) -> Exception | None:
    """Runs a case, which must pass, or fail as its entry in the list says; returns that error."""
    model = case.model
    try:
        for results in run(case, case.feeds(model)):
            assert_similar(list(results), case.expected(model), case)
    except Exception as error:
        if failure is None:
            raise
        with pytest.raises(type(error), match=failure.error):
            raise
        return error
    if failure is not None:
        pytest.fail(f"{case.name} passes: remove it from the list, where it fails because {failure.why}")
    return None


def assert_similar(result: Any, wanted: Any, case: Case) -> None:
    """Asserts equal kinds, types and shapes, and equal elements within the tolerance of the case."""
    if isinstance(wanted, list):
        assert isinstance(result, (list, tuple))
        assert len(result) == len(wanted)
        for one, other in zip(result, wanted, strict=True):
            assert_similar(one, other, case)
        return
    if wanted is None:
        assert result is None
        return
    result = np.asarray(result.unpack() if isinstance(result, zrt.Value) else result)
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "O":
        assert result.tolist() == wanted.tolist()
    else:
        np.testing.assert_allclose(_widened(result), _widened(wanted), case.rtol, case.atol)


def _widened(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values in a type of numpy's own: it has no tolerance for types of ml_dtypes."""
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _of_kind(kind: str) -> Iterator[Case]:
    for folder in sorted(DATA.joinpath(kind).iterdir()):
        name, data = f"{kind}/{folder.name}", folder / "data.json"
        settings = json.loads(data.read_text("utf-8")) if data.exists() else {}
        tolerance = settings.get("rtol", RTOL), settings.get("atol", ATOL)
        url = settings.get("url", "")
        if not url:
            yield Case(name, folder / "model.onnx", *tolerance)
        elif url.startswith(LIGHT):
            yield Case(name, DATA / "light" / url.removeprefix(LIGHT), *tolerance)
        else:
            yield Case(name, folder / "model.onnx", *tolerance, download=url)


def _parameter(case: Case) -> Any:
    skips = [pytest.mark.skip(f"its model is not among onnx's files: {case.download}")] if case.download else []
    return pytest.param(case, id=case.name, marks=skips)


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    """A value from its file, which does not name its kind: the model does."""
    content = path.read_bytes()
    if info.type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if info.type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def _ramp(info: onnx.ValueInfoProto) -> np.ndarray[Any, Any]:
    """The feed with which ONNX's authors computed the expected results of the light models."""
    shape = [size.dim_value or 1 for size in info.type.tensor_type.shape.dim]
    count = np.prod(shape)
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def _has_locale(name: str | None) -> bool:
    if name is None:
        return False
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        return False
    locale.setlocale(locale.LC_ALL, before)
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """A version in numbers, without a suffix as in "1.28.0-dev"."""
    return tuple(int(number) for number in version.partition("-")[0].split("."))
