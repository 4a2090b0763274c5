"""Runs over values: nothing is converted, and ONNX Runtime itself checks names, types and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zrt._common.arguments import text, wrong_type
from zrt._native.forks import SessionHandle
from zrt._native.handle import Handle
from zrt.session.call import Call
from zrt.session.outputs import MadeOutputs, Wanted
from zrt.session.value_feeds import check_reach
from zrt.types import ElementType, ValueKind
from zrt.values import Value
from zrt.values.type_info import ValueInfo

if TYPE_CHECKING:
    from zrt.session.session import Session

# Tensors have memory of their own unless they are fed under the same name. Containers may share tensors of any feed.
_APART = ValueKind.TENSOR, ValueKind.SPARSE_TENSOR


def _handles(session: Session, owner: Handle, feeds: Mapping[str, Value]) -> list[Handle]:
    """The handles of the feeds' values."""
    if not isinstance(feeds, Mapping):
        raise wrong_type("feeds", "a dict of values", feeds)
    handles = []
    for name, value in feeds.items():
        text(name, "the name of a feed")
        subject = f"input {name!r}"
        if not isinstance(value, Value):
            raise wrong_type(subject, "a Value", value)
        handles.append(value._open())
        check_reach(session, owner, value, subject)
    return handles


def _names(session: Session, outputs: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the outputs to compute."""
    if outputs is None:
        return session.output_names
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise wrong_type("outputs", "a list of names", outputs)
    for name in outputs:
        text(name, "outputs")
    return tuple(outputs)


def _unknown(name: str) -> ValueInfo:
    return ValueInfo(name, ValueKind.UNKNOWN, ElementType.UNDEFINED, None)


class ValueCall(Call):
    """The call of all runs with feeds and outputs of the same names. It leaves every output to ORT."""

    __slots__ = ("_fed",)

    def __init__(
        self, session: SessionHandle, run_options: Handle, memory: Handle, fed: tuple[str, ...], outputs: Sequence[str]
    ) -> None:
        wanted = [Wanted(_unknown(name), None) for name in outputs]
        super().__init__(session, run_options, memory, [(_unknown(name), ()) for name in fed], wanted, (), set())
        self._fed = fed

    def collect(
        self, waiting: int, results: list[Any], made: MadeOutputs, feeds: Sequence[Handle] = ()
    ) -> list[Value | None]:
        """A value for each output, None for an absent optional."""
        for index, wanted in enumerate(self.outputs):
            if made.waits(index):
                passed = wanted.info.name in self._fed
                shares = passed or made.kind(index) not in _APART
                results[index] = made.take(index, feeds if shares else (), writeable=not passed)
        return super().collect(0, results, made)


def prepare(
    session: Session, feeds: Mapping[str, Value], outputs: Sequence[str] | None
) -> tuple[ValueCall, list[Any], list[Handle]]:
    """The arguments of `Call.run` before the options: the call, its inputs, and the handles that own them."""
    owner = session._open()
    handles = _handles(session, owner, feeds)
    names = _names(session, outputs)
    fed = tuple(feeds)
    key = (None, fed, names)
    call = session._calls.get(key)
    if not isinstance(call, ValueCall):
        call = ValueCall(owner, session._run_options, session._memory, fed, names)
        session._keep("_calls", key, call)
    return call, [handle.pointer for handle in handles], handles
