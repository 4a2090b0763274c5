"""Models that use custom operators, and sessions over them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import zrt
from zrt.custom_ops import CustomOp, KernelContext
from zrt.errors import CallbackError

DOMAIN = "test.ops"


def build(text: str, version: int = 1) -> onnx.ModelProto:
    """A model from ONNX's own notation, in which the tests' operators have names like ``test.ops.Name``."""
    opsets = f'"" : 21, "{DOMAIN}" : {version}'
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> test {text}")


def one_node(op: CustomOp, inputs: Sequence[str], outputs: Sequence[str], kind: int, size: int) -> zrt.Session:
    """A session over a model whose node is `op`, with tensors [size] of that type; "" stands for an absent one."""
    ports = [
        [helper.make_tensor_value_info(name, kind, [size]) for name in dict.fromkeys(names) if name]
        for names in (inputs, outputs)
    ]
    node = helper.make_node(op.name or type(op).__name__, inputs, outputs, domain=DOMAIN)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(helper.make_graph([node], "g", *ports), opset_imports=opsets, ir_version=10)
    return zrt.Session(model, options([op]))


@contextmanager
def caused_by(kind: type[BaseException], match: str | None = None) -> Iterator[None]:
    """Expects a `CallbackError` whose cause is of that kind."""
    with pytest.raises(CallbackError, match=match) as caught:
        yield
    assert isinstance(caught.value.__cause__, kind), caught.value.__cause__


def options(ops: Iterable[CustomOp], **keywords: Any) -> zrt.SessionOptions:
    """Options of a session with these operators: single-threaded and without logging."""
    settings: dict[str, Any] = {"intra_op_num_threads": 1, "log_severity_level": "FATAL", **keywords}
    return zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain(DOMAIN, ops)], **settings)


def load(text: str, *ops: CustomOp, version: int = 1, **keywords: Any) -> zrt.Session:
    """A session over a model in ONNX's notation that uses these operators."""
    return zrt.Session(build(text, version), options(ops, **keywords))


ONE = "(float[n] x) => (float[n] y) { y = test.ops.Op(x) }"
TWO = "(float[n] x, float[n] y) => (float[n] z) { z = test.ops.Add(x, y) }"

X = np.arange(4, dtype=np.float32)


class Add(CustomOp):
    """z = x + y."""

    name = "Add"
    inputs = (np.float32, np.float32)
    outputs = (np.float32,)

    def compute(self, context: KernelContext) -> None:
        x, y = context.inputs
        np.add(x, y, out=context.output(0, x.shape))


class Op(CustomOp):
    """y = x; a test overrides `work`."""

    name = "Op"
    inputs = (np.float32,)
    outputs = (np.float32,)

    def compute(self, context: KernelContext) -> None:
        (x,) = context.inputs
        context.output(0, x.shape)[...] = x
        self.work(context)

    def work(self, context: KernelContext) -> None:
        pass
