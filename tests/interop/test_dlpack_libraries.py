"""Tensors to and from JAX, torch and CuPy, by DLPack, where these are installed."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zrt
from tests.support.bindings import bind
from tests.support.capsules import watched
from zrt.errors import DLPackError


@pytest.mark.jax
class TestJax:
    @pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "bfloat16", "float8_e5m2"])
    def test_round_trip(self, dtype: str) -> None:
        import jax

        array = jax.numpy.array([[1, 0, 1], [0, 1, 0]], dtype)
        value = zrt.from_dlpack(array)
        assert value.element_type is zrt.ElementType.of(dtype)
        assert value.address == array.unsafe_buffer_pointer()
        np.testing.assert_array_equal(value.numpy(), np.asarray(array))
        back = jax.numpy.from_dlpack(value)
        np.testing.assert_array_equal(np.asarray(back), np.asarray(array))

    def test_arrays_are_fed_and_results_are_taken(self, add: zrt.Session) -> None:
        import jax

        x = jax.numpy.arange(4.0)
        [z] = add.run([x, x])
        assert jax.numpy.from_dlpack(zrt.Value.from_array(z)).tolist() == [0, 2, 4, 6]

    def test_lifetimes(self) -> None:
        import jax

        value, alive = watched()
        taken = jax.numpy.from_dlpack(value)
        total = float(taken.sum())
        del value, taken
        gc.collect()
        assert total == 0
        assert alive() is None
        kept = zrt.from_dlpack(jax.numpy.arange(1000.0) * 2)
        gc.collect()
        assert kept.numpy()[-1] == 1998


@pytest.mark.torch
class TestTorch:
    def test_round_trip(self, add: zrt.Session) -> None:
        import torch

        tensor = torch.arange(4, dtype=torch.float32)
        value = zrt.from_dlpack(tensor)
        assert value.address == tensor.data_ptr()
        assert torch.from_dlpack(value).data_ptr() == tensor.data_ptr()
        assert add.run([tensor, tensor])[0].tolist() == [0, 2, 4, 6]
        assert zrt.from_dlpack(tensor.to(torch.bfloat16)).element_type is zrt.ElementType.BFLOAT16
        with pytest.raises(DLPackError, match="does not export it"):
            zrt.from_dlpack(torch.ones(2, requires_grad=True))

    @pytest.mark.gpu
    def test_on_cuda(self, build: Callable[..., Any]) -> None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("this torch has no CUDA")
        session = zrt.Session(build("(float[n] x) => (float[n] y) { y = Relu(x) }"), providers=["cuda", "cpu"])
        tensor = torch.tensor([-1.0, 2.0], device="cuda")
        torch.cuda.synchronize()
        value = zrt.from_dlpack(tensor, stream=torch.cuda.current_stream().cuda_stream or 1)
        assert value.address == tensor.data_ptr()
        assert value.memory == zrt.MemoryInfo.cuda(0)
        assert session.run([tensor])[0].tolist() == [0, 2]
        binding = bind(session, {"x": value}, y=zrt.MemoryInfo.cuda(0))
        binding.run()
        output = binding.outputs()["y"]
        assert torch.from_dlpack(output).tolist() == [0, 2]
        assert np.from_dlpack(output, device="cpu").tolist() == [0, 2]


@pytest.mark.gpu
@pytest.mark.cupy
class TestCupy:
    def test_round_trip(self, build: Callable[..., Any]) -> None:
        import cupy

        session = zrt.Session(build("(float[n] x) => (float[n] y) { y = Relu(x) }"), providers=["cuda", "cpu"])
        array = cupy.array([-1, 2], cupy.float32)
        cupy.cuda.Device().synchronize()
        value = zrt.from_dlpack(array)
        assert (value.address, value.memory) == (array.data.ptr, zrt.MemoryInfo.cuda(0))
        assert session.run([array])[0].tolist() == [0, 2]
        assert cupy.from_dlpack(value).data.ptr == array.data.ptr
