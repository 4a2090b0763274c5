"""Ctrl-C at any moment: KeyboardInterrupt is raised after the run, and all objects still work."""

import pytest

from tests.robustness.conftest import Child


@pytest.mark.parametrize("way", ["lane", "binding"])
def test_interrupt_is_raised_after_the_run(child: Child, way: str) -> None:
    output = child("signals/interrupted_run.py", arguments=[way])
    assert output.split() == ["interrupted", "usable"]


def test_interrupts_at_any_moment_leave_everything_usable(child: Child) -> None:
    child("signals/storm.py")
