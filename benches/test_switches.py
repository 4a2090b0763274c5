"""The cost of a lane's `synchronize=` and `rebind_inputs=` where neither is needed: on the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benches.support import Compare, Group, Workload, lane_entry

SWITCHES = {
    "neither": (False, False),
    "synchronize": (True, False),
    "rebind_inputs": (False, True),
    "both": (True, True),
}


@pytest.fixture(scope="module", params=["add", "cnn"])
def group(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Group:
    work = Workload.of(model_file(request.param))
    return Group(
        f"switches: {request.param}, one run",
        [
            lane_entry(key, work.lane(work.session(), synchronize=synchronize, rebind_inputs=rebind), work.expected)
            for key, (synchronize, rebind) in SWITCHES.items()
        ],
    )


@pytest.mark.parametrize("switch", SWITCHES)
def test_run(compare: Compare, group: Group, switch: str) -> None:
    compare(group, switch)
