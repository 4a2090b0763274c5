"""`CustomOp`: the class that a user's operator derives from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from zrt._common.arguments import INT32_MAX
from zrt._common.public import public
from zrt.custom_ops.context import KernelContext
from zrt.custom_ops.declare import CFunction
from zrt.custom_ops.info import KernelInfo
from zrt.custom_ops.shapes import ShapeContext


@public
class CustomOp:
    """An operator of your own: a subclass says what it is and computes it.

    What it is stands in the class attributes below. An instance goes into a `CustomOpDomain`; every node of a model
    that calls it has a kernel, made when the model is loaded.

    ONNX Runtime calls one kernel in several threads when a session runs in several: `compute` must bear that, or
    `serialize` be True.
    """

    name: ClassVar[str] = ""
    """The operator's name in models; without one, the class's."""
    inputs: ClassVar[Sequence[Any]] = ()
    """An `Input` for each, or just its element type."""
    outputs: ClassVar[Sequence[Any]] = ()
    """An `Output` for each, or just its element type."""
    attributes: ClassVar[Mapping[str, Any]] = {}
    """An `Attribute` for each name, or just its kind."""
    since_version: ClassVar[int] = 1
    """The first version of the domain's opset in which it is as it is."""
    end_version: ClassVar[int] = INT32_MAX
    """The last such version. ONNX Runtime 1.27 keeps it and lets models of later ones pass."""
    provider: ClassVar[str] = "CPU"
    """The execution provider that runs it, by its short or full name."""
    inplace: ClassVar[Mapping[int, int]] = {}
    """Inputs whose memory an output of the same type may take over: {input: output}. `compute` may then find both at
    one place."""
    aliases: ClassVar[Mapping[int, int]] = {}
    """Inputs that an output of the same type is, in another shape at most: {input: output}. Where ONNX Runtime can, it
    is their very memory; `compute` asks for the output, and has nothing to copy."""
    serialize: ClassVar[bool] = False
    """Whether only one thread at a time may be in `compute`, in all kernels and sessions of its domain."""
    function: ClassVar[CFunction | None] = None
    """`compute` in C, in place of the method."""

    def create(self, info: KernelInfo) -> Any:
        """Called for each node while a model is loaded; what it returns is that kernel's `KernelContext.state`."""
        return None

    def compute(self, context: KernelContext) -> None:
        """Computes the outputs from the inputs; an exception ends the run, which then raises `CallbackError`.

        It travels as a status of ONNX Runtime's, ``OrtApi::CreateStatus``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    def infer_shapes(self, context: ShapeContext) -> None:
        """Says the outputs' shapes and types while a model is loaded; without it they are known at runs alone."""
        raise NotImplementedError
