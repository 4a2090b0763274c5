"""LoRA adapters: written, loaded, and active in single runs."""

import gc
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import zrt
from tests.support import adapters, models, ort
from zrt import LoraAdapter, RunOptions, Session, SessionOptions, save_lora_adapter
from zrt.errors import Error, InvalidArgumentError, UnsupportedError
from zrt.types import ElementType

RNG = np.random.default_rng(4)
A, B = RNG.random((4, 2), np.float32), RNG.random((2, 4), np.float32)
X = RNG.random((3, 4), np.float32)
KINDS = [
    kind
    for kind in ElementType
    if kind.bits >= 8
    and not kind.refused
    and kind <= 20
    and not (kind is ElementType.BOOL and ort.ADAPTERS_HAVE_NUMBERS_ONLY)
]


def model() -> bytes:
    """y = x w + x a b, where a and b are optional inputs: without an adapter they have rank 0."""
    text = """(float[n, 4] x, float[4, r] a, float[r, 4] b) => (float[n, 4] y) {
        xa = MatMul(x, a)
        xab = MatMul(xa, b)
        xw = MatMul(x, w)
        y = Add(xw, xab)
    }"""
    empty = np.zeros((4, 0), np.float32)
    return models.parsed(text, w=np.eye(4, dtype=np.float32), a=empty, b=empty.T).SerializeToString()


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(model(), SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("lora") / "ab.onnx_adapter"
    save_lora_adapter(path, {"a": A, "b": B}, adapter_version=3, model_version=7)
    return path


def made(folder: Path, **parameters: np.ndarray[Any, Any]) -> LoraAdapter:
    save_lora_adapter(folder / "made", parameters)
    return LoraAdapter((folder / "made").read_bytes())


class TestLoading:
    def test_parameters_and_versions(self, path):
        for form in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
            adapter = LoraAdapter(form)
            assert [(p.name, p.element_type, p.shape) for p in adapter.parameters] == [
                ("a", ElementType.FLOAT, (4, 2)),
                ("b", ElementType.FLOAT, (2, 4)),
            ]
            assert (adapter.adapter_version, adapter.model_version) == (3, 7)
        assert repr(adapter) == "LoraAdapter(a: float32[4, 2], b: float32[2, 4])"

    @given(
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9),
            st.sampled_from(KINDS).flatmap(
                lambda kind: npst.array_shapes(min_side=0, max_dims=4).map(lambda shape: np.ones(shape, kind.dtype))
            ),
            max_size=5,
        ),
        st.integers(0, 2**31 - 1),
    )
    @example({"decoder." * 25: np.ones(2, np.float32)}, 1)
    def test_written_adapter_is_read_back(self, tmp_path_factory, parameters, version):
        path = tmp_path_factory.getbasetemp() / "any.onnx_adapter"
        save_lora_adapter(path, parameters, adapter_version=version)
        adapter = LoraAdapter(path)
        assert adapter.adapter_version == version
        assert {p.name: (p.element_type.dtype, p.shape) for p in adapter.parameters} == {
            name: (array.dtype, array.shape) for name, array in parameters.items()
        }

    def test_damaged_bytes_raise_or_load_and_the_good_ones_stay_good(self, path, session):
        """Bytes that ORT's own verifier accepts must be read to the end without a crash."""
        chance = random.Random(2)
        whole = path.read_bytes()
        expected = LoraAdapter(whole).parameters
        refused = 0
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            size = chance.randint(1, len(data)) if chance.random() < 0.2 else len(data)
            try:
                LoraAdapter(bytes(data[:size]))
            except Error:
                refused += 1
            good = LoraAdapter(whole)
            assert good.parameters == expected
        assert refused
        result = session.run([X], options=RunOptions(adapters=[good]))[0]
        np.testing.assert_allclose(result, X + X @ A @ B, rtol=1e-6)

    def test_string_parameter_raises(self):
        """ORT would read the file's bytes as C++ strings."""
        with pytest.raises(UnsupportedError, match="adapter in memory: parameter 'a' is of type STRING"):
            LoraAdapter(adapters.of_strings())

    def test_bools_load_where_ort_takes_them(self, tmp_path):
        save_lora_adapter(tmp_path / "bools", {"a": np.ones((2, 2), bool)})
        if not ort.ADAPTERS_HAVE_NUMBERS_ONLY:
            assert LoraAdapter(tmp_path / "bools").parameters[0].element_type is ElementType.BOOL
            return
        with pytest.raises(UnsupportedError, match="bools': parameter 'a' is of type BOOL, which no adapter may have"):
            LoraAdapter(tmp_path / "bools")

    @pytest.mark.gpu
    def test_on_a_device(self, path):
        session = Session(model(), providers=["CUDA"])
        adapter = LoraAdapter(path, session.allocator(zrt.MemoryInfo.cuda()))
        result = session.run([X], options=RunOptions(adapters=[adapter]))[0]
        np.testing.assert_allclose(result, X + X @ A @ B, rtol=1e-3, atol=1e-3)

    @pytest.mark.official
    def test_the_official_package_reads_and_writes_the_same(self, path, session, tmp_path):
        import onnxruntime

        read = onnxruntime.AdapterFormat.read_adapter(str(path))
        assert (read.get_adapter_version(), read.get_model_version()) == (3, 7)
        assert {name: value.numpy().tolist() for name, value in read.get_parameters().items()} == {
            "a": A.tolist(),
            "b": B.tolist(),
        }
        written = onnxruntime.AdapterFormat()
        written.set_adapter_version(1)
        written.set_model_version(1)
        values = {"a": onnxruntime.OrtValue.ortvalue_from_numpy(A), "b": onnxruntime.OrtValue.ortvalue_from_numpy(B)}
        written.set_parameters(values)
        written.export_adapter(str(tmp_path / "official"))
        ours = session.run([X], options=RunOptions(adapters=[LoraAdapter(tmp_path / "official")]))[0]
        options = onnxruntime.RunOptions()
        adapter = onnxruntime.LoraAdapter()
        adapter.Load(str(path))
        options.add_active_adapter(adapter)
        theirs = onnxruntime.InferenceSession(model()).run(None, {"x": X}, options)[0]
        np.testing.assert_array_equal(ours, theirs)


class TestWriting:
    def test_type_that_onnx_runtime_refuses_raises(self, tmp_path):
        with pytest.raises(UnsupportedError, match=r"parameter 'a': .*COMPLEX64"):
            save_lora_adapter(tmp_path / "a", {"a": np.zeros(2, np.complex64)})
        assert not (tmp_path / "a").exists()

    def test_replacing_the_file_of_a_loaded_adapter(self, tmp_path, session):
        """ONNX Runtime maps the file, so writing into the file would change its memory."""
        path = tmp_path / "a"
        save_lora_adapter(path, {"a": A, "b": B})
        options = RunOptions(adapters=[LoraAdapter(path)])
        save_lora_adapter(path, {})
        assert LoraAdapter(path).parameters == ()
        np.testing.assert_allclose(session.run([X], options=options)[0], X + X @ A @ B, rtol=1e-6)
        assert [each.name for each in tmp_path.iterdir()] == ["a"]

    def test_strided_and_swapped_arrays(self, tmp_path, session):
        adapter = made(tmp_path, a=np.asfortranarray(A.astype(">f4")), b=np.repeat(B, 2, axis=1)[:, ::2])
        result = session.run([X], options=RunOptions(adapters=[adapter]))[0]
        np.testing.assert_allclose(result, X + X @ A @ B, rtol=1e-6)

    def test_subclass_with_another_shape_is_written_as_its_memory_is(self, tmp_path):
        class Other(np.ndarray):
            shape = property(lambda self: (1,))

        assert made(tmp_path, a=A.view(Other), b=B).parameters[0].shape == A.shape


class TestRuns:
    @pytest.mark.parametrize("threads", [1, 2])
    def test_asynchronous_run_uses_it(self, path, threads):
        """ONNX Runtime's own asynchronous run ignores adapters."""
        session = Session(model(), SessionOptions(intra_op_num_threads=threads, log_severity_level="FATAL"))
        options = RunOptions(adapters=[LoraAdapter(path)])
        result = session.submit([X], options=options).result(60)[0]
        np.testing.assert_allclose(result, X + X @ A @ B, rtol=1e-5)

    def test_only_runs_with_it_change(self, session, path):
        options = RunOptions(adapters=[LoraAdapter(path)])
        for _ in range(2):
            np.testing.assert_allclose(session.run([X], options=options)[0], X + X @ A @ B, rtol=1e-6)
            np.testing.assert_array_equal(session.run([X])[0], X)
        np.testing.assert_allclose(session.prepare([X]).run(options)[0], X + X @ A @ B, rtol=1e-6)

    def test_run_options_keep_it_alive(self, session, path):
        adapter = LoraAdapter(path)
        options = RunOptions(adapters=[adapter])
        adapter.close()
        del adapter
        gc.collect()
        np.testing.assert_allclose(session.run([X], options=options)[0], X + X @ A @ B, rtol=1e-6)

    def test_last_of_several_adapters_counts(self, session, tmp_path):
        apart = RunOptions(adapters=(made(tmp_path, a=A), made(tmp_path, b=B)))
        np.testing.assert_allclose(session.run([X], options=apart)[0], X + X @ A @ B, rtol=1e-6)
        # Of the same parameter the last adapter counts; adapters take precedence over feeds.
        both = RunOptions(adapters=[made(tmp_path, a=A, b=B), made(tmp_path, a=3 * A)])
        np.testing.assert_allclose(session.run([X], options=both)[0], X + 3 * X @ A @ B, rtol=1e-6)
        fed = session.run({"x": X, "a": 0 * A, "b": B}, options=both)[0]
        np.testing.assert_allclose(fed, X + 3 * X @ A @ B, rtol=1e-6)

    def test_parameter_that_does_not_fit_the_model_raises(self, session, tmp_path):
        for parameters, says in (
            ({"q": A}, "q"),
            ({"a": A.astype(np.float64), "b": B}, "double"),
            ({"a": np.zeros((5, 2), np.float32), "b": B}, "Expected: 4"),
        ):
            with pytest.raises(InvalidArgumentError, match=says):
                session.run([X], options=RunOptions(adapters=[made(tmp_path, **parameters)]))
        np.testing.assert_array_equal(session.run([X])[0], X)
