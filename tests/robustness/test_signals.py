"""Ctrl-C at any moment: KeyboardInterrupt is raised after the run, and all objects still work."""

from tests.robustness.conftest import Child


def test_interrupt_is_raised_after_the_run(child: Child) -> None:
    assert child("signals/interrupted_run.py").split() == ["interrupted", "usable"] * 2


def test_interrupts_at_any_moment_leave_everything_usable(child: Child) -> None:
    child("signals/storm.py")
