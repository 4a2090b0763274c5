"""Prints the state of a buffer's huge-page hint in a process where the kernel grants none."""

import ctypes

from zrt.memory.buffers import Buffer, BufferPolicy

PR_SET_THP_DISABLE = 41
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
buffer = Buffer((4 << 20,), "u1", BufferPolicy.THROUGHPUT_LARGE)
print(buffer.hugepage, buffer.array.any())
