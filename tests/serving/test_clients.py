"""The clients of others work as they are: tritonclient, and KServe's where it is installed."""

import asyncio
import time
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

    def test_models_are_ready_where_they_are(self, client: Any) -> None:
        assert client.is_server_live()
        assert client.is_server_ready()
        ready = {(name, version): client.is_model_ready(name, version) for name in ("digits", "q") for version in "12"}
        assert [model for model, is_ready in ready.items() if is_ready] == [("digits", "1")]

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

    def test_every_datatype(self, triton: Any, serve: Callable[..., Server], load: Callable[..., zrt.Session]) -> None:
        models = {
            datatype: load(f"({kind}[n, 2] x) => ({kind}[n, 2] y) {{ y = Identity(x) }}")
            for datatype, kind in wire.ONNX_NAMES.items()
        }
        with triton.InferenceServerClient(serve(models).address) as client:
            for datatype in models:
                array = np.array([[0, 1], [1, 0]]).astype(wire.DTYPES[datatype])
                if datatype == "BYTES":
                    array = np.array([["", "ü"], ["a\0b", "\U0001f600"]], object)
                sent = triton.InferInput("x", array.shape, datatype).set_data_from_numpy(array)
                # From the third request on by a lane.
                for _ in range(3):
                    result = client.infer(datatype, [sent]).as_numpy("y")
                    if datatype == "BYTES":
                        result = np.array([[text.decode() for text in row] for row in result], object)
                    assert result.tolist() == array.tolist(), datatype

    def test_errors_come_with_status_and_message(self, triton: Any, client: Any) -> None:
        from tritonclient.utils import InferenceServerException

        image = triton.InferInput("image", [1, 1, 8, 9], "FP32")
        image.set_data_from_numpy(np.zeros((1, 1, 8, 9), np.float32))
        with pytest.raises(InferenceServerException, match=r"\[400\] input 'image': expected shape"):
            client.infer("digits", [image])
        with pytest.raises(InferenceServerException, match=r"\[404\] there is no model 'other'"):
            client.infer("other", [image])

    def test_configuration(self, triton: Any, serve: Callable[..., Server], load: Callable[..., zrt.Session]) -> None:
        fixed = load("(string x, int64[2, n] i) => (string y, int64[2, n] j) { y = Identity(x) j = Neg(i) }")
        # By default no requests share runs.
        with triton.InferenceServerClient(serve({"digits": str(DIGITS)}).address) as client:
            assert client.get_model_config("digits")["max_batch_size"] == 0
        server = serve({"digits": str(DIGITS), "fixed": {"1": fixed, "b": fixed}}, max_batch=8, max_wait=50, lanes=3)
        with triton.InferenceServerClient(server.address) as client:
            group = {"name": "digits", "kind": "KIND_CPU", "count": 3}
            for version in ("", "1"):
                assert client.get_model_config("digits", version) == {
                    "name": "digits",
                    "platform": "onnxruntime_onnx",
                    "backend": "onnxruntime",
                    "max_batch_size": 8,
                    "input": [{"name": "image", "data_type": "TYPE_FP32", "dims": [1, 8, 8]}],
                    "output": [{"name": "probabilities", "data_type": "TYPE_FP32", "dims": [10]}],
                    "instance_group": [group],
                    "dynamic_batching": {"max_queue_delay_microseconds": 50},
                }
            fixed_config = client.get_model_config("fixed", "b")
            assert fixed_config["input"] == [
                {"name": "x", "data_type": "TYPE_STRING", "dims": []},
                {"name": "i", "data_type": "TYPE_INT64", "dims": [2, -1]},
            ]
            assert (fixed_config["max_batch_size"], "dynamic_batching" in fixed_config) == (0, False)

    def test_statistics_count_what_was_asked(self, triton: Any, serve: Callable[..., Server], images: Any) -> None:
        server = serve({"digits": {"1": str(DIGITS), "2": str(DIGITS)}, "other": str(DIGITS)})
        client = triton.InferenceServerClient(server.address)
        begin = int(time.time() * 1000)
        image = triton.InferInput("image", images.shape, "FP32").set_data_from_numpy(images)
        for _ in range(3):
            client.infer("digits", [image])
        with pytest.raises(triton.InferenceServerException):
            client.infer("digits", [])
        [one] = client.get_inference_statistics("digits", "2")["model_stats"]
        stats = one["inference_stats"]
        assert (one["name"], one["version"]) == ("digits", "2")
        assert (one["inference_count"], one["execution_count"], one["batch_stats"]) == (3 * len(images), 3, [])
        assert begin <= one["last_inference"] <= time.time() * 1000
        wanted = {"success": 3, "fail": 1, "queue": 3, "cache_hit": 0, "cache_miss": 0}
        wanted |= {"compute_input": 3, "compute_infer": 3, "compute_output": 3}
        assert {name: duration["count"] for name, duration in stats.items()} == wanted
        assert all(duration["ns"] > 0 for duration in stats.values() if duration["count"])
        parts = sum(stats[name]["ns"] for name in ("queue", "compute_input", "compute_infer", "compute_output"))
        assert parts < stats["success"]["ns"]
        [first, second] = client.get_inference_statistics("digits")["model_stats"]
        assert (first["version"], first["inference_count"], first["last_inference"]) == ("1", 0, 0)
        assert second == one
        everything = client.get_inference_statistics()["model_stats"]
        assert [each["name"] for each in everything] == ["digits", "digits", "other"]
        with pytest.raises(triton.InferenceServerException, match=r"\[404\] there is no model 'q'"):
            client.get_inference_statistics("q")
        client.close()

    def test_every_method_works_or_says_what_is_missing(self, client: Any) -> None:
        from tritonclient.utils import InferenceServerException

        assert client.get_model_repository_index() == [
            {"name": "digits", "version": "1", "state": "READY", "reason": ""}
        ]
        missing: dict[str, tuple[tuple[Any, ...], str]] = {
            "load_model": (("digits",), "model_repository"),
            "unload_model": (("digits",), "model_repository"),
            "get_trace_settings": (("digits",), "trace"),
            "update_trace_settings": ((None, {}), "trace"),
            "get_log_settings": ((), "logging"),
            "update_log_settings": (({},), "logging"),
            "get_system_shared_memory_status": ((), "system_shared_memory"),
            "register_system_shared_memory": (("r", "/r", 8), "system_shared_memory"),
            "unregister_system_shared_memory": (("r",), "system_shared_memory"),
            "get_cuda_shared_memory_status": (("r",), "cuda_shared_memory"),
            "register_cuda_shared_memory": (("r", b"", 0, 8), "cuda_shared_memory"),
            "unregister_cuda_shared_memory": ((), "cuda_shared_memory"),
        }
        for name, (arguments, extension) in missing.items():
            with pytest.raises(InferenceServerException, match=rf"\[501\].*zrt .*extension {extension}\b"):
                getattr(client, name)(*arguments)
        works = {"is_server_live", "is_server_ready", "is_model_ready", "get_server_metadata", "get_model_metadata"}
        works |= {"get_model_config", "get_model_repository_index", "get_inference_statistics", "infer", "async_infer"}
        # These ask no server.
        works |= {
            "generate_request_body",
            "parse_response_body",
            "close",
            "register_plugin",
            "unregister_plugin",
            "plugin",
        }
        methods = {name for name in dir(client) if not name.startswith("_") and callable(getattr(client, name))}
        assert methods == works | set(missing)

    def test_sequences_are_refused(self, triton: Any, client: Any, images: Any) -> None:
        image = triton.InferInput("image", images.shape, "FP32").set_data_from_numpy(images)
        with pytest.raises(triton.InferenceServerException, match=r"\[400\] sequence_id"):
            client.infer("digits", [image], sequence_id=5, sequence_start=True)

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
