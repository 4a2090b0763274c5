"""Bodies in gzip and deflate are read within a limit, and written where a client accepts them."""

from __future__ import annotations

import gzip
import zlib
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


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate"]))
def test_written_body_can_be_read(body: bytes, coding: str) -> None:
    assert codings.decode(codings.encode(body, coding), coding, LIMIT) == body


@pytest.mark.parametrize(
    ("coding", "encode"),
    [("gzip", gzip.compress), ("GZIP ", gzip.compress), ("deflate", zlib.compress), ("deflate", bare_deflate)],
)
def test_body_of_other_writers_can_be_read(coding: str, encode: object) -> None:
    assert callable(encode)
    assert codings.decode(encode(b"tensor" * 100), coding, LIMIT) == b"tensor" * 100


def test_body_without_coding_stays_as_it_is() -> None:
    assert codings.decode(b"body", "", LIMIT) == codings.decode(b"body", "identity", LIMIT) == b"body"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_body_that_grows_beyond_the_limit_is_refused(coding: str) -> None:
    with pytest.raises(RequestError) as caught:
        codings.decode(codings.encode(bytes(100 << 20), coding), coding, LIMIT)
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


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", None),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("br, gzip;q=0.5, deflate", "gzip"),
        ("GZIP", "gzip"),
        ("gzip; q=0, deflate", "deflate"),
        ("gzip;q=0.000, deflate;q=0.001", "deflate"),
        ("identity", None),
    ],
)
def test_first_accepted_coding_is_chosen(header: str, coding: str | None) -> None:
    assert codings.accepted(header) == coding
