"""Locks a mapped file over the system's limit: LockError, and nothing stays mapped."""

import os
import resource
import sys

from zrt.errors import LockError
from zrt.loading.mapped_file import MappedFile

with open(sys.argv[1], "rb") as file:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    # The limit does not apply to root: become nobody, who may read the file through /proc only.
    if os.geteuid() == 0:
        try:
            os.setuid(65534)
        except OSError:
            print("cannot become nobody")
            raise SystemExit from None
    try:
        MappedFile(f"/proc/self/fd/{file.fileno()}", lock=True)
    except LockError as error:
        # Nor while the error lives.
        with open("/proc/self/maps") as maps:
            assert sys.argv[1] not in maps.read()
        print(error)
    else:
        raise AssertionError("locked beyond the limit")
