"""Sizes of memory as text."""

from __future__ import annotations

import pytest

from zrt import errors
from zrt._common.arguments import byte_count


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1B", 1),
        ("512MB", 512_000_000),
        ("512MiB", 512 << 20),
        (" 1.5 gib ", 3 << 29),
        ("0.1KB", 100),
        ("1.9999B", 1),
        ("2TiB", 2 << 40),
        ("123456789012345678", 123456789012345678),
        ("4096", 4096),
        (512, 512),
    ],
)
def test_size_in_bytes(text, size):
    assert byte_count(text, "budget") == size


@pytest.mark.parametrize(
    "text", ["", "MB", "1k", "9999999TB", "-1MB", "1e3MB", "1iB", "1 M", "1,5GB", "0MB", "0.5B", "٣MB", "1PB"]
)
def test_other_text_is_refused_with_the_argument(text):
    with pytest.raises(errors.ArgumentError, match=r"^budget: "):
        byte_count(text, "budget")


def test_other_types_are_refused():
    with pytest.raises(errors.DTypeError, match=r"^budget: "):
        byte_count(b"512", "budget")
