"""Sizes of memory as text, such as ``512MiB``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from zrt._common.arguments import shown, text
from zrt.errors import ArgumentError

_SIZE = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmgt]?)(i?)b\s*", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(value: Any, name: str) -> int:
    """The bytes of a size: ``"512MB"`` is 512 * 1000², ``"1.5GiB"`` 1.5 * 1024³, ``"4096B"`` 4096; at least 1.

    A part of a byte is dropped. Errors name the argument `name`.
    """
    written = text(value, name).decode()
    match = _SIZE.fullmatch(written)
    if match is None or (match[3] and not match[2]):
        raise ArgumentError(f"{name}: {shown(written)} is no size: expected a number and a unit, such as 512MB or 2GiB")
    size = int(Fraction(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].lower()])
    if size < 1:
        raise ArgumentError(f"{name}: {shown(written)} is less than a byte")
    return size
