"""The addresses of the Open Inference Protocol, and the answers to all but those that run a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zrt.serving.infer import Infer, failure
from zrt.serving.loaded import Loaded
from zrt.serving.model import ServedModel
from zrt.serving.request_error import NOT_IMPLEMENTED, UNAVAILABLE, RequestError
from zrt.version import __version__

if TYPE_CHECKING:
    from zrt.serving.asgi import Application

EXTENSIONS = ["binary_tensor_data", "model_configuration", "statistics"]

# Addresses of Triton's extensions that zrt does not have.
MISSING = {
    "/v2/repository/models/{model}/{action:path}": "zrt neither loads nor unloads models while it serves "
    "(Triton's extension model_repository)",
    "/v2/models/{model}/trace/setting": "zrt has no traces (Triton's extension trace)",
    "/v2/trace/setting": "zrt has no traces (Triton's extension trace)",
    "/v2/logging": "zrt has no address for the log (Triton's extension logging)",
    "/v2/systemsharedmemory/{rest:path}": "zrt has no shared memory (Triton's extension system_shared_memory)",
    "/v2/cudasharedmemory/{rest:path}": "zrt has no shared memory (Triton's extension cuda_shared_memory)",
}


def make(application: Application) -> Starlette:
    routes = Routes(application)
    infer = Infer(routes.loaded, application._settings)
    model, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
    return Starlette(
        routes=[
            # In this order requests are matched.
            *(Route(f"{prefix}/infer", infer, methods=["POST"]) for prefix in (model, version)),
            Route("/v2/health/live", routes.live),
            Route("/v2/health/ready", routes.ready),
            Route("/v2", routes.metadata),
            Route("/v2/repository/index", routes.index, methods=["POST"]),
            *(Route(path, _missing(reason), methods=["GET", "POST"]) for path, reason in MISSING.items()),
            *(Route(f"{prefix}/stats", routes.statistics) for prefix in ("/v2/models", model, version)),
            *(Route(f"{prefix}/config", routes.model_configuration) for prefix in (model, version)),
            *(Route(f"{prefix}/ready", routes.model_ready) for prefix in (model, version)),
            *(Route(prefix, routes.model_metadata) for prefix in (model, version)),
            Route("/metrics", routes.metrics),
        ],
        exception_handlers={HTTPException: _of_starlette, RequestError: _failed, Exception: _failed},
        lifespan=routes.lifespan,
    )


class Routes:
    """The answers to every request but those that run a model."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def loaded(self) -> Loaded:
        """The models. They are loaded here if the server did not say that it starts, which ASGI leaves to it."""
        loaded = self._application._loaded
        return await asyncio.to_thread(self._application._load) if loaded is None else loaded

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Loads the models when the server starts, and answers the last requests when it ends."""
        await asyncio.to_thread(self._application.load)
        try:
            yield
        finally:
            await asyncio.to_thread(self._application.close)

    async def live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        ready = not (await self.loaded()).closed
        return JSONResponse({"ready": ready}, 200 if ready else UNAVAILABLE)

    async def metadata(self, _: Request) -> Response:
        return JSONResponse({"name": "zrt", "version": __version__, "extensions": EXTENSIONS})

    async def model_metadata(self, request: Request) -> Response:
        model = await self._model(request)
        versions = [one.version for one in (await self.loaded()).select(model.name, None)]
        return JSONResponse(model.signature.metadata(model.name, versions))

    async def model_configuration(self, request: Request) -> Response:
        """The configuration of a model, as Triton's clients ask for it."""
        return JSONResponse((await self._model(request)).configuration())

    async def statistics(self, request: Request) -> Response:
        """The counters of a version of a model, of all its versions, or of all models."""
        loaded = await self.loaded()
        path = request.path_params
        models = loaded.select(path.get("model"), path.get("version"))
        # With several workers it reads files.
        samples = await asyncio.to_thread(loaded.metrics.samples)
        return JSONResponse({"model_stats": [model.metrics.statistics(samples) for model in models]})

    async def index(self, _: Request) -> Response:
        """Every version of every model, and whether it takes requests."""
        loaded = await self.loaded()
        state, reason = ("UNAVAILABLE", "the server is shutting down") if loaded.closed else ("READY", "")
        return JSONResponse(
            [
                {"name": model.name, "version": model.version, "state": state, "reason": reason}
                for model in loaded.select(None, None)
            ]
        )

    async def model_ready(self, request: Request) -> Response:
        model = await self._model(request)
        ready = not (await self.loaded()).closed
        return JSONResponse({"name": model.name, "ready": ready}, 200 if ready else UNAVAILABLE)

    async def metrics(self, request: Request) -> Response:
        """The metrics, in the format that the client accepts."""
        try:
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
        except TypeError:
            # A version that is no number.
            encode, content_type = choose_encoder("")
        exposed = (await self.loaded()).metrics.exposed
        return Response(await asyncio.to_thread(encode, exposed), headers={"Content-Type": content_type})

    async def _model(self, request: Request) -> ServedModel:
        return (await self.loaded()).find(request.path_params["model"], request.path_params.get("version"))


def _missing(reason: str) -> Callable[[Request], Awaitable[Response]]:
    """The answer to a request for something that zrt does not have."""

    async def answer(request: Request) -> Response:
        return failure(RequestError(NOT_IMPLEMENTED, f"{request.method} {request.url.path[:200]}: {reason}"))

    return answer


async def _failed(_: Request, error: Exception) -> Response:
    # Starlette raises an unexpected error again after the answer, so that the server logs it.
    return failure(error)


async def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    return JSONResponse({"error": message}, error.status_code, error.headers)
