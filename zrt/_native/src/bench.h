/* Loops for `zrt bench`, apart from the path of runs. */
#pragma once

/* A C program's loop over synchronize, RunWithBinding, synchronize: runs `count` times and stores the nanoseconds of
   all runs together. */
uintptr_t zrt_plain_loop(zrt_handle *lane, size_t count, uint64_t *nanoseconds);
