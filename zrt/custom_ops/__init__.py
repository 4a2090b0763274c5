"""Custom operators: declared in Python, computed in Python or in C."""

from zrt.custom_ops.context import DeviceTensor, KernelContext
from zrt.custom_ops.declare import Attribute, CFunction, Input, Output
from zrt.custom_ops.domain import CustomOpDomain
from zrt.custom_ops.info import KernelInfo, OpLogger
from zrt.custom_ops.invoke import Op
from zrt.custom_ops.op import CustomOp
from zrt.custom_ops.shapes import ShapeContext

__all__ = [
    "Attribute",
    "CFunction",
    "CustomOp",
    "CustomOpDomain",
    "DeviceTensor",
    "Input",
    "KernelContext",
    "KernelInfo",
    "Op",
    "OpLogger",
    "Output",
    "ShapeContext",
]
