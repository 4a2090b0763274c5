"""The clients of others work as they are: tritonclient, and KServe's where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import zrt
from tests.serving import wire
from tests.serving.conftest import Server

DIGITS = files("zrt.models") / "digits.onnx"


@pytest.fixture
def images() -> np.ndarray[Any, Any]:
    digits = np.load(str(files("zrt.models") / "digits.npz"))
    return (digits["images"][:5] / 16).astype(np.float32).reshape(-1, 1, 8, 8)


@pytest.fixture
def wanted(images: np.ndarray[Any, Any]) -> Any:
    return zrt.infer(str(DIGITS), [images])[0]


class TestTriton:
    @pytest.fixture
    def triton(self) -> Any:
        return pytest.importorskip("tritonclient.http", reason="tritonclient is not installed: --group serving")

    @pytest.fixture
    def client(self, triton: Any, serve: Callable[..., Server]) -> Iterator[Any]:
        server = serve({"digits": str(DIGITS)})
        client = triton.InferenceServerClient(server.address, concurrency=4)
        yield client
        client.close()

    def test_server_and_model_are_described(self, client: Any) -> None:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("digits")
        assert client.is_model_ready("digits", "1")
        assert not client.is_model_ready("digits", "2")
        assert not client.is_model_ready("other")
        assert client.get_server_metadata()["name"] == "zrt"
        assert client.get_model_metadata("digits", "1")["outputs"] == [
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}
        ]

    @pytest.mark.parametrize("request_coding", [None, "gzip", "deflate"])
    @pytest.mark.parametrize("response_coding", [None, "gzip", "deflate"])
    @pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
    def test_codings_and_forms_of_data(
        self, triton: Any, client: Any, images: Any, wanted: Any, request_coding: Any, response_coding: Any, binary: Any
    ) -> None:
        many = np.repeat(images, 20, axis=0)
        image = triton.InferInput("image", many.shape, "FP32").set_data_from_numpy(many, binary_data=binary)
        output = triton.InferRequestedOutput("probabilities", binary_data=binary)
        result = client.infer(
            "digits",
            [image],
            outputs=[output],
            request_id="7",
            request_compression_algorithm=request_coding,
            response_compression_algorithm=response_coding,
        )
        assert np.allclose(result.as_numpy("probabilities"), np.repeat(wanted, 20, axis=0), atol=1e-6)
        assert result.get_response()["id"] == "7"

    def test_requests_at_the_same_time(self, triton: Any, client: Any, images: Any, wanted: Any) -> None:
        sent = []
        for index in range(60):
            one = images[index % 5 : index % 5 + 1]
            image = triton.InferInput("image", one.shape, "FP32").set_data_from_numpy(one)
            sent.append(client.async_infer("digits", [image], timeout=60_000_000))
        for index, one in enumerate(sent):
            assert np.allclose(one.get_result().as_numpy("probabilities"), wanted[[index % 5]], atol=1e-6)

    @pytest.mark.parametrize("datatype", sorted(wire.DTYPES))
    def test_every_datatype(
        self, triton: Any, serve: Callable[..., Server], load: Callable[..., zrt.Session], datatype: str
    ) -> None:
        kind = wire.ONNX_NAMES[datatype]
        server = serve({"m": load(f"({kind}[n, 2] x) => ({kind}[n, 2] y) {{ y = Identity(x) }}")})
        array = np.array([[0, 1], [1, 0]]).astype(wire.DTYPES[datatype])
        if datatype == "BYTES":
            array = np.array([["", "ü"], ["b", "c d"]], object)
        client = triton.InferenceServerClient(server.address)
        sent = triton.InferInput("x", array.shape, datatype).set_data_from_numpy(array)
        got = client.infer("m", [sent]).as_numpy("y")
        if datatype == "BYTES":
            got = np.array([[text.decode() for text in row] for row in got], object)
        assert got.tolist() == array.tolist()
        client.close()

    def test_errors_come_with_status_and_message(self, triton: Any, client: Any, images: Any) -> None:
        from tritonclient.utils import InferenceServerException

        image = triton.InferInput("image", [1, 1, 8, 9], "FP32")
        image.set_data_from_numpy(np.zeros((1, 1, 8, 9), np.float32))
        with pytest.raises(InferenceServerException, match=r"\[400\] input 'image': expected shape"):
            client.infer("digits", [image])
        with pytest.raises(InferenceServerException, match=r"\[404\] there is no model 'other'"):
            client.infer("other", [image])

    def test_asyncio_client(self, serve: Callable[..., Server], images: Any, wanted: Any) -> None:
        aio = pytest.importorskip("tritonclient.http.aio")
        server = serve({"digits": str(DIGITS)})

        async def ask() -> None:
            async with aio.InferenceServerClient(server.address) as client:
                image = aio.InferInput("image", images.shape, "FP32").set_data_from_numpy(images)
                results = await asyncio.gather(*(client.infer("digits", [image]) for _ in range(8)))
                for result in results:
                    assert np.allclose(result.as_numpy("probabilities"), wanted, atol=1e-6)

        asyncio.run(ask())


class TestKServe:
    """Its package needs much that a client does not: the group `serving` does not install it."""

    def test_rest_client(self, serve: Callable[..., Server], images: Any, wanted: Any) -> None:
        kserve = pytest.importorskip("kserve", reason="kserve is not installed")
        server = serve({"digits": str(DIGITS)})
        address = f"http://{server.address}"

        async def ask() -> None:
            client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
            assert await client.is_server_live(address)
            assert await client.is_server_ready(address)
            assert await client.is_model_ready(address, "digits")
            assert not await client.is_model_ready(address, "other")
            for binary in (True, False):
                image = kserve.InferInput("image", list(images.shape), "FP32")
                image.set_data_from_numpy(images, binary_data=binary)
                request = kserve.InferRequest("digits", [image])
                if binary:
                    request.parameters = {"binary_data_output": True}
                answer = await client.infer(address, request, model_name="digits")
                assert np.allclose(answer.outputs[0].as_numpy(), wanted, atol=1e-6)
            await client.close()

        asyncio.run(ask())
