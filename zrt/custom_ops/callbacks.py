"""The functions that C calls for an operator in Python: create, compute, destroy a kernel, and infer shapes."""

from __future__ import annotations

import atexit
import weakref
from types import TracebackType
from typing import Any, NamedTuple

from zrt._native import callback_errors, ffi, lib, status
from zrt._native.callback_errors import callback
from zrt._native.handle import Handle
from zrt._native.library import api
from zrt.custom_ops.call_scoped import CallScoped
from zrt.custom_ops.context import Kernel, KernelContext
from zrt.custom_ops.info import KernelInfo, end_standards
from zrt.custom_ops.shapes import ShapeContext
from zrt.errors import ClosedError


class _Link(NamedTuple):
    """C's reference to a kernel; a weak one, see `Kernel`."""

    kernel: weakref.ref[Kernel]
    standards: list[Handle]


def _gone(name: str) -> ClosedError:
    return ClosedError(f"{name} was collected with its session")


def _fail(place: Any, error: BaseException) -> int:
    place[0] = api().CreateStatus(1, callback_errors.to_message(error))
    return 1


def _stray(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    """Handles an interrupt that arrives outside of the `try` of `zrt_python_create` or `zrt_python_compute`."""
    names = trace.tb_frame.f_locals
    for name in ("info", "context"):
        if isinstance(names.get(name), CallScoped):
            names[name]._abandon(error)
    return _fail(names["place"], error) if not names["place"][0] else 1


@callback(_stray)
def zrt_python_create(op: Any, pointer: Any, kernel: Any, place: Any) -> int:
    info = None
    try:
        description = ffi.from_handle(op)()
        if description is None:
            raise _gone("the operator")
        info = KernelInfo(pointer, description.attributes, *description.single)
        load = callback_errors.current_load()
        instance = Kernel(
            info,
            description.op.compute,
            description.lock,
            description.aliased,
            description.on_device,
            description.kernels if load is None else load.kept,
        )
        instance.state = description.op.create(info)
        info._finish()
        link = ffi.new_handle(_Link(weakref.ref(instance), info._standards))
        owner = Handle.pin(link)
        instance.home.add(instance)
        kernel.python = link
        kernel.kept = lib.zrt_handle_ref(owner.reference)
        return 0
    except BaseException as error:
        code = _fail(place, error)
        if info is not None:
            info._abandon(error)
        return code


@callback(_stray)
def zrt_python_compute(kernel: Any, pointer: Any, tensors: Any, inputs: int, outputs: int, place: Any) -> int:
    context = None
    try:
        instance = ffi.from_handle(kernel).kernel()
        if instance is None:
            raise _gone("the kernel")
        context = KernelContext(instance, pointer, tensors, inputs, outputs)
        if instance.lock is None:
            instance.compute(context)
        else:
            with instance.lock:
                instance.compute(context)
        context._finish()
        return 0
    except BaseException as error:
        code = _fail(place, error)
        if context is not None:
            context._abandon(error)
        return code


def _end(kernel: Any) -> None:
    link = ffi.from_handle(kernel)
    end_standards(link.standards)
    instance = link.kernel()
    if instance is not None:
        instance.home.discard(instance)


def _stray_end(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    _end(trace.tb_frame.f_locals["kernel"])
    # A destructor cannot raise: C interrupts the main thread again, which would raise at once in here.
    return int(status.INTERRUPTED) if isinstance(error, KeyboardInterrupt) else 1


@callback(_stray_end)
def zrt_python_destroy(kernel: Any) -> int:
    _end(kernel)
    return 0


def _stray_infer(kind: type[BaseException], error: BaseException, trace: TracebackType) -> int:
    context = trace.tb_frame.f_locals.get("context")
    if context is not None:
        context._pointer = None
    callback_errors.keep_for_load("infer_shapes", error)
    return 1


@callback(_stray_infer)
def zrt_python_infer(op: Any, pointer: Any) -> int:
    description = ffi.from_handle(op)()
    if description is None:
        return 1
    context = ShapeContext(
        pointer, description.name, description.attributes, description.single[0], description.certain
    )
    try:
        description.op.infer_shapes(context)
    except BaseException as error:
        callback_errors.keep_for_load(f"operator {description.name!r}, infer_shapes", error)
    context._pointer = None
    return 0


# Daemon threads may still run operators when the interpreter ends: they must not call into Python from then on.
atexit.register(lib.zrt_ops_end)
