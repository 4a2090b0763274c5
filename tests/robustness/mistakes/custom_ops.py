"""Custom operators: what they declare, what they do in their calls, the models that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import zrt
from tests.custom_ops.support import DOMAIN, ONE, Op, X, build, load
from tests.robustness.vocabulary import (
    CLOSED,
    DIRECTORY,
    EMPTY,
    HUGE,
    INSIDE,
    MISSING_FILE,
    NEGATIVE,
    UNKNOWN_NAME,
    WRONG_DTYPE,
    WRONG_SHAPE,
    WRONG_TYPE,
    WRONG_VALUE,
    Bad,
    Single,
    Take,
    World,
    closed,
)
from zrt.custom_ops import Attribute, CFunction, Input, KernelContext, KernelInfo, Output, ShapeContext
from zrt.custom_ops import Op as Standard
from zrt.errors import (
    ArgumentError,
    CallbackError,
    ClosedError,
    DTypeError,
    InvalidGraphError,
    ProviderError,
    UnsupportedError,
)

F = np.float32


def declared(**fields: Any) -> Op:
    """An operator with these class attributes."""
    kind = type("Declared", (Op,), fields)
    made: Op = kind()
    return made


NAME = [
    Bad(WRONG_TYPE, lambda w: 5, DTypeError, "name", "int"),
    Bad(WRONG_TYPE, lambda w: None, DTypeError, "name", "NoneType"),
    Bad(WRONG_VALUE, lambda w: "a\0b", ArgumentError, "name", "NUL"),
    Bad(WRONG_VALUE, lambda w: "\ud800", ArgumentError, "name", "UTF-8"),
]

OPS = [
    Bad(WRONG_TYPE, lambda w: Op(), DTypeError, "ops", "Op"),
    Bad(WRONG_TYPE, lambda w: [Op], DTypeError, "ops", "not an instance"),
    Bad(WRONG_TYPE, lambda w: [5], DTypeError, "ops", "5"),
    Bad(WRONG_TYPE, lambda w: "Op", DTypeError, "ops", "str"),
    Bad(WRONG_TYPE, lambda w: None, DTypeError, "ops", "NoneType"),
    Bad(WRONG_VALUE, lambda w: [Op(), Op()], ArgumentError, "'Op'", "twice"),
]

DECLARED = [
    Bad(kind, lambda w, field=field, value=value: [declared(**{field: value})], error, *words)
    for kind, field, value, error, words in (
        (WRONG_TYPE, "name", 5, DTypeError, ["Declared.name"]),
        (WRONG_VALUE, "name", "a\0", ArgumentError, ["Declared.name"]),
        (WRONG_TYPE, "inputs", 5, DTypeError, ["input"]),
        (WRONG_DTYPE, "inputs", ("float33",), DTypeError, ["float33"]),
        (WRONG_DTYPE, "inputs", ("complex64",), UnsupportedError, ["input 0", "COMPLEX64"]),
        (WRONG_TYPE, "inputs", (Output(),), DTypeError, ["input 0", "Output"]),
        (WRONG_TYPE, "inputs", (Input(optional=1),), DTypeError, ["input 0", "optional"]),
        (NEGATIVE, "inputs", (Input(variadic=True, least=-1),), ArgumentError, ["input 0", "least"]),
        (HUGE, "inputs", (Input(variadic=True, least=2**31),), ArgumentError, ["input 0", "least"]),
        (UNKNOWN_NAME, "inputs", (Input(memory="MOON"),), ArgumentError, ["input 0", "MOON"]),
        (WRONG_VALUE, "outputs", (), ArgumentError, ["no outputs"]),
        (WRONG_VALUE, "outputs", (None,), ArgumentError, ["any type"]),
        (WRONG_TYPE, "attributes", ["a"], DTypeError, ["attributes", "list"]),
        (WRONG_TYPE, "attributes", {"a": dict}, DTypeError, ["attribute 'a'"]),
        (WRONG_TYPE, "attributes", {5: int}, DTypeError, ["attribute"]),
        (WRONG_VALUE, "since_version", 0, ArgumentError, ["since_version"]),
        (HUGE, "end_version", 2**31, ArgumentError, ["end_version"]),
        (UNKNOWN_NAME, "provider", "Moon", ProviderError, ["Moon"]),
        (WRONG_TYPE, "serialize", "yes", DTypeError, ["serialize"]),
        (WRONG_VALUE, "inplace", {0: 1}, ArgumentError, ["inplace", "output 1"]),
        (WRONG_TYPE, "aliases", [0], DTypeError, ["aliases"]),
        (NEGATIVE, "aliases", {-1: 0}, ArgumentError, ["aliases", "-1"]),
        (WRONG_TYPE, "function", print, DTypeError, ["function"]),
        (WRONG_VALUE, "function", CFunction(0), ArgumentError, ["function.compute"]),
    )
]

DOMAINS = [
    Bad(WRONG_TYPE, lambda w: zrt.CustomOpDomain("d", [Op()]), DTypeError, "custom_ops", "alone"),
    Bad(WRONG_TYPE, lambda w: [Op()], DTypeError, "custom_ops", "Op"),
    Bad(WRONG_TYPE, lambda w: 5, DTypeError, "custom_ops", "int"),
    Bad(WRONG_VALUE, lambda w: [zrt.CustomOpDomain("d", [Op()])] * 2, ArgumentError, "custom_ops", "'d'", "twice"),
    Bad(CLOSED, lambda w: [closed(zrt.CustomOpDomain("d", [Op()]))], ClosedError, "CustomOpDomain is closed"),
]

LIBRARIES = [
    Bad(WRONG_TYPE, lambda w: "a.so", DTypeError, "custom_op_libraries", "'a.so'"),
    Bad(WRONG_TYPE, lambda w: 5, DTypeError, "custom_op_libraries", "5"),
    Bad(WRONG_TYPE, lambda w: [5], DTypeError, "custom_op_libraries", "5"),
    Bad(MISSING_FILE, lambda w: [w.folder / "absent.so"], ArgumentError, "custom_op_libraries", "absent.so"),
    Bad(DIRECTORY, lambda w: [w.folder], ArgumentError, "custom_op_libraries", "no file"),
    Bad(EMPTY, lambda w: [w.file("empty.so", b"")], ArgumentError, "custom_op_libraries", "empty.so"),
    Bad(WRONG_VALUE, lambda w: ["a\0.so"], ArgumentError, "custom_op_libraries", "NUL"),
]


class Doing(Op):
    """What the rows do within a call."""

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
    """Where a row keeps what it may not keep."""

    kept: Any = None


def keep(thing: Any) -> None:
    Keeping.kept = thing


ADD: dict[str, Any] = {"version": 14, "types": {"T": F}}

IN_COMPUTE = [
    Bad(kind, lambda w, work=work: work, CallbackError, *words)
    for kind, work, words in (
        (HUGE, lambda c: c.output(9, (1,)), ["no output 9"]),
        (NEGATIVE, lambda c: c.output(-1, (1,)), ["-1"]),
        (NEGATIVE, lambda c: c.output(0, (-1,)), ["output 0"]),
        (HUGE, lambda c: c.output(0, (2**70,)), ["output 0"]),
        (WRONG_TYPE, lambda c: c.output(0, None), ["output 0"]),
        (WRONG_TYPE, lambda c: c.output("y", (1,)), ["output"]),
        (WRONG_SHAPE, lambda c: c.output(0, (5,)), ["'y'", "[5]"]),
        (WRONG_TYPE, lambda c: c.parallel_for(5, 1), ["function"]),
        (NEGATIVE, lambda c: c.parallel_for(print, -1), ["count"]),
        (HUGE, lambda c: c.parallel_for(print, 2**63), ["count"]),
        (WRONG_TYPE, lambda c: c.allocator("Cpu"), ["memory"]),
        (UNKNOWN_NAME, lambda c: c.allocator(zrt.MemoryInfo.cuda()), ["Cuda"]),
        (WRONG_DTYPE, lambda c: c.scratch(4, str), ["scratch"]),
        (NEGATIVE, lambda c: c.scratch(-4), ["scratch"]),
        (HUGE, lambda c: c.scratch(2**60), ["AllocationError", str(2**60)]),
        (UNKNOWN_NAME, lambda c: c.logger.log("LOUD", "x"), ["LOUD"]),
        (WRONG_TYPE, lambda c: c.logger.log("INFO", 5), ["message"]),
        (WRONG_VALUE, lambda c: c.resource(1, 1), ["resource 1"]),
        (WRONG_VALUE, lambda c: keep(c.inputs[0]), ["'x'", "keep a copy"]),
        (WRONG_VALUE, lambda c: keep(c.inputs[0][1:]), ["'x'", "keep a copy"]),
        (CLOSED, lambda c: c.info.constant_input(0), ["KernelInfo was good"]),
        (CLOSED, lambda c: Standard(c.info, "Relu", [F], [F], **ADD), ["KernelInfo was good"]),
    )
]

IN_CREATE = [
    Bad(kind, lambda w, work=work: work, CallbackError, *words)
    for kind, work, words in (
        (HUGE, lambda i: i.constant_input(5), ["no input 5"]),
        (NEGATIVE, lambda i: i.constant_input(-1), ["-1"]),
        (WRONG_TYPE, lambda i: i.constant_input("x"), ["input"]),
        (UNKNOWN_NAME, lambda i: i.allocator("MOON"), ["MOON"]),
        (UNKNOWN_NAME, lambda i: i.attributes["q"], ["'q'"]),
        (UNKNOWN_NAME, lambda i: Standard(i, "Nonesuch", [F], [F], **ADD), ["Nonesuch"]),
        (WRONG_VALUE, lambda i: Standard(i, "Add", [F], [F], **ADD), ["Add"]),
        (WRONG_TYPE, lambda i: Standard(5, "Add", [F], [F], **ADD), ["KernelInfo"]),
        (WRONG_DTYPE, lambda i: Standard(i, "Add", [F, "qq"], [F], **ADD), ["'qq'"]),
    )
]

IN_INFER = [
    Bad(kind, lambda w, work=work: work, CallbackError, *words)
    for kind, work, words in (
        (HUGE, lambda c: c.input(5), ["no input 5"]),
        (UNKNOWN_NAME, lambda c: c.attribute("q"), ["'q'"]),
        (HUGE, lambda c: c.set_output(5, (1,), F), ["first 1 outputs"]),
        (NEGATIVE, lambda c: c.set_output(0, (-2,), F), ["output 0", "-2"]),
        (WRONG_DTYPE, lambda c: c.set_output(0, (2,), "qq"), ["'qq'"]),
        (WRONG_TYPE, lambda c: c.set_output(0, 2, F), ["output 0", "int"]),
    )
]


def run(work: Any, where: str) -> object:
    return load(ONE, Doing(work, where)).run([X])


def session(text: str) -> zrt.Session:
    return load(text, Doing(print, "nowhere"))


TAKES: list[Take] = [
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

SINGLE: list[Single] = [
    ("Session.__init__", UNKNOWN_NAME, lambda w: zrt.Session(build(ONE)), zrt.Error, (DOMAIN,)),
    (
        "Session.__init__",
        UNKNOWN_NAME,
        lambda w: session("(float[n] x) => (float[n] y) { y = test.ops.Nonesuch(x) }"),
        zrt.Error,
        ("Nonesuch",),
    ),
    (
        "Session.__init__",
        WRONG_VALUE,
        lambda w: session("(float[n] x) => (float[n] y) { y = test.ops.Op(x, x) }"),
        InvalidGraphError,
        ("Op",),
    ),
    (
        "Session.__init__",
        WRONG_DTYPE,
        lambda w: session("(double[n] x) => (float[n] y) { y = test.ops.Op(x) }"),
        InvalidGraphError,
        ("Op", "double"),
    ),
    (
        "Session.__init__",
        WRONG_TYPE,
        lambda w: session('(float[n] x) => (float[n] y) { y = test.ops.Op<n = "1">(x) }'),
        CallbackError,
        ("attribute 'n'", "str", "int"),
    ),
]

CLOSED_SELF: dict[str, Callable[[World, Any], object]] = {
    "CustomOpDomain.__enter__": lambda w, it: it.__enter__(),
}

CLOSABLE: dict[str, Callable[[World], Any]] = {"CustomOpDomain": lambda w: zrt.CustomOpDomain("d", [Op()])}

CANNOT_FAIL: dict[str, str] = {
    f"CustomOp.{name}": "a subclass's own, called by ONNX Runtime: see the rows of Session"
    for name in ("create", "compute", "infer_shapes")
} | {"Allocator.own": INSIDE}

APPLIES: dict[str, tuple[list[Bad], set[str]]] = {
    "declared": (DECLARED, {WRONG_DTYPE, NEGATIVE, HUGE, UNKNOWN_NAME}),
    "domains": (DOMAINS, {CLOSED}),
    "libraries": (LIBRARIES, {MISSING_FILE, DIRECTORY, EMPTY}),
    "in compute": (IN_COMPUTE, {NEGATIVE, HUGE, WRONG_SHAPE, WRONG_DTYPE, UNKNOWN_NAME, CLOSED}),
    "in create": (IN_CREATE, {NEGATIVE, HUGE, UNKNOWN_NAME, WRONG_DTYPE}),
    "in infer_shapes": (IN_INFER, {NEGATIVE, HUGE, UNKNOWN_NAME, WRONG_DTYPE}),
}
