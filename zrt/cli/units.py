"""Numbers with units for text output."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


def plural(count: int, thing: str) -> str:
    """ "1 thread", "2 threads"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def mebibytes(size: int) -> str:
    """A size in MiB."""
    return f"{size / MIB:.1f} MiB"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of time for a whole table, so that its numbers are easy to compare."""

    name: str
    nanoseconds: int
    decimals: int

    @classmethod
    def fitting(cls, nanoseconds: float) -> Unit:
        """The best unit for times of this magnitude."""
        if nanoseconds < 10_000:
            return cls("µs", 1000, 3)
        if nanoseconds < 1_000_000:
            return cls("µs", 1000, 2 if nanoseconds < 100_000 else 1)
        return cls("ms", 1_000_000, 3 if nanoseconds < 10_000_000 else 1)

    def format(self, nanoseconds: float) -> str:
        """The number without its unit."""
        return f"{nanoseconds / self.nanoseconds:,.{self.decimals}f}"


def duration(nanoseconds: float) -> str:
    """A time with its unit."""
    unit = Unit.fitting(nanoseconds)
    return f"{unit.format(nanoseconds)} {unit.name}"
