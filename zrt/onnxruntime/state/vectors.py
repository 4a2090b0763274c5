"""`OrtValueVector`: a list of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from zrt.onnxruntime.state.arguments import ANY, INT64, UINT64, instance, sequence, take
from zrt.onnxruntime.state.devices import NotPickled, OrtDevice
from zrt.onnxruntime.state.values import OrtValue, numpy_type, over_address
from zrt.types import ElementType

_LIST = sequence(ANY)
_SHAPE = sequence(INT64)
_DEVICE = instance(OrtDevice)


class OrtValueVector(NotPickled):
    """A list of values."""

    __slots__ = ("_values",)

    def __init__(self, *arguments: Any) -> None:
        take("__init__", {"": ()}, arguments)
        self._values: list[OrtValue] = []

    @classmethod
    def _of(cls, values: list[OrtValue]) -> OrtValueVector:
        made = cls.__new__(cls)
        made._values = values
        return made

    def push_back(self, *arguments: Any, **keywords: Any) -> None:
        """Appends an `OrtValue`, or a value from a DLPack capsule and whether its uint8 is bool."""
        if len(arguments) == 1 and isinstance(arguments[0], OrtValue) and not keywords:
            self._values.append(arguments[0])
        else:
            self._push_dlpack(*arguments, **keywords)

    def _push_dlpack(self, dlpack_tensor: Any, is_bool_tensor: bool = False) -> None:
        self._values.append(OrtValue.from_dlpack(dlpack_tensor, is_bool_tensor))

    def push_back_batch(self, *arguments: Any) -> None:
        """Appends tensors over the memory of others: the owners, addresses, numpy types, shapes and devices."""
        forms = {"": (_LIST, sequence(INT64), _LIST, sequence(_SHAPE), sequence(_DEVICE))}
        _, (owners, addresses, types, shapes, devices) = take("push_back_batch", forms, arguments)
        if not len(owners) == len(addresses) == len(types) == len(shapes) == len(devices):
            raise IndexError("vector::_M_range_check: the sequences have different lengths")
        made = [
            over_address(address, shape, numpy_type(given), device, owner)
            for owner, address, given, shape, device in zip(owners, addresses, types, shapes, devices, strict=True)
        ]
        self._values.extend(made)

    def reserve(self, *arguments: Any) -> None:
        """Does nothing but check its argument: Python's lists grow by themselves."""
        _, (count,) = take("reserve", {"": (UINT64,)}, arguments)
        if count >= 1 << 59:
            raise ValueError("vector::reserve")

    def shrink_to_fit(self) -> None:
        """Does nothing: Python's lists shrink by themselves."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[OrtValue]:
        return iter(self._values)

    def __getitem__(self, index: Any) -> OrtValue:
        return self._at("__getitem__", index)

    def _at(self, function: str, index: Any) -> OrtValue:
        _, (place,) = take(function, {"": (UINT64,)}, (index,))
        if place >= len(self._values):
            raise IndexError(
                f"vector::_M_range_check: __n (which is {place}) >= this->size() (which is {len(self._values)})"
            )
        found: OrtValue = self._values[place]
        return found

    def bool_tensor_indices(self) -> list[int]:
        """The places of the tensors of bool, which `to_dlpacks` exports as uint8."""
        return [
            index
            for index, one in enumerate(self._values)
            if one.is_tensor() and one._to_zrt().element_type is ElementType.BOOL
        ]

    def dlpack_at(self, index: Any) -> Any:
        """The DLPack capsule of one tensor."""
        return self._at("dlpack_at", index).to_dlpack()

    def element_type_at(self, idx: Any) -> int:
        """The ONNX number of one value's element type."""
        return self._at("element_type_at", idx).element_type()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """The DLPack capsules of all tensors, each passed through `to_tensor` unless that is None."""
        if to_tensor is None:
            return [one.to_dlpack() for one in self._values]
        try:
            return [to_tensor(one.to_dlpack()) for one in self._values]
        except Exception as error:
            message = "to_tensor returned a null pointer. This may be caused by the data conversion."
            raise RuntimeError(message) from error
