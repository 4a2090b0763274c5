"""Prints the state of a buffer's huge-page hint where madvise fails with EINVAL; takes madvise's number.

A seccomp filter makes madvise(..., MADV_HUGEPAGE) fail as a kernel without huge pages does.
"""

import ctypes
import struct
import sys

from zrt.memory.buffers import Buffer, BufferPolicy

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2

madvise = int(sys.argv[1])
steps = [
    (0x20, 0, 0, 0),
    (0x15, 0, 3, madvise),
    (0x20, 0, 0, 32),
    (0x15, 0, 1, 14),
    (0x06, 0, 0, 0x50016),
    (0x06, 0, 0, 0x7FFF0000),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
prctl = ctypes.CDLL(None).prctl
if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, FILTER, program, 0, 0):
    print("no filter")
else:
    buffer = Buffer((4 << 20,), "u1", BufferPolicy.THROUGHPUT_LARGE)
    print(buffer.hugepage, buffer.array.any())
