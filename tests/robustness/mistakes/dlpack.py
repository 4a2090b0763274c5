"""DLPack: objects of other libraries, valid and not."""

from collections.abc import Callable
from typing import Any

import numpy as np

import zrt
from tests.robustness.vocabulary import Bad, Kind, World, closed, f32, feeding, huge_array, wrong_types
from tests.support.capsules import Foreign
from zrt.errors import AllocationError, DLPackError, ShapeError, UnsupportedError


class Gives:
    """An object with the DLPack protocol that returns its argument, or raises it."""

    def __init__(self, thing: Any, device: Any = (1, 0)) -> None:
        self.given, self.device = thing, device

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **_: Any) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def foreign(**fields: Any) -> Callable[[World], Foreign]:
    return lambda w: Foreign(**fields)


TENSORS = [
    *wrong_types("__dlpack__", 5),
    Bad(Kind.WRONG_TYPE, lambda w: None, "NoneType"),
    Bad(Kind.WRONG_TYPE, lambda w: [1.0], "list"),
    Bad(Kind.WRONG_TYPE, lambda w: w.value().__dlpack__(), "PyCapsule"),
    Bad(Kind.WRONG_TYPE, lambda w: Gives(None), "capsule", "None", error=DLPackError),
    Bad(Kind.WRONG_TYPE, lambda w: Gives(5), "capsule", "5", error=DLPackError),
    Bad(Kind.WRONG_TYPE, lambda w: Gives(w.value().__dlpack__(), device=None), "__dlpack_device__"),
    Bad(Kind.WRONG_VALUE, lambda w: Gives(BufferError("mine alone")), "does not export it", "mine alone",
        error=DLPackError),
    Bad(Kind.WRONG_VALUE, lambda w: Gives(TypeError("no such keyword")), "no such keyword", error=DLPackError),
    Bad(Kind.WRONG_VALUE, foreign(device_type=8), "8", error=DLPackError),
    Bad(Kind.WRONG_VALUE, foreign(version=(2, 0)), "2.0", error=DLPackError),
    Bad(Kind.WRONG_VALUE, foreign(data=None), "24 bytes", error=DLPackError),
    Bad(Kind.WRONG_DTYPE, foreign(code=5, bits=64), "COMPLEX64", error=UnsupportedError),
    Bad(Kind.WRONG_DTYPE, foreign(bits=80), "80 bits"),
    Bad(Kind.WRONG_DTYPE, lambda w: np.zeros(2, "M8[s]"), "ndarray", error=DLPackError),
    Bad(Kind.WRONG_DTYPE, lambda w: np.array(["a"], object), "ndarray", error=DLPackError),
    Bad(Kind.WRONG_RANK, foreign(ndim=-1), "-1", error=DLPackError),
    Bad(Kind.WRONG_RANK, foreign(ndim=2**30), str(2**30), error=DLPackError),
    Bad(Kind.NEGATIVE, foreign(shape=(-2, 3)), "-2", error=ShapeError),
    Bad(Kind.HUGE, foreign(shape=(2**62, 2**62)), "bytes", error=DLPackError),
    Bad(Kind.CLOSED, lambda w: closed(w.value()), "Value is closed"),
]  # fmt: skip

WITHOUT_COPY = [*TENSORS, Bad(Kind.HUGE, lambda w: huge_array(), "C-contiguous", error=DLPackError)]

TAKES = [
    ("from_dlpack", "tensor", WITHOUT_COPY, lambda w, bad: zrt.from_dlpack(bad)),
    ("from_dlpack", "tensor without a copy", WITHOUT_COPY, lambda w, bad: zrt.from_dlpack(bad, copy=False)),
    ("from_dlpack", "tensor with a copy", TENSORS, lambda w, bad: zrt.from_dlpack(bad, copy=True)),
    (
        "Session.run",
        "another library's tensors",
        [
            feeding(Kind.WRONG_DTYPE, foreign(shape=(2, 4), bits=80), "80 bits"),
            feeding(Kind.WRONG_VALUE, foreign(shape=(2, 4), strides=(1, 2)), "C-contiguous", error=DLPackError),
            feeding(Kind.WRONG_VALUE, lambda w: Gives(BufferError("mine")), "mine", error=DLPackError),
            feeding(Kind.WRONG_TYPE, lambda w: Gives(5), "capsule", error=DLPackError),
            feeding(Kind.WRONG_TYPE, lambda w: Gives(5, device=7), "__dlpack_device__"),
        ],
        lambda w, bad: w.session.run(bad),
    ),
]

SINGLE = {
    "from_dlpack": [
        Bad(Kind.WRONG_TYPE, lambda w: zrt.from_dlpack(f32(2), copy="no"), "copy", "'no'"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.from_dlpack(f32(2), device="cpu"), "device", "MemoryInfo"),
        Bad(Kind.WRONG_TYPE, lambda w: zrt.from_dlpack(f32(2), stream="0"), "stream"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.from_dlpack(f32(2), stream=7), "stream", "7"),
        Bad(Kind.WRONG_VALUE, lambda w: zrt.from_dlpack(f32(2), device=zrt.MemoryInfo.cuda()), "ndarray",
            error=DLPackError),
        Bad(Kind.WRONG_VALUE,
            lambda w: zrt.from_dlpack(f32(2), device=zrt.MemoryInfo("Nowhere", device_type=zrt.types.DeviceType.GPU)),
            "'Nowhere'", error=DLPackError),
        Bad(Kind.HUGE, lambda w: zrt.from_dlpack(huge_array(), copy=True), "tensor", error=AllocationError),
        *(
            Bad(Kind.HUGE, lambda w, tensor=tensor: zrt.from_dlpack(tensor(w), copy=True), "tensor", error=DLPackError)
            for tensor in (foreign(shape=(2,), strides=(1 << 62,)), foreign(shape=(0, 1 << 62)))
        ),
    ]
}  # fmt: skip
