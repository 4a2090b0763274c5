/* Opens libonnxruntime, or hands out the one that is linked in. */
#pragma once

/* The core built into this module, or NULL. */
const OrtApiBase *zrt_library_builtin(void);

/* Opens the shared library at `path`; on failure returns NULL and writes why into `message`. The library stays
   open to the end of the process: its threads and its values may outlive everybody who asked for it. */
const OrtApiBase *zrt_library_open(const char *path, char *message, size_t size);
