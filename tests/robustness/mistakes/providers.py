"""Providers with typed options, and the arguments `strict` and `allow`."""

from __future__ import annotations

from collections.abc import Callable

import zrt
from tests.robustness.vocabulary import QUIET, Bad, Kind, Take
from zrt.errors import ArgumentError, DTypeError, ProviderError
from zrt.providers import known

# Mistakes with the CPU execution provider are in `bad.PROVIDERS`; these providers are missing from the library.
LACKING = [
    Bad(Kind.UNKNOWN_NAME, lambda w, full=full: [known.kind_of(full)()], ProviderError, full, "CPUExecutionProvider")
    for full in known.HOMES
    if full not in zrt.available_providers()
] + [Bad(Kind.UNKNOWN_NAME, lambda w: ["tvm"], ProviderError, "'tvm'", "has removed it")]

STRICT = [
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": 1}, DTypeError, "strict", "int 1"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": None}, DTypeError, "strict", "None"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": True, "allow": "Add"}, DTypeError, "allow", "'Add'"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": True, "allow": 5}, DTypeError, "allow", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": True, "allow": [5]}, DTypeError, "allow", "int 5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"strict": True, "allow": ["a\0"]}, ArgumentError, "allow", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: {"strict": True, "allow": ["\ud800"]}, ArgumentError, "allow", "UTF-8"),
    Bad(Kind.WRONG_VALUE, lambda w: {"allow": ["Add"]}, ArgumentError, "allow", "strict=True"),
]
if "AzureExecutionProvider" in zrt.available_providers():
    STRICT += [
        Bad(
            Kind.WRONG_VALUE,
            lambda w, more=more: {"providers": ["azure"], "strict": True, **more},
            ProviderError,
            "Add",
        )
        for more in ({}, {"allow": ["Mul"]}, {"allow": ["com.microsoft::Add"]})
    ]

LOADS: dict[str, Callable[..., object]] = {
    "Session.__init__": lambda w, **keywords: zrt.Session(w.model, QUIET, **keywords),
    "infer": lambda w, **keywords: zrt.infer(w.model, w.feeds, None, QUIET, **keywords),
    "Runtime.replicate": lambda w, **keywords: zrt.Runtime.replicate(w.model, 1, QUIET, shapes=w.shapes, **keywords),
    "DynamicRuntime.replicate": lambda w, **keywords: zrt.DynamicRuntime.replicate(w.model, 1, QUIET, **keywords),
}


TAKES: list[Take] = [
    ("Session.__init__", "lacking providers", LACKING, lambda w, bad: zrt.Session(w.model, QUIET, bad)),
    *((call, "strict", STRICT, lambda w, bad, do=do: do(w, **bad)) for call, do in LOADS.items()),
]

APPLIES = {"lacking providers": (LACKING, {Kind.UNKNOWN_NAME})}
