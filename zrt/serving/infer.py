"""`Infer`: the answers to requests that run a model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from zrt.errors import ArgumentError, DTypeError, Error, InvalidArgumentError, OrtError
from zrt.serving import codings
from zrt.serving.asgi import Receive, Scope, Send
from zrt.serving.batches import clock
from zrt.serving.build import Answer, build
from zrt.serving.loaded import Loaded
from zrt.serving.model import ServedModel
from zrt.serving.parse import InferRequest, parse, timeout
from zrt.serving.request_error import BAD_REQUEST, FAILED, TOO_SLOW, UNAVAILABLE, RequestError
from zrt.serving.settings import PATIENCE, Settings
from zrt.values import symbolic_shapes

logger: logging.Logger = logging.getLogger("zrt.serving")

JSON_SIZE = "Inference-Header-Content-Length"
TIMEOUT = "Inference-Timeout"

# As many bytes or more are read on another thread, so that the event loop goes on.
LARGE = 1 << 16

# The seconds after which a request is watched for a client that goes away.
WATCH_S = 0.1

# The most digits of a header's number.
LONGEST = 18


class Infer:
    """An ASGI application for the addresses that end in ``/infer``: a request has none of starlette's objects."""

    def __init__(self, loaded: Callable[[], Awaitable[Loaded]], settings: Settings) -> None:
        self._loaded = loaded
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin = clock()
        model = None
        try:
            path = scope["path_params"]
            model = (await self._loaded()).find(path["model"], path.get("version"))
            answer = await self._answer(model, Headers(scope=scope), receive)
        except ClientDisconnect:
            return
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError):
                # A server that ends cancels the requests for which it does not wait. Raised, it would be a traceback.
                error = RequestError(UNAVAILABLE, "the server ended the request")
            if not isinstance(error, (Error, RequestError)):
                logger.error("a request failed", exc_info=error)
            response = failure(error)
            await response(scope, receive, send)
            if model is not None:
                model.metrics.answered(response.status_code, clock() - begin)
            return
        headers = [(b"content-length", str(len(answer.body)).encode())]
        if answer.json_size is None:
            headers.append((b"content-type", b"application/json"))
        else:
            headers.append((b"content-type", b"application/octet-stream"))
            headers.append((JSON_SIZE.lower().encode(), str(answer.json_size).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        model.metrics.answered(200, clock() - begin)

    async def _answer(self, model: ServedModel, headers: Headers, receive: Receive) -> Answer:
        arrived = clock()
        limit = self._settings.max_body
        body = await _read(receive, headers.get("content-length"), limit)
        coding = headers.get("content-encoding", "")
        json_size = _number(headers, JSON_SIZE)

        def read() -> InferRequest:
            return parse(codings.decode(body, coding, limit), json_size, model.signature)

        # Binary numbers are not read but borrowed, however many there are; strings are read one by one.
        to_read = len(body) if json_size is None or not model.signature.lanes else json_size
        request = await asyncio.to_thread(read) if coding or to_read >= LARGE else read()
        allowed = [request.timeout, timeout(_number(headers, TIMEOUT)), self._settings.timeout]
        soonest = min((seconds for seconds in allowed if seconds is not None), default=None)
        answering = model.answer(
            request.feeds,
            partial(build, model.name, model.version, model.signature, request),
            None if soonest is None else arrived + soonest,
        )
        try:
            return await _unless_gone(answering, receive)
        except OrtError as error:
            reason = _contradiction(model, request)
            if reason is None:
                raise
            raise RequestError(BAD_REQUEST, reason) from error


def _contradiction(model: ServedModel, request: InferRequest) -> str | None:
    """The sizes of the request that fit no run of the model; None if its inputs agree."""
    inputs = model.signature.inputs
    found = symbolic_shapes.contradictions(inputs.values(), [request.feeds[name].shape for name in inputs])
    return next((str(each) for each in found if not each.broadcasts), None)


async def _unless_gone(answering: Coroutine[Any, Any, Answer], receive: Receive) -> Answer:
    """The answer; raises `ClientDisconnect` if the client goes away first, and ends the run if nobody waits for it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            await asyncio.sleep(WATCH_S)
        gone = True
        task.cancel()

    def begin() -> None:
        nonlocal watching
        watching = loop.create_task(watch())

    # A task costs more than a timer, and most requests need none.
    timer = loop.call_later(WATCH_S, begin)
    try:
        return await answering
    except asyncio.CancelledError:
        if not gone or task.uncancel():
            raise
        raise ClientDisconnect from None
    finally:
        timer.cancel()
        if watching is not None:
            watching.cancel()


async def _read(receive: Receive, declared: str | None, limit: int) -> bytes:
    """The body of a request, at most `limit` bytes.

    A client that does not go on with it is given up, as servers other than zrt's own wait for ever.
    """
    if declared is not None and declared.isdecimal() and (len(declared) > LONGEST or int(declared) > limit):
        raise codings.too_large(limit)
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        try:
            async with asyncio.timeout(PATIENCE):
                message = await receive()
        except TimeoutError:
            raise RequestError(TOO_SLOW, f"no part of the body came for {PATIENCE:g} seconds") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise codings.too_large(limit)
        chunks.append(chunk)
        more = message.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _number(headers: Headers, name: str) -> int | None:
    """A header's whole number."""
    text = headers.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > LONGEST:
        raise RequestError(BAD_REQUEST, f"{name}: expected a whole number, got {text[:80]!r}")
    return int(text)


def failure(error: Exception) -> Response:
    """The answer to a request that failed. The caller logs the error if it is none of zrt's."""
    if isinstance(error, Error):
        # The request is at fault, or the model.
        is_of_request = isinstance(error, (ArgumentError, DTypeError, InvalidArgumentError))
        error = RequestError(BAD_REQUEST if is_of_request else FAILED, str(error))
    if not isinstance(error, RequestError):
        error = RequestError(FAILED, "the server failed: its log has the reason")
    # A client that the server is too busy for may come again.
    headers = {"Retry-After": "1"} if error.status == UNAVAILABLE else None
    return JSONResponse({"error": str(error)}, error.status, headers)
