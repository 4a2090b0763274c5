"""Shared by the tests of DLPack: tensors of an invented library, with every field free to choose; lifetimes."""

import ctypes
import weakref
from typing import Any

import numpy as np

import zrt


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def read(capsule: Any) -> Versioned | Plain:
    """The struct in a capsule that no library has consumed yet."""
    if "versioned" in repr(capsule):
        return Versioned.from_address(capsule_pointer(capsule, b"dltensor_versioned"))
    return Plain.from_address(capsule_pointer(capsule, b"dltensor"))


# Keep what was exported: the garbage collector may free a tensor's exporter before the value that calls its deleter.
EXPORTED: list[Any] = []


class Foreign:
    """A float32 tensor of shape (2, 3) over `memory`, but for the `fields` given; `deleted` counts its deleter's calls.

    With `version` None it speaks the DLPack before 1.0.
    """

    def __init__(
        self,
        shape: tuple[int, ...] | None = (2, 3),
        strides: tuple[int, ...] | None = None,
        version: tuple[int, int] | None = (1, 1),
        flags: int = 0,
        **fields: Any,
    ) -> None:
        self.memory = np.arange(64, dtype=np.float32)
        self.deleted = 0
        self.asked: dict[str, Any] = {}
        self.dims = None if shape is None else (ctypes.c_int64 * len(shape))(*shape)
        self.steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.deleter = DELETER(self.delete)
        tensor = Tensor(self.memory.ctypes.data, 1, 0, len(shape or ()), 2, 32, 1, self.dims, self.steps, 0)
        for name, value in fields.items():
            setattr(tensor, name, value)
        self.version = version
        if version is None:
            self.managed: Plain | Versioned = Plain(tensor, None, self.deleter)
        else:
            self.managed = Versioned(*version, None, self.deleter, flags, tensor)

    def delete(self, _: int) -> None:
        self.deleted += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.managed.tensor.device_type, self.managed.tensor.device_id

    def __dlpack__(self, **asked: Any) -> Any:
        if self.version is None and asked.keys() - {"stream"}:
            raise TypeError("unexpected keyword")
        self.asked = asked
        EXPORTED.append(self)
        name = b"dltensor" if self.version is None else b"dltensor_versioned"
        # PyCapsule_New borrows the name: a literal outlives the capsule.
        return capsule_new(ctypes.addressof(self.managed), name, None)


class Watched(np.ndarray):
    """An array that accepts weak references."""


def watched() -> tuple[zrt.Value, weakref.ref[Watched]]:
    """A value, and a weak reference that is dead once its memory is free."""
    array = np.zeros(1000, np.float32).view(Watched)
    return zrt.Value.from_array(array), weakref.ref(array)
