"""`PreparedRun`: repeated runs of a session over the same feeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeAlias

from zrt._common.public import public
from zrt._native import lib
from zrt._native.builtin import set_builtin
from zrt._native.cdata import address_of
from zrt._native.handle import Handle
from zrt.errors import ClosedError, DTypeError
from zrt.loading.run_options import RunOptions
from zrt.session.bound_run import BoundRun
from zrt.session.call import Call, Result, end_of

Prepared: TypeAlias = tuple[int, Call, int, Any, Sequence[Handle]]


@public
class PreparedRun(BoundRun, guarded=False):
    """A run over feeds that are borrowed in place (`Session.prepare` makes it).

    Each run reads the current content of the feeds and returns fresh arrays, so earlier results stay unchanged.
    Several threads may use it, but none may write into the feeds during a run.
    """

    __slots__ = ("_bound", "output_names")

    output_names: tuple[str, ...]
    """The outputs' names, in the order in which `run` returns them."""

    _bound: Prepared | None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        prepared_run = super().__new__(cls)
        prepared_run.output_names = ()
        return prepared_run

    def __init__(self, call: Call, inputs: Any, handles: Sequence[Handle]) -> None:
        """`inputs` is a C array of ``OrtValue *``, which `handles` own."""
        if not isinstance(call, Call):
            raise DTypeError("a PreparedRun is made by Session.prepare")
        self._handle = call.handle
        self.output_names = tuple(output.info.name for output in call.outputs)
        self._bound = call.address, call, address_of(inputs), inputs, handles

    def run(self, options: RunOptions | None = None, timeout: float | None = None) -> list[Result]:
        """One inference over the feeds as they are now; returns a fresh array for each output.

        `timeout` is that of `Session.run`.
        """
        prepared = self._bound
        if prepared is None:
            raise ClosedError("this PreparedRun is closed")
        _, call, _, inputs, handles = prepared
        return call.run(inputs, handles, options, end_of(timeout))

    @staticmethod
    def _complete(answer: tuple[int, list[Result], Call], prepared: Prepared) -> list[Result]:
        """The results of a run for which the builtin needs Python's help (call.h)."""
        code, results, call = answer
        *_, inputs, handles = prepared
        return results if call.settle(code, results, handles) else call.run(inputs, handles)

    def run_named(self, options: RunOptions | None = None, timeout: float | None = None) -> dict[str, Result]:
        """As `run`, with the outputs by name."""
        return dict(zip(self.output_names, self.run(options, timeout), strict=True))


set_builtin(PreparedRun, "run", lib.ZRT_PREPARED_RUN, "_bound", "options=None, timeout=None")
