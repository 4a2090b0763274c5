"""DLPack: objects of other libraries, valid and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.vocabulary import Bad, Kind, Single, Take, World, closed, f32, feeding, huge_array
from tests.support.capsules import Foreign
from zrt.errors import (
    AllocationError,
    ArgumentError,
    ClosedError,
    DLPackError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)


class Gives:
    """An object with the DLPack protocol that returns its argument, or raises it."""

    def __init__(self, given: Any, device: Any = (1, 0)) -> None:
        self.given, self.device = given, device

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **_: Any) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def foreign(**fields: Any) -> Callable[[World], Foreign]:
    return lambda w: Foreign(**fields)


TENSORS = [
    Bad(Kind.WRONG_TYPE, lambda w: 5, DTypeError, "__dlpack__", "int"),
    Bad(Kind.WRONG_TYPE, lambda w: None, DTypeError, "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: [1.0], DTypeError, "list"),
    Bad(Kind.WRONG_TYPE, lambda w: w.value().__dlpack__(), DTypeError, "PyCapsule"),
    Bad(Kind.WRONG_TYPE, lambda w: Gives(None), DLPackError, "capsule", "None"),
    Bad(Kind.WRONG_TYPE, lambda w: Gives(5), DLPackError, "capsule", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: Gives(w.value().__dlpack__(), device=None), DTypeError, "__dlpack_device__"),
    Bad(Kind.WRONG_VALUE, lambda w: Gives(BufferError("mine alone")), DLPackError, "does not export it", "mine alone"),
    Bad(Kind.WRONG_VALUE, lambda w: Gives(TypeError("no such keyword")), DLPackError, "no such keyword"),
    Bad(Kind.WRONG_VALUE, foreign(device_type=8), DLPackError, "8"),
    Bad(Kind.WRONG_VALUE, foreign(version=(2, 0)), DLPackError, "2.0"),
    Bad(Kind.WRONG_VALUE, foreign(data=None), DLPackError, "24 bytes"),
    Bad(Kind.WRONG_DTYPE, foreign(code=5, bits=64), UnsupportedError, "COMPLEX64"),
    Bad(Kind.WRONG_DTYPE, foreign(bits=80), DTypeError, "80 bits"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(2, "M8[s]"), DLPackError, "ndarray"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.array(["a"], object), DLPackError, "ndarray"),
    Bad(Kind.WRONG_RANK, foreign(ndim=-1), DLPackError, "-1"),
    Bad(Kind.WRONG_RANK, foreign(ndim=2**30), DLPackError, str(2**30)),
    Bad(Kind.NEGATIVE, foreign(shape=(-2, 3)), ShapeError, "-2"),
    Bad(Kind.HUGE, foreign(shape=(2**62, 2**62)), DLPackError, "bytes"),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), ClosedError, "Value is closed"),
]

WITHOUT_COPY = [*TENSORS, Bad(Kind.HUGE, lambda w: huge_array(), DLPackError, "C-contiguous")]

TAKES: list[Take] = [
    ("from_dlpack", "tensor", WITHOUT_COPY, lambda w, bad: zrt.from_dlpack(bad)),
    ("from_dlpack", "tensor without a copy", WITHOUT_COPY, lambda w, bad: zrt.from_dlpack(bad, copy=False)),
    ("from_dlpack", "tensor with a copy", TENSORS, lambda w, bad: zrt.from_dlpack(bad, copy=True)),
    (
        "Session.run",
        "another library's tensors",
        [
            feeding(Kind.WRONG_DTYPE, foreign(shape=(2, 4), bits=80), DTypeError, "80 bits"),
            feeding(Kind.WRONG_VALUE, foreign(shape=(2, 4), strides=(1, 2)), DLPackError, "C-contiguous"),
            feeding(Kind.WRONG_VALUE, lambda w: Gives(BufferError("mine")), DLPackError, "mine"),
            feeding(Kind.WRONG_TYPE, lambda w: Gives(5), DLPackError, "capsule"),
            feeding(Kind.WRONG_TYPE, lambda w: Gives(5, device=7), DTypeError, "__dlpack_device__"),
        ],
        lambda w, bad: w.session.run(bad),
    ),
]

SINGLE: list[Single] = [
    ("from_dlpack", Kind.WRONG_TYPE, lambda w: zrt.from_dlpack(f32(2), copy="no"), DTypeError, ("copy", "'no'")),
    (
        "from_dlpack",
        Kind.WRONG_TYPE,
        lambda w: zrt.from_dlpack(f32(2), device="cpu"),
        DTypeError,
        ("device", "MemoryInfo"),
    ),
    ("from_dlpack", Kind.WRONG_TYPE, lambda w: zrt.from_dlpack(f32(2), stream="0"), DTypeError, ("stream",)),
    ("from_dlpack", Kind.WRONG_VALUE, lambda w: zrt.from_dlpack(f32(2), stream=7), ArgumentError, ("stream", "7")),
    (
        "from_dlpack",
        Kind.WRONG_VALUE,
        lambda w: zrt.from_dlpack(f32(2), device=zrt.MemoryInfo.cuda()),
        DLPackError,
        ("ndarray",),
    ),
    (
        "from_dlpack",
        Kind.WRONG_VALUE,
        lambda w: zrt.from_dlpack(f32(2), device=zrt.MemoryInfo("Nowhere", device_type=zrt.types.DeviceType.GPU)),
        DLPackError,
        ("'Nowhere'",),
    ),
    ("from_dlpack", Kind.HUGE, lambda w: zrt.from_dlpack(huge_array(), copy=True), AllocationError, ("tensor",)),
]

APPLIES: dict[str, tuple[list[Bad], set[Kind]]] = {
    "DLPack": (TENSORS, {Kind.WRONG_DTYPE, Kind.WRONG_RANK, Kind.NEGATIVE, Kind.HUGE, Kind.CLOSED}),
}
