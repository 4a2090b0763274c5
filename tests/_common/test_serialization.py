"""Options as data: options read back are equal, and values that are not data raise errors that name the field."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zrt
from zrt._common.installation import install_line
from zrt._common.serialization import OptionData, _kind, _kinds, data_field
from zrt.errors import ArgumentError, DTypeError, UnknownNameError, UnsupportedError
from zrt.providers import CPU, CUDA, known

if TYPE_CHECKING:
    from nowhere import Unknown

KINDS: list[type[OptionData]] = [zrt.SessionOptions, zrt.RunOptions, *(known.kind_of(name) for name in known.HOMES)]
WAYS = ("dict", "json", "toml")

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@functools.cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """The values of a field of that kind; nothing for a kind that is not data."""
    kinds = _kinds(kind)
    enums = [one for one in kinds if isinstance(one, type) and issubclass(one, Enum)]
    return st.one_of([_values_of(one) for one in enums or kinds])


def _values_of(kind: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return st.sampled_from(inner)
    if issubclass(origin, Enum):
        return st.sampled_from(list(origin))
    if origin is str:
        return TEXT
    if origin is Mapping:
        return st.dictionaries(TEXT, values_of(inner[1]), max_size=3)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(0, 2**31 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return plain.get(origin, st.nothing())


@st.composite
def options_of(draw: st.DrawFn, kind: type[OptionData]) -> OptionData:
    """Options of that kind; a value that is refused is left at the default."""
    fields: dict[str, Any] = {}
    for name, item in kind._data_fields().items():
        strategy = values_of(_kind(item))
        if strategy.is_empty or not draw(st.booleans()):
            continue
        value = draw(strategy)
        try:
            options = kind(**fields, **{name: value})
            options._check()
        except zrt.Error:
            continue
        if not options.addresses():
            fields[name] = value
    return kind(**fields)


def settings_of(options: OptionData) -> dict[str, Any]:
    """The settings of an object: two `RunOptions` objects are never equal."""
    return {name: getattr(options, name) for name in inspect.signature(type(options)).parameters}


def there_and_back(options: OptionData, way: str) -> OptionData:
    kind = type(options)
    return getattr(kind, f"from_{way}")(getattr(options, f"to_{way}")())


class TestRoundTrip:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    @settings(max_examples=30)
    @given(data=st.data())
    def test_options_read_back_are_equal(self, kind, data):
        options = data.draw(options_of(kind))
        for way in WAYS:
            assert settings_of(there_and_back(options, way)) == settings_of(options)
        document = options.to_dict()
        assert json.loads(json.dumps(document)) == document
        assert None not in document.values()

    @settings(max_examples=50)
    @given(
        session=options_of(zrt.SessionOptions),
        run=st.none() | options_of(zrt.RunOptions),
        providers=st.none() | st.lists(st.sampled_from(["cpu", "CUDA", CPU(), CUDA(device_id=3), ("Warp", {"a": 1})])),
        way=st.sampled_from(WAYS),
    )
    def test_a_whole_document(self, session, run, providers, way):
        options = zrt.Options(session=session, run=run, providers=providers)
        again = there_and_back(options, way)
        assert (again.session, again.providers) == (session, providers)
        assert again.to_dict() == options.to_dict()

    def test_enums_go_by_name_and_paths_as_strings(self):
        options = zrt.SessionOptions(
            execution_mode="parallel", log_severity_level=3, optimized_model_filepath=Path("a", "b")
        )
        data = options.to_dict()
        assert (data["execution_mode"], data["log_severity_level"]) == ("PARALLEL", "ERROR")
        assert data["optimized_model_filepath"] == os.path.join("a", "b")
        again = zrt.SessionOptions.from_dict(data)
        assert again.execution_mode is zrt.ExecutionMode.PARALLEL
        assert again.to_dict() == data

    def test_none_is_left_out(self):
        assert "logid" not in zrt.SessionOptions().to_dict()
        assert zrt.RunOptions().to_dict() == {"config_entries": {}}
        assert zrt.RunOptions.from_dict({"tag": None}).tag is None


@dataclass(kw_only=True)
class Later(zrt.SessionOptions):
    """Options with fields of every kind."""

    speed: float = data_field(float, default=1.0)
    folder: os.PathLike[str] | str | None = data_field(os.PathLike[str] | str | None, default=None)
    names: Sequence[str] = data_field(Sequence[str], default=())
    sizes: list[int] = data_field(list[int], default_factory=list)
    mode: Literal["fast", "slow"] = data_field(Literal["fast", "slow"], default="fast")
    nested: Mapping[str, Mapping[str, int]] = data_field(Mapping[str, Mapping[str, int]], default_factory=dict)
    always: bool | None = data_field(bool | None, default=True)
    sink: Unknown.Sink[int] | str | None = data_field(object | str | None, default=None)
    stream: int | None = data_field(int | None, default=None)
    logger: logging.Logger | None = data_field(object | None, default=None)
    mystery: Unknown | None = None
    weights: Mapping[str, Unknown] = data_field(Mapping[str, object], default_factory=dict)
    arrays: Mapping[str, np.ndarray] = data_field(Mapping[str, np.ndarray], default_factory=dict)

    def addresses(self) -> tuple[str, ...]:
        return () if self.stream is None else ("stream",)


class TestLaterFields:
    @pytest.mark.parametrize("way", WAYS)
    def test_data_fields_are_read_back(self, way):
        options = Later(
            speed=2.5,
            folder="here",
            names=("a", "b"),
            sizes=[1, 2],
            mode="slow",
            nested={"x": {"y": 1}},
            always=False,
            sink="s",
        )
        assert there_and_back(options, way) == options

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("logger", logging.getLogger(), "Later.logger: RootLogger cannot be written as data"),
            ("mystery", "text", "Later.mystery: it cannot be given as data"),
            ("weights", {"w": 1}, r"Later.weights\['w'\]: it cannot be given as data"),
            ("sink", object(), "Later.sink: object cannot be written as data"),
            ("stream", 5, "Later.stream: an address is valid in this process only"),
            ("arrays", {"w": np.ones(1)}, r"Later.arrays\['w'\]: ndarray cannot be written as data"),
            ("names", [object()], r"Later.names\[0\]: object cannot be written"),
            ("always", None, "Later.always: None is left out, and would come back as True"),
        ],
    )
    def test_writing_other_values_raises(self, name, value, said):
        with pytest.raises(UnsupportedError, match=said):
            Later(**{name: value}).to_dict()

    @pytest.mark.parametrize(
        ("name", "value", "error", "said"),
        [
            ("mystery", 1, UnsupportedError, "Later.mystery: it cannot be given as data"),
            ("sink", 1, DTypeError, "Later.sink: expected str, got int 1"),
            ("stream", 1, UnsupportedError, "Later.stream: an address"),
            ("speed", "fast", DTypeError, "Later.speed: expected float, got str 'fast'"),
            ("speed", float("nan"), ArgumentError, "Later.speed: nan is not finite"),
            ("names", "ab", DTypeError, "Later.names: expected .*Sequence.*, got str 'ab'"),
            ("sizes", [1, True], DTypeError, r"Later.sizes\[1\]: expected int, got bool True"),
            ("mode", "swift", ArgumentError, "Later.mode: 'swift' is none of fast, slow"),
            ("nested", {"x": {"y": "z"}}, DTypeError, r"Later.nested\['x'\]\['y'\]: expected int"),
            ("folder", 5, DTypeError, "Later.folder: expected .*, got int 5"),
        ],
    )
    def test_reading_wrong_data_raises(self, name, value, error, said):
        with pytest.raises(error, match=said):
            Later.from_dict({name: value})


class TestRefusals:
    @pytest.mark.parametrize(
        ("kind", "data", "error", "said"),
        [
            (zrt.SessionOptions, {"intra_op_threads": 1}, UnknownNameError, "did you mean 'intra_op_num_threads'"),
            (zrt.SessionOptions, {"zzz": 1}, UnknownNameError, "no field 'zzz'; there are graph_optimization_level, "),
            (zrt.SessionOptions, {"intra_op_num_threads": "4"}, DTypeError, "SessionOptions.intra_op_num_threads: "),
            (zrt.SessionOptions, {"intra_op_num_threads": True}, DTypeError, "expected int, got bool True"),
            (zrt.SessionOptions, {"intra_op_num_threads": None}, DTypeError, "expected int, got NoneType"),
            (zrt.SessionOptions, {"intra_op_num_threads": -1}, ArgumentError, "intra_op_num_threads: -1 is not"),
            (zrt.SessionOptions, {"execution_mode": "loud"}, ArgumentError, "execution_mode: 'loud' is none of"),
            (zrt.SessionOptions, {"logid": "a\0"}, ArgumentError, "SessionOptions.logid: .* holds a NUL"),
            (zrt.SessionOptions, {"logid": "\ud800"}, ArgumentError, "SessionOptions.logid: .* UTF-8"),
            (zrt.SessionOptions, {"config_entries": {"a": 1}}, DTypeError, r"SessionOptions.config_entries\['a'\]: "),
            (zrt.SessionOptions, {"free_dimension_overrides": {"n": -1}}, ArgumentError, "overrides.*-1 is not"),
            (zrt.RunOptions, {"tag": 5}, DTypeError, "RunOptions.tag: expected str, got int 5"),
            (zrt.RunOptions, {"profile_file_prefix": "no/such"}, ArgumentError, "there is no folder 'no'"),
            (CUDA, {"device_id": -1}, ArgumentError, "CUDA.device_id: -1 is not"),
            (CUDA, {"use_tf32": 1}, DTypeError, "CUDA.use_tf32: expected bool"),
            (zrt.Options, {"sessions": {}}, UnknownNameError, "did you mean 'session'"),
            (zrt.Options, {"session": {"logid": 1}}, DTypeError, "SessionOptions.logid: "),
            (zrt.Options, {"providers": {"name": "cpu"}}, DTypeError, "providers: expected a list, got dict"),
            (zrt.Options, {"providers": ["cpu"]}, DTypeError, r"providers\[0\]: expected fields by name, got str"),
            (zrt.Options, {"providers": [{}]}, ArgumentError, r"providers\[0\]: its name is missing"),
            (zrt.Options, {"providers": [{"name": 1}]}, DTypeError, r"providers\[0\]: name: expected a str"),
            (zrt.Options, {"providers": [{"name": "cpu", "option": {}}]}, UnknownNameError, "did you mean 'options'"),
            (
                zrt.Options,
                {"providers": [{"name": "cpu"}, {"name": "cuda", "options": {"device": 1}}]},
                UnknownNameError,
                r"providers\[1\] 'cuda': CUDA: there is no field 'device'",
            ),
            (
                zrt.Options,
                {"providers": [{"name": "warp", "options": {"core": []}}]},
                DTypeError,
                r"providers\[0\] 'warp': options\['core'\]: expected str or int or float or bool, got list",
            ),
            (zrt.SessionOptions, {"cache": ""}, ArgumentError, "cache: the name of the folder is empty"),
        ],
    )
    def test_reading_wrong_data_raises(self, kind, data, error, said):
        with pytest.raises(error, match=said) as caught:
            kind.from_dict(data)
        assert type(caught.value) is error

    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            (zrt.SessionOptions(intra_op_num_threads=None), DTypeError, "SessionOptions.intra_op_num_threads: "),
            (CUDA(device_id=b"1"), UnsupportedError, "CUDA.device_id: bytes cannot be written"),
            (zrt.Options(session=None), DTypeError, "session: expected SessionOptions, got NoneType"),
            (zrt.Options(run=zrt.SessionOptions()), DTypeError, "options: expected RunOptions"),
            (zrt.Options(providers=[5]), DTypeError, r"providers\[0\]: 5 is neither"),
            (
                zrt.Options(providers=[("cuda", {"device_id": "1"})]),
                DTypeError,
                r"providers\[0\] 'cuda': CUDA.device_id",
            ),
        ],
    )
    def test_writing_wrong_values_raises(self, options, error, said):
        with pytest.raises(error, match=said):
            options.to_dict()

    @pytest.mark.parametrize("read", ["from_json", "from_toml"])
    @pytest.mark.parametrize("document", ["{", "a = ", "\0", '"a'])
    def test_broken_document_raises(self, read, document):
        with pytest.raises(ArgumentError, match=f"CUDA: this is not {read[5:].upper()}"):
            getattr(CUDA, read)(document)

    def test_writing_toml_says_which_package_is_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "tomli_w", None)
        with pytest.raises(UnsupportedError, match=re.escape(install_line("toml"))):
            zrt.SessionOptions().to_toml()


class TestPairs:
    def test_a_pair_is_written_as_its_class_has_it(self):
        options = zrt.Options(providers=[("cuda", {"device_id": 2}), ("Warp", {"a": "b"}), "cpu"])
        assert options.to_dict()["providers"] == [
            {"name": "CUDAExecutionProvider", "options": {"extra": {}, "device_id": 2}},
            {"name": "Warp", "options": {"a": "b"}},
            {"name": "cpu"},
        ]
        assert there_and_back(options, "toml").providers == [CUDA(device_id=2), ("Warp", {"a": "b"}), "cpu"]


DOCUMENT = """
[session]
intra_op_num_threads = 1
graph_optimization_level = "ENABLE_BASIC"
config_entries = { "session.disable_prepacking" = "1" }

[run]
tag = "from a file"

[[providers]]
name = "cpu"
"""


class TestFiles:
    @pytest.mark.parametrize("name", ["options.toml", "OPTIONS.JSON"])
    def test_session_uses_options_of_a_file(self, tmp_path, build, name):
        document = DOCUMENT if name.endswith("toml") else json.dumps(tomllib.loads(DOCUMENT))
        (tmp_path / name).write_text(document, "utf-8")
        options = zrt.load_options(tmp_path / name)
        assert options.session.graph_optimization_level is zrt.GraphOptimizationLevel.ENABLE_BASIC
        assert options.run is not None
        assert (options.run.tag, options.providers) == ("from a file", ["cpu"])
        model = build("(float[n] x) => (float[n] y) { y = Relu(x) }")
        session = zrt.Session(model, options.session, options.providers)
        [y] = session.run([np.array([-1, 2], np.float32)], options=options.run)
        assert y.tolist() == [0, 2]

    def test_empty_document_gives_the_defaults(self, tmp_path):
        (tmp_path / "options.toml").touch()
        options = zrt.load_options(tmp_path / "options.toml")
        assert options == zrt.Options()
        assert (options.session, options.run, options.providers) == (zrt.SessionOptions(), None, None)


class TestConfig:
    @pytest.mark.headers
    def test_keys_are_those_of_the_headers(self):
        folder = os.environ["ZRT_ORT_INCLUDE_DIR"]
        for kind in ("session", "run"):
            header = Path(folder, f"onnxruntime_{kind}_options_config_keys.h")
            if not header.is_file():
                pytest.skip(f"ZRT_ORT_INCLUDE_DIR holds no {header.name}")
            text = header.read_text("utf-8")
            keys = {line for line in text.split('"')[1::2] if "static" not in line}
            ours = zrt.SessionConfigKey if kind == "session" else zrt.RunConfigKey
            assert {key for name, key in vars(ours).items() if name.isupper()} <= keys
