"""Custom operators: declarations, calls of their contexts, models that use them."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import zrt
from tests.custom_ops.support import DOMAIN, ONE, Op, X, build, load
from tests.robustness.vocabulary import Bad, Kind, closed, wrong_types
from zrt.custom_ops import Attribute, CFunction, Input, KernelContext, KernelInfo, Output, ShapeContext
from zrt.custom_ops import Op as Standard
from zrt.errors import ArgumentError, CallbackError, DTypeError, InvalidGraphError, ProviderError, UnsupportedError

F = np.float32


def declared(**fields: Any) -> Op:
    """An operator with these class attributes."""
    kind = type("Declared", (Op,), fields)
    op: Op = kind()
    return op


NAME = [
    *wrong_types("name", 5, None),
    Bad(Kind.WRONG_VALUE, lambda w: "a\0b", "name", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: "\ud800", "name", "UTF-8"),
]

OPS = [
    Bad(Kind.WRONG_TYPE, lambda w: Op(), "ops", "Op"), Bad(Kind.WRONG_TYPE, lambda w: [Op], "ops", "not an instance"),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "ops", "5"), *wrong_types("ops", "Op", None),
    Bad(Kind.WRONG_VALUE, lambda w: [Op(), Op()], "'Op'", "twice"),
]  # fmt: skip

DECLARED = [
    Bad(kind, lambda w, field=field, value=value: [declared(**{field: value})], *words, error=error)
    for kind, field, value, error, words in (
        (Kind.WRONG_TYPE, "name", 5, DTypeError, ["Declared.name"]),
        (Kind.WRONG_VALUE, "name", "a\0", ArgumentError, ["Declared.name"]),
        (Kind.WRONG_TYPE, "inputs", 5, DTypeError, ["input"]),
        (Kind.WRONG_DTYPE, "inputs", ("float33",), DTypeError, ["float33"]),
        (Kind.WRONG_DTYPE, "inputs", ("complex64",), UnsupportedError, ["input 0", "COMPLEX64"]),
        (Kind.WRONG_TYPE, "inputs", (Output(),), DTypeError, ["input 0", "Output"]),
        (Kind.WRONG_TYPE, "inputs", (Input(optional=1),), DTypeError, ["input 0", "optional"]),
        (Kind.NEGATIVE, "inputs", (Input(variadic=True, least=-1),), ArgumentError, ["input 0", "least"]),
        (Kind.HUGE, "inputs", (Input(variadic=True, least=2**31),), ArgumentError, ["input 0", "least"]),
        (Kind.UNKNOWN_NAME, "inputs", (Input(memory="MOON"),), ArgumentError, ["input 0", "MOON"]),
        (Kind.WRONG_VALUE, "outputs", (), ArgumentError, ["no outputs"]),
        (Kind.WRONG_VALUE, "outputs", (None,), ArgumentError, ["any type"]),
        (Kind.WRONG_TYPE, "attributes", ["a"], DTypeError, ["attributes", "list"]),
        (Kind.WRONG_TYPE, "attributes", {"a": dict}, DTypeError, ["attribute 'a'"]),
        (Kind.WRONG_TYPE, "attributes", {5: int}, DTypeError, ["attribute"]),
        (Kind.WRONG_VALUE, "since_version", 0, ArgumentError, ["since_version"]),
        (Kind.HUGE, "end_version", 2**31, ArgumentError, ["end_version"]),
        (Kind.UNKNOWN_NAME, "provider", "Moon", ProviderError, ["Moon"]),
        (Kind.WRONG_TYPE, "serialize", "yes", DTypeError, ["serialize"]),
        (Kind.WRONG_VALUE, "inplace", {0: 1}, ArgumentError, ["inplace", "output 1"]),
        (Kind.WRONG_TYPE, "aliases", [0], DTypeError, ["aliases"]),
        (Kind.NEGATIVE, "aliases", {-1: 0}, ArgumentError, ["aliases", "-1"]),
        (Kind.WRONG_TYPE, "attributes", {"n": Attribute(int, "oops")}, DTypeError, ["'n'", "default", "oops", "int"]),
        (
            Kind.WRONG_TYPE,
            "attributes",
            {"n": Attribute(list[str], "oops")},
            DTypeError,
            ["'n'", "default", "list[str]"],
        ),
        (Kind.WRONG_TYPE, "attributes", {"n": Attribute(list[float], [1, "a"])}, DTypeError, ["'n'", "list[float]"]),
        (Kind.WRONG_TYPE, "attributes", {"n": Attribute(np.ndarray, [1])}, DTypeError, ["'n'", "numpy.ndarray"]),
        (Kind.WRONG_TYPE, "function", print, DTypeError, ["function"]),
        (Kind.WRONG_VALUE, "function", CFunction(0), ArgumentError, ["function.compute"]),
    )
]

DOMAINS = [
    Bad(Kind.WRONG_TYPE, lambda w: zrt.CustomOpDomain("d", [Op()]), "custom_ops", "a list of CustomOpDomains"),
    Bad(Kind.WRONG_TYPE, lambda w: [Op()], "custom_ops", "Op"),
    *wrong_types("custom_ops", 5, None),
    Bad(Kind.WRONG_TYPE, lambda w: np.array([zrt.CustomOpDomain("d", [Op()])]), "custom_ops", "ndarray"),
    Bad(Kind.WRONG_VALUE, lambda w: [zrt.CustomOpDomain("d", [Op()])] * 2, "custom_ops", "'d'", "twice"),
    Bad(Kind.CLOSED, lambda w: [closed(zrt.CustomOpDomain("d", [Op()]))], "CustomOpDomain is closed"),
]

LIBRARIES = [
    *wrong_types("custom_op_libraries", "a.so", 5),
    Bad(Kind.WRONG_TYPE, lambda w: [5], "custom_op_libraries", "5"),
    Bad(Kind.MISSING_FILE, lambda w: [w.folder / "absent.so"], "custom_op_libraries", "absent.so", error=ArgumentError),
    Bad(Kind.DIRECTORY, lambda w: [w.folder], "custom_op_libraries", "not a file", error=ArgumentError),
    Bad(Kind.EMPTY, lambda w: [w.file("empty.so", b"")], "custom_op_libraries", "empty.so", error=ArgumentError),
    Bad(Kind.WRONG_VALUE, lambda w: ["a\0.so"], "custom_op_libraries", "NUL"),
]


class Doing(Op):
    """Calls the function of a row in `create`, `compute` or `infer_shapes`."""

    attributes: ClassVar = {"n": Attribute(int, 1)}

    def __init__(self, work: Callable[[Any], object], where: str) -> None:
        self.doing = work
        self.where = where

    def create(self, info: KernelInfo) -> None:
        if self.where == "create":
            self.doing(info)

    def work(self, context: KernelContext) -> None:
        if self.where == "compute":
            self.doing(context)

    def infer_shapes(self, context: ShapeContext) -> None:
        if self.where == "infer":
            self.doing(context)


class Keeping:
    """Holds an object of a call after the call."""

    kept: Any = None


def keep(item: Any) -> None:
    Keeping.kept = item


ADD: dict[str, Any] = {"version": 14, "types": {"T": F}}

IN_COMPUTE = [
    Bad(kind, lambda w, work=work: work, *words, error=CallbackError)
    for kind, work, words in (
        (Kind.HUGE, lambda c: c.output(9, (1,)), ["no output 9"]),
        (Kind.NEGATIVE, lambda c: c.output(-1, (1,)), ["-1"]),
        (Kind.NEGATIVE, lambda c: c.output(0, (-1,)), ["output 0"]),
        (Kind.HUGE, lambda c: c.output(0, (2**70,)), ["output 0"]),
        (Kind.WRONG_TYPE, lambda c: c.output(0, None), ["output 0"]),
        (Kind.WRONG_TYPE, lambda c: c.output("y", (1,)), ["output"]),
        (Kind.WRONG_SHAPE, lambda c: c.output(0, (5,)), ["'y'", "[5]"]),
        (Kind.WRONG_TYPE, lambda c: c.parallel_for(5, 1), ["function"]),
        (Kind.NEGATIVE, lambda c: c.parallel_for(print, -1), ["count"]),
        (Kind.HUGE, lambda c: c.parallel_for(print, 2**63), ["count"]),
        (Kind.WRONG_TYPE, lambda c: c.allocator("Cpu"), ["memory"]),
        (Kind.UNKNOWN_NAME, lambda c: c.allocator(zrt.MemoryInfo.cuda()), ["Cuda"]),
        (Kind.WRONG_DTYPE, lambda c: c.scratch(4, str), ["scratch"]),
        (Kind.NEGATIVE, lambda c: c.scratch(-4), ["scratch"]),
        (Kind.HUGE, lambda c: c.scratch(2**60), ["AllocationError", str(2**60)]),
        (Kind.UNKNOWN_NAME, lambda c: c.logger.log("LOUD", "x"), ["LOUD"]),
        (Kind.WRONG_TYPE, lambda c: c.logger.log("INFO", 5), ["message"]),
        (Kind.WRONG_VALUE, lambda c: c.resource(1, 1), ["resource 1"]),
        (Kind.WRONG_VALUE, lambda c: keep(c.inputs[0]), ["'x'", "keep a copy"]),
        (Kind.WRONG_VALUE, lambda c: keep(c.inputs[0][1:]), ["'x'", "keep a copy"]),
        (Kind.CLOSED, lambda c: c.info.constant_input(0), ["KernelInfo is valid only"]),
        (Kind.CLOSED, lambda c: Standard(c.info, "Relu", [F], [F], **ADD), ["KernelInfo is valid only"]),
    )
]

IN_CREATE = [
    Bad(kind, lambda w, work=work: work, *words, error=CallbackError)
    for kind, work, words in (
        (Kind.HUGE, lambda i: i.constant_input(5), ["no input 5"]),
        (Kind.NEGATIVE, lambda i: i.constant_input(-1), ["-1"]),
        (Kind.WRONG_TYPE, lambda i: i.constant_input("x"), ["input"]),
        (Kind.UNKNOWN_NAME, lambda i: i.allocator("MOON"), ["MOON"]),
        (Kind.UNKNOWN_NAME, lambda i: i.attributes["q"], ["'q'"]),
        (Kind.UNKNOWN_NAME, lambda i: Standard(i, "Nonesuch", [F], [F], **ADD), ["Nonesuch"]),
        (Kind.WRONG_VALUE, lambda i: Standard(i, "Add", [F], [F], **ADD), ["Add"]),
        (Kind.WRONG_TYPE, lambda i: Standard(5, "Add", [F], [F], **ADD), ["KernelInfo"]),
        (Kind.WRONG_DTYPE, lambda i: Standard(i, "Add", [F, "qq"], [F], **ADD), ["'qq'"]),
    )
]

IN_INFER = [
    Bad(kind, lambda w, work=work: work, *words, error=CallbackError)
    for kind, work, words in (
        (Kind.HUGE, lambda c: c.input(5), ["no input 5"]),
        (Kind.UNKNOWN_NAME, lambda c: c.attribute("q"), ["'q'"]),
        (Kind.HUGE, lambda c: c.set_output(5, (1,), F), ["first 1 outputs"]),
        (Kind.NEGATIVE, lambda c: c.set_output(0, (-2,), F), ["output 0", "-2"]),
        (Kind.WRONG_DTYPE, lambda c: c.set_output(0, (2,), "qq"), ["'qq'"]),
        (Kind.WRONG_TYPE, lambda c: c.set_output(0, 2, F), ["output 0", "int"]),
    )
]


def run(work: Any, where: str) -> object:
    return load(ONE, Doing(work, where)).run([X])


# Models that use the operator wrongly.
USES = [
    Bad(Kind.UNKNOWN_NAME, lambda w: "(float[n] x) => (float[n] y) { y = test.ops.Nonesuch(x) }", "Nonesuch",
        error=zrt.Error),
    Bad(Kind.WRONG_VALUE, lambda w: "(float[n] x) => (float[n] y) { y = test.ops.Op(x, x) }", "Op",
        error=InvalidGraphError),
    Bad(Kind.WRONG_DTYPE, lambda w: "(double[n] x) => (float[n] y) { y = test.ops.Op(x) }", "Op", "double",
        error=InvalidGraphError),
    Bad(Kind.WRONG_TYPE, lambda w: '(float[n] x) => (float[n] y) { y = test.ops.Op<n = "1">(x) }', "attribute 'n'",
        "str", "int", error=CallbackError),
]  # fmt: skip

TAKES = [
    ("Session.__init__", "uses", USES, lambda w, text: load(text, Doing(print, "nowhere"))),
    ("CustomOpDomain.__init__", "name", NAME, lambda w, bad: zrt.CustomOpDomain(bad, [Op()])),
    ("CustomOpDomain.__init__", "ops", OPS, lambda w, bad: zrt.CustomOpDomain("d", bad)),
    ("CustomOpDomain.__init__", "an operator", DECLARED, lambda w, bad: zrt.CustomOpDomain("d", bad)),
    ("SessionOptions.handle", "custom_ops", DOMAINS, lambda w, bad: zrt.SessionOptions(custom_ops=bad).handle()),
    ("SessionOptions.handle", "custom_op_libraries", LIBRARIES,
     lambda w, bad: zrt.SessionOptions(custom_op_libraries=bad).handle()),
    ("Session.run", "compute", IN_COMPUTE, lambda w, bad: run(bad, "compute")),
    ("Session.__init__", "create", IN_CREATE, lambda w, bad: run(bad, "create")),
    ("Session.__init__", "infer_shapes", IN_INFER, lambda w, bad: run(bad, "infer")),
]  # fmt: skip

SINGLE = {"Session.__init__": [Bad(Kind.UNKNOWN_NAME, lambda w: zrt.Session(build(ONE)), DOMAIN, error=zrt.Error)]}


CLOSABLE = {"CustomOpDomain": lambda w: zrt.CustomOpDomain("d", [Op()])}

CANNOT_FAIL = {
    "a subclass's own, called by ONNX Runtime: see the rows of Session": """
        CustomOp.create CustomOp.compute CustomOp.infer_shapes
    """
}
