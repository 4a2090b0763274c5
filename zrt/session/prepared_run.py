"""`PreparedRun`: repeated runs of a session over the same feeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from zrt._common.arguments import integer
from zrt._common.public import public
from zrt._native.cdata import NULL, new_array
from zrt._native.handle import Handle, Owner
from zrt.errors import ClosedError, DTypeError
from zrt.loading.run_options import RunOptions
from zrt.session.call import LEFT, Call, Result, run_values
from zrt.session.deadlines import end_of
from zrt.values import Value


@public
class PreparedRun(Owner, guarded=False):
    """A run over feeds that are borrowed in place (`Session.prepare` makes it).

    Each run reads the current content of the feeds and returns fresh arrays, so earlier results stay unchanged.
    Several threads may use it, but none may write into the feeds during a run.
    """

    __slots__ = ("_prepared", "output_names")

    output_names: tuple[str, ...]
    """The outputs' names, in the order in which `run` returns them."""

    _prepared: tuple[Call, Any, list[Handle]] | None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        made._handle = made._prepared = None
        made.output_names = ()
        return made

    def __init__(self, call: Call, feeds: Sequence[Value]) -> None:
        if not isinstance(call, Call):
            raise DTypeError("a PreparedRun is made by Session.prepare")
        handles: list[Handle] = [value._open() for value in feeds]
        pointers = new_array("OrtValue *", [handle.pointer for handle in handles])
        self._handle = call.handle
        self.output_names = tuple(wanted.info.name for wanted in call.outputs)
        # One attribute for all three: `close` in one thread must not leave a part of them to a run in another.
        self._prepared = (call, pointers, handles)

    def run(self, options: RunOptions | None = None, timeout: float | None = None) -> list[Result]:
        """One inference over the feeds as they are now; returns a fresh array for each output.

        `timeout` is that of `Session.run`.
        """
        prepared = self._prepared
        if prepared is None:
            raise ClosedError("this PreparedRun is closed")
        call, inputs, feeds = prepared
        if options is not None or timeout is not None:
            return call.run(inputs, feeds, options, end_of(timeout))
        # `Call.run` with one call less.
        results, places, made = call.arrays()
        code = run_values(call.reference, NULL, inputs, places, NULL if made is None else made.pointer, id(results))
        if code and code != LEFT:
            call.prepare_retry(code, made)
            return call.run(inputs, feeds)
        return results if made is None else call.collect(code, results, made, feeds)

    def run_named(self, options: RunOptions | None = None, timeout: float | None = None) -> dict[str, Result]:
        """As `run`, with the outputs by name."""
        return dict(zip(self.output_names, self.run(options, timeout), strict=True))

    def prime(self, runs: int = 1) -> None:
        """Runs it `runs` times before serving, so that ORT plans and allocates its memory for these shapes."""
        for _ in range(integer(runs, "runs")):
            self.run()

    def close(self) -> None:
        """Releases the feeds; closing twice is fine."""
        super().close()
        self._prepared = None
