"""A copy of a state for which there is no memory raises AllocationError, and names the input."""

import resource
from pathlib import Path

from tests.support import models
from zrt import Session
from zrt.errors import AllocationError

SIZE = 1 << 26

session = Session(models.add(["n"]))
lane = session.lane({"x": (SIZE // 4,)}, state={"z": "y"}, trials=False)
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SIZE // 2, -1))
for copy in (lane.state.snapshot, lane.state.copy):
    try:
        copy()
    except AllocationError as error:
        print(str(error).partition(":")[0])
