"""What a lane's hot path does, input by input and output by output."""

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
    """The bound shape; None where ORT makes the output anew in each run and has made none yet."""
    nbytes: int
    memory: MemoryInfo
    kind: str
    """"buffers", "allocated" or "left", as in `LaneMemory`."""
    address: int | None
    """Where our view begins; None where there is none."""
    ort_address: int | None
    """Where ORT's tensor begins; None where there is none yet."""
    alignment: int | None
    """The largest power of two that divides the address, up to 2 MiB."""
    policy: str
    """The buffer policy, where the memory is ours."""
    rebound: bool
    """Whether it is bound anew before each run."""
    copies: str
    """Why a run copies it, or "" where none does."""
    allocates: str
    """Why each run hands out a tensor anew, which it mostly allocates, or "" where it is always the same."""


@public
@dataclass(frozen=True, slots=True)
class LaneAudit:
    """A lane's report: `Lane.audit` makes it."""

    inputs: tuple[PortAudit, ...]
    outputs: tuple[PortAudit, ...]
    synchronize: bool
    """Whether each run waits for the devices before and after."""

    @property
    def copies(self) -> tuple[str, ...]:
        """What is copied in each run, and why."""
        return tuple(f"{port.name}: {port.copies}" for port in (*self.inputs, *self.outputs) if port.copies)

    @property
    def allocations(self) -> tuple[str, ...]:
        """What each run hands out anew, and why."""
        return tuple(f"{port.name}: {port.allocates}" for port in (*self.inputs, *self.outputs) if port.allocates)

    @property
    def zero_copy(self) -> bool:
        """Whether ORT reads and writes the very memory that the user sees."""
        return not self.copies

    def require_zero_copy(self) -> None:
        """Raises `ZeroCopyError` that names what each run copies."""
        if self.copies:
            raise ZeroCopyError("a run of this lane copies " + "; ".join(self.copies))
