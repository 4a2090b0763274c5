"""`Signature`: the tensors that a served model takes and gives, in the protocol's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zrt.errors import UnsupportedError
from zrt.session.session import Session
from zrt.types import ElementType
from zrt.values.type_info import ValueInfo, format_type

DATATYPES = {
    ElementType.BOOL: "BOOL",
    ElementType.UINT8: "UINT8",
    ElementType.UINT16: "UINT16",
    ElementType.UINT32: "UINT32",
    ElementType.UINT64: "UINT64",
    ElementType.INT8: "INT8",
    ElementType.INT16: "INT16",
    ElementType.INT32: "INT32",
    ElementType.INT64: "INT64",
    ElementType.FLOAT16: "FP16",
    ElementType.BFLOAT16: "BF16",
    ElementType.FLOAT: "FP32",
    ElementType.DOUBLE: "FP64",
    ElementType.STRING: "BYTES",
}
"""The protocol's name of each element type that it has."""

PLATFORM = "onnxruntime_onnx"
"""The protocol's name of the models' format."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model that requests name, in the model's order."""

    inputs: dict[str, ValueInfo]
    outputs: dict[str, ValueInfo]
    open_batch: bool
    """Whether the first axis is open in every input and output, so that requests may share a run."""
    lanes: bool
    """Whether lanes can run the model: they take no strings."""

    @classmethod
    def of(cls, session: Session, name: str) -> Signature:
        """The signature of a session; `name` is the model's in messages.

        An output that the protocol cannot carry (a sequence, a map) is left out. An input of that kind, or a model
        without any other output, raises `UnsupportedError`.
        """
        for info in session.inputs:
            if not _is_served(info):
                raise UnsupportedError(
                    f"model {name!r}: input {info.name!r} is {format_type(info)}, which the Open Inference Protocol "
                    "does not have"
                )
        outputs = {info.name: info for info in session.outputs if _is_served(info)}
        if not outputs:
            raise UnsupportedError(f"model {name!r} has no output that the Open Inference Protocol has")
        inputs = {info.name: info for info in session.inputs}
        infos = [*inputs.values(), *outputs.values()]
        return cls(
            inputs,
            outputs,
            bool(inputs) and all(info.shape and not isinstance(info.shape[0], int) for info in infos),
            all(info.element_type is not ElementType.STRING for info in inputs.values()),
        )

    def metadata(self, name: str, versions: list[str]) -> dict[str, Any]:
        """The document of the model's metadata; -1 stands for an open size."""
        return {
            "name": name,
            "versions": versions,
            "platform": PLATFORM,
            "inputs": [_tensor(info) for info in self.inputs.values()],
            "outputs": [_tensor(info) for info in self.outputs.values()],
        }

    def configuration(self, batched: bool) -> dict[str, Any]:
        """The tensors in the words of Triton's model configuration, with `batched` without their first axis."""
        skipped = 1 if batched else 0
        return {
            key: [
                {
                    "name": tensor["name"],
                    # Triton's configurations have another name for texts.
                    "data_type": "TYPE_" + tensor["datatype"].replace("BYTES", "STRING"),
                    "dims": tensor["shape"][skipped:],
                }
                for tensor in map(_tensor, infos.values())
            ]
            for key, infos in (("input", self.inputs), ("output", self.outputs))
        }


def _is_served(info: ValueInfo) -> bool:
    return info.is_tensor and info.element_type in DATATYPES


def _tensor(info: ValueInfo) -> dict[str, Any]:
    # The protocol has no word for an unknown rank.
    shape = [-1] if info.shape is None else [dim if isinstance(dim, int) else -1 for dim in info.shape]
    return {"name": info.name, "datatype": DATATYPES[info.element_type], "shape": shape}
