"""Models compiled without weights, and weights at aligned places: functions that came after API version 27."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import zrt
from tests.support import models, ort
from zrt._native.later import LATER, later
from zrt._native.library import library
from zrt.errors import DTypeError, UnsupportedError

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
since_1_29 = pytest.mark.skipif(not ort.since("1.29"), reason="the function came with ONNX Runtime 1.29")
since_1_31 = pytest.mark.skipif(not ort.since("1.31"), reason="the function came with ONNX Runtime 1.31")


def weighty() -> onnx.ModelProto:
    """y = x + v + w, where v has 4 bytes and w has 400."""
    text = "(float[100] x) => (float[100] y) { t = Add(x, v) y = Add(t, w) }"
    return models.parsed(text, v=np.ones(1, np.float32), w=np.arange(100, dtype=np.float32))


class TestGuard:
    @pytest.mark.parametrize("function", LATER)
    def test_function_is_there_or_its_version_is_named(self, function: str) -> None:
        since = LATER[function][0]
        if ort.since(f"1.{since}"):
            assert later(function, "subject")
            return
        message = f"^subject: it needs ONNX Runtime 1.{since} or later, and the library is {library().version}$"
        with pytest.raises(UnsupportedError, match=message):
            later(function, "subject")

    def test_older_library_raises(self, tmp_path: Path) -> None:
        target = tmp_path / "compiled.onnx"
        for release, function in (
            ("1.29", lambda: zrt.compile(weighty(), target, weightless=True)),
            ("1.29", lambda: zrt.Session(weighty(), zrt.SessionOptions(weightless_source_model=b"model"))),
            (
                "1.31",
                lambda: zrt.compile(
                    weighty(), target, external_initializers_file="w", external_initializers_alignment=64
                ),
            ),
        ):
            if not ort.since(release):
                with pytest.raises(UnsupportedError, match=f"it needs ONNX Runtime {release} or later"):
                    function()
                assert not target.exists()


class TestAlignment:
    @since_1_31
    def test_weights_begin_at_multiples(self, tmp_path: Path) -> None:
        target = tmp_path / "compiled.onnx"
        zrt.compile(
            weighty(),
            target,
            QUIET,
            external_initializers_file="weights",
            external_initializers_size_threshold=1,
            external_initializers_alignment=256,
        )
        offsets = [info.offset for info in zrt.list_initializers(target)]
        assert sorted(offsets) == [0, 256]
        x = np.zeros(100, np.float32)
        np.testing.assert_array_equal(zrt.Session(target, QUIET).run([x])[0], np.arange(100, dtype=np.float32) + 1)


class TestSourceModel:
    @since_1_29
    def test_session_keeps_the_bytes_alive(self) -> None:
        source = weighty().SerializeToString()
        before = sys.getrefcount(source)
        session = zrt.Session(weighty(), zrt.SessionOptions(weightless_source_model=source, log_severity_level="FATAL"))
        gc.collect()
        assert sys.getrefcount(source) == before + 1
        assert session.run([np.zeros(100, np.float32)])[0][0] == 1
        session.close()
        del session
        gc.collect()
        assert sys.getrefcount(source) == before

    @pytest.mark.parametrize("wrong", ["model.onnx", 5, bytearray(b"model"), True])
    def test_wrong_source_raises(self, wrong: Any) -> None:
        with pytest.raises(DTypeError, match="weightless_source_model: expected bytes"):
            zrt.SessionOptions(weightless_source_model=wrong).handle()


class TestCompilation:
    @since_1_29
    def test_cpu_compiles_nothing_and_keeps_the_weights(self) -> None:
        compiled = zrt.compile(weighty(), options=QUIET, weightless=True)
        assert zrt.Session(compiled, QUIET).run([np.zeros(100, np.float32)])[0][99] == 100

    @since_1_29
    def test_provider_of_an_older_release_may_ignore_it(self, build: Callable[..., Any], plugin: Any) -> None:
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        compiled = zrt.compile(model, None, QUIET, [plugin.own], embed_compiled_data_into_model=True, weightless=True)
        options = zrt.SessionOptions(weightless_source_model=model.SerializeToString(), log_severity_level="FATAL")
        assert zrt.Session(compiled, options, [plugin.own]).run([np.ones(2, np.float32)])[0].tolist() == [-1, -1]
