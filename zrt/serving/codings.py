"""Content codings of requests: gzip and deflate, read within a limit of size."""

from __future__ import annotations

import zlib

from zrt.serving.request_error import BAD_REQUEST, TOO_LARGE, UNSUPPORTED_CODING, RequestError

# zlib's argument for each coding: the format of gzip, that of zlib, and deflate without a format around it.
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_BARE_DEFLATE = -15


def decode(body: bytes, coding: str, limit: int) -> bytes:
    """A request's body without its coding; raises `RequestError` for a coding that is unknown, broken or too large."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in _WBITS:
        raise RequestError(UNSUPPORTED_CODING, f"Content-Encoding: {coding[:80]!r} is neither gzip nor deflate")
    wbits = _WBITS[coding]
    # The first byte of zlib's format has 8 in its low half. Some clients send deflate without that format.
    if coding == "deflate" and body and body[0] & 15 != 8:
        wbits = _BARE_DEFLATE
    reader = zlib.decompressobj(wbits)
    try:
        plain = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise RequestError(BAD_REQUEST, f"the body cannot be read as {coding}: {error}") from None
    if len(plain) > limit:
        raise too_large(limit)
    if not reader.eof or reader.unused_data:
        raise RequestError(BAD_REQUEST, f"the body is not one whole {coding} stream")
    return plain


def too_large(limit: int) -> RequestError:
    """The answer to a body beyond the limit."""
    return RequestError(TOO_LARGE, f"the body has more than {limit} bytes")
