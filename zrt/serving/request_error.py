"""`RequestError`: a request that gets an error as its answer."""

from __future__ import annotations

BAD_REQUEST = 400
NOT_FOUND = 404
TOO_SLOW = 408
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
