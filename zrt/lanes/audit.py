"""The report of `Lane.audit`: what a run does with each input and output."""

from __future__ import annotations

from dataclasses import dataclass

from zrt._common.public import public
from zrt.errors import ZeroCopyError
from zrt.memory.allocators import MemoryInfo
from zrt.types import ElementType
from zrt.values.symbolic_shapes import Shape


@public
@dataclass(frozen=True, slots=True)
class PortAudit:
    """One input or output of a lane."""

    name: str
    element_type: ElementType
    shape: Shape | None
    """The bound shape; None for an output that ORT allocates in each run, before the first run."""
    nbytes: int
    memory: MemoryInfo
    kind: str
    """"buffers", "allocated" or "left", as in `LaneMemory`; "state" for an input that a state holds, "given" for memory
    of the caller's."""
    address: int | None
    """The address of the lane's view; None if there is no numpy view."""
    ort_address: int | None
    """The address of ORT's tensor; None before the first run allocates it."""
    alignment: int | None
    """The alignment in bytes: the largest power of two that divides the address, up to 2 MiB."""
    policy: str = ""
    """The buffer policy, where the memory is a `Buffer` of zrt; else ""."""
    rebound: bool = False
    """Whether it is bound again before each run."""
    copies: str = ""
    """Why each run copies it; "" if no run does."""
    allocates: str = ""
    """Why each run returns another tensor, mostly a newly allocated one; "" if it is always the same tensor."""
    owner: str = "lane"
    """Whose memory it is: "lane", "caller", or "ORT" for an output that is left to it."""
    shared_with: tuple[str, ...] = ()
    """The other inputs of the lane that lie on the same bytes of the caller's memory."""
    slots: int = 1
    """The number of memories between which the port can be moved (`Lane.slots`)."""


@public
@dataclass(frozen=True, slots=True)
class LaneAudit:
    """A lane's report: `Lane.audit` makes it."""

    inputs: tuple[PortAudit, ...]
    outputs: tuple[PortAudit, ...]
    synchronize: bool
    """Whether each run waits for the devices before and after it."""
    state: tuple[PortAudit, ...] = ()
    """The inputs that a lane with state carries, as they are in its own state."""
    trial_error: str = ""
    """The error of the trial runs at set-up, where one failed and left the shapes unchecked; "" otherwise. With
    `samples` the lane tries the model on values that it runs on."""

    @property
    def copies(self) -> tuple[str, ...]:
        """The inputs and outputs that each run copies, with the reasons."""
        return tuple(f"{port.name}: {port.copies}" for port in (*self.inputs, *self.outputs) if port.copies)

    @property
    def allocations(self) -> tuple[str, ...]:
        """The outputs that each run allocates, with the reasons; not what kernels allocate and free within it."""
        return tuple(f"{port.name}: {port.allocates}" for port in (*self.inputs, *self.outputs) if port.allocates)

    @property
    def zero_copy(self) -> bool:
        """Whether ORT reads and writes the memory of the user's views, without a copy."""
        return not self.copies

    def require_zero_copy(self) -> None:
        """Raises `ZeroCopyError` if a run copies; the message names the inputs and outputs."""
        if self.copies:
            raise ZeroCopyError("a run of this lane copies " + "; ".join(self.copies))


def alignment_of(address: int | None) -> int | None:
    """`PortAudit.alignment` of memory at this address."""
    return min(address & -address, 1 << 21) if address else None
