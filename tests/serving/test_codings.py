"""Bodies in gzip and deflate are read within a limit."""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zrt.serving import codings
from zrt.serving.request_error import RequestError

LIMIT = 1 << 16


def bare_deflate(data: bytes) -> bytes:
    writer = zlib.compressobj(wbits=-15)
    return writer.compress(data) + writer.flush()


WRITERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("", bytes),
    ("identity", bytes),
    ("gzip", gzip.compress),
    ("GZIP ", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", bare_deflate),
]


@given(st.binary(max_size=200), st.sampled_from(WRITERS))
def test_written_body_can_be_read(body: bytes, writer: tuple[str, Callable[[bytes], bytes]]) -> None:
    coding, encode = writer
    assert codings.decode(encode(body), coding, LIMIT) == body


@pytest.mark.parametrize(("coding", "encode"), WRITERS[3:])
def test_body_that_grows_beyond_the_limit_is_refused(coding: str, encode: Callable[[bytes], bytes]) -> None:
    with pytest.raises(RequestError) as caught:
        codings.decode(encode(bytes(100 << 20)), coding, LIMIT)
    assert caught.value.status == 413


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("broken", [b"", b"no stream", b"\x1f\x8b", b"x\x9c"])
def test_broken_body_is_refused(coding: str, broken: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        codings.decode(broken, coding, LIMIT)
    assert caught.value.status == 400


def test_body_with_more_behind_the_stream_is_refused() -> None:
    with pytest.raises(RequestError, match="whole gzip stream"):
        codings.decode(gzip.compress(b"a") + b"more", "gzip", LIMIT)


def test_unknown_coding_is_refused() -> None:
    with pytest.raises(RequestError, match="'br'") as caught:
        codings.decode(b"", "br", LIMIT)
    assert caught.value.status == 415


@given(st.binary(max_size=100), st.sampled_from(["gzip", "deflate"]))
def test_any_body_is_read_or_refused(body: bytes, coding: str) -> None:
    with suppress(RequestError):
        codings.decode(body, coding, LIMIT)
