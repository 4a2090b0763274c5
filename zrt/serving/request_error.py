"""`RequestError`: a request that gets an error as its answer."""

from __future__ import annotations

from zrt.errors import ArgumentError, DTypeError, Error, InvalidArgumentError

BAD_REQUEST = 400
NOT_FOUND = 404
TOO_LARGE = 413
UNSUPPORTED_CODING = 415
FAILED = 500
NOT_IMPLEMENTED = 501
UNAVAILABLE = 503
TOO_LATE = 504


class RequestError(Exception):
    """A request is refused with an HTTP status and a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def of_error(error: Error) -> RequestError:
    """The answer to a request for which zrt or ONNX Runtime raised an error: the request's fault, or the model's."""
    asked_wrongly = isinstance(error, (ArgumentError, DTypeError, InvalidArgumentError))
    return RequestError(BAD_REQUEST if asked_wrongly else FAILED, str(error))
