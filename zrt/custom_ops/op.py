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
    """The base class of custom operators.

    A subclass declares the operator in the class attributes below and computes it in `compute`. An instance goes into
    a `CustomOpDomain`. Each node of a model that uses the operator gets a kernel when the model is loaded.

    When a session runs in several threads, ONNX Runtime calls one kernel in several threads at once: `compute` must
    be thread-safe, or `serialize` be True.
    """

    name: ClassVar[str] = ""
    """The operator's name in models; by default the name of the class."""
    inputs: ClassVar[Sequence[Any]] = ()
    """An `Input` for each, or just its element type."""
    outputs: ClassVar[Sequence[Any]] = ()
    """An `Output` for each, or just its element type."""
    attributes: ClassVar[Mapping[str, Any]] = {}
    """An `Attribute` for each name, or just its kind."""
    since_version: ClassVar[int] = 1
    """The first version of the domain's opset that has this definition of the operator."""
    end_version: ClassVar[int] = INT32_MAX
    """The last such version. ONNX Runtime stores it, but, up to 1.32, does not refuse models of later versions."""
    provider: ClassVar[str] = "CPU"
    """The execution provider that runs it, by its short or full name."""
    inplace: ClassVar[Mapping[int, int]] = {}
    """Inputs whose memory ONNX Runtime may reuse for an output of the same type: {input: output}. In `compute` both
    may then share their memory."""
    aliases: ClassVar[Mapping[int, int]] = {}
    """Outputs with the content of an input of the same type, possibly in another shape: {input: output}. Where
    possible the output shares the input's memory, else zrt copies it, or raises `UnsupportedError` on a device;
    `compute` only asks for the output. Not with a `function`."""
    serialize: ClassVar[bool] = False
    """Whether `compute` runs in one thread at a time, across all kernels and sessions of its domain. It then must not
    run a session with the operator in `parallel_for` or with ``execution_mode="PARALLEL"``: it would wait for ever."""
    function: ClassVar[CFunction | None] = None
    """A function in C that is called instead of `compute`."""

    def create(self, info: KernelInfo) -> Any:
        """Called for each node while a model is loaded; its result becomes the kernel's `KernelContext.state`."""
        return None

    def compute(self, context: KernelContext) -> None:
        """Computes the outputs from the inputs. An exception ends the run, which raises `CallbackError`."""
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    def infer_shapes(self, context: ShapeContext) -> None:
        """Sets the outputs' shapes and types while a model is loaded; without it they are known only during runs."""
        raise NotImplementedError
