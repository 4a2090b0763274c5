"""The addresses of the Open Inference Protocol, and the answers to all but those that run a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zrt.serving.infer import Infer, failure
from zrt.serving.loaded import Loaded
from zrt.serving.model import ServedModel
from zrt.serving.request_error import UNAVAILABLE, RequestError
from zrt.serving.settings import Settings
from zrt.version import __version__

EXTENSIONS = ["binary_tensor_data"]


def make(load: Callable[[], Loaded], close: Callable[[], None], settings: Settings) -> Starlette:
    """The routes of an application; `load` gives its models, which it loads where they are not."""
    routes = Routes(load, close)
    infer = Infer(routes.loaded, settings)
    model, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
    return Starlette(
        routes=[
            # In this order requests are matched.
            *(Route(f"{prefix}/infer", infer, methods=["POST"]) for prefix in (model, version)),
            Route("/v2/health/live", routes.live),
            Route("/v2/health/ready", routes.ready),
            Route("/v2", routes.metadata),
            *(Route(f"{prefix}/ready", routes.model_ready) for prefix in (model, version)),
            *(Route(prefix, routes.model_metadata) for prefix in (model, version)),
            Route("/metrics", routes.metrics),
        ],
        exception_handlers={HTTPException: _of_starlette, RequestError: _failed, Exception: _failed},
        lifespan=routes.lifespan,
    )


class Routes:
    """The answers to every request but those that run a model."""

    def __init__(self, load: Callable[[], Loaded], close: Callable[[], None]) -> None:
        self._load = load
        self._close = close
        self._loaded: Loaded | None = None

    async def loaded(self) -> Loaded:
        """The models. They are loaded here if the server did not say that it starts, which ASGI leaves to it."""
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(self._load)
        return self._loaded

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Loads the models when the server starts, and answers the last requests when it ends."""
        self._loaded = await asyncio.to_thread(self._load)
        try:
            yield
        finally:
            await asyncio.to_thread(self._close)

    async def live(self, _: Request) -> Response:
        """The server answers."""
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        """The server takes requests."""
        ready = not (await self.loaded()).closed
        return JSONResponse({"ready": ready}, 200 if ready else UNAVAILABLE)

    async def metadata(self, _: Request) -> Response:
        """The server's name, version and extensions."""
        return JSONResponse({"name": "zrt", "version": __version__, "extensions": EXTENSIONS})

    async def model_metadata(self, request: Request) -> Response:
        """The inputs and outputs of a model."""
        model = await self._model(request)
        versions = (await self.loaded()).versions(model.name)
        return JSONResponse(model.signature.metadata(model.name, versions))

    async def model_ready(self, request: Request) -> Response:
        """The server takes requests of a model."""
        model = await self._model(request)
        ready = not (await self.loaded()).closed
        return JSONResponse({"name": model.name, "ready": ready}, 200 if ready else UNAVAILABLE)

    async def metrics(self, request: Request) -> Response:
        """The metrics, in the format that the client accepts."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode((await self.loaded()).metrics.registry), headers={"Content-Type": content_type})

    async def _model(self, request: Request) -> ServedModel:
        return (await self.loaded()).find(request.path_params["model"], request.path_params.get("version"))


async def _failed(_: Request, error: Exception) -> Response:
    return failure(error)


async def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    return JSONResponse({"error": message}, error.status_code, error.headers)
