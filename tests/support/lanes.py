"""Runs of lanes in tests."""

from typing import Any

from zrt import Lane
from zrt.lanes.ports import Ports


def run_on(lane: Lane, **inputs: Any) -> Ports:
    """Writes these inputs, runs the lane and returns its outputs."""
    for name, content in inputs.items():
        lane.inputs[name][...] = content
    lane.run()
    return lane.outputs
