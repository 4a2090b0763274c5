"""Locks memory beyond RLIMIT_MEMLOCK: the error names the limit, and no memory stays mapped or locked."""

import errno
import os
import re
import resource
from pathlib import Path

from zrt.errors import LockError
from zrt.memory.buffers import Buffer, BufferPolicy


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


resource.setrlimit(resource.RLIMIT_MEMLOCK, (256 << 10, 256 << 10))
if os.geteuid() == 0:
    # The limit does not apply to root.
    os.setgid(65534)
    os.setuid(65534)
policies = [
    (1 << 20, BufferPolicy(lock=True)),
    (300 << 10, BufferPolicy(4096, lock=True)),
    (3 << 20, BufferPolicy.PINNED_HOST_CANDIDATE),
]
for size, policy in policies:
    for _ in range(3):
        before = mappings()
        try:
            Buffer((size,), "u1", policy)
        except LockError as error:
            assert isinstance(error, OSError), error
            assert error.errno in (errno.ENOMEM, errno.EAGAIN), error
            assert f"cannot lock {size >> 10} KiB" in str(error), error
            assert "RLIMIT_MEMLOCK" in str(error), error
            assert "256 KiB" in str(error), error
        else:
            raise AssertionError("locked beyond the limit")
        assert mappings() <= before + 1, (before, mappings())
locked = re.search(r"VmLck:\s+(\d+)", Path("/proc/self/status").read_text())
assert locked is not None
assert locked[1] == "0", locked
fits = Buffer((200 << 10,), "u1", BufferPolicy(lock=True))
assert fits.locked
try:
    Buffer((100 << 10,), "u1", BufferPolicy(lock=True))
except LockError:
    fits.close()
Buffer((100 << 10,), "u1", BufferPolicy(lock=True))
print("done")
