/* Opens libonnxruntime, or returns the one that is linked in. */
#pragma once

/* The API versions of ONNX Runtime that zrt knows. It declares the structs of the first one, which every later library
   reads; src/later.h has what was added up to the last one. */
#define ZRT_API_VERSION 27
#define ZRT_NEWEST_API_VERSION 31

/* The core built into this module, or NULL. */
const OrtApiBase *zrt_library_builtin(void);

/* Opens the shared library at `path`. Returns NULL on failure and writes the reason into `message`. The library stays
   open to the end of the process: its threads and values may outlive every caller. */
const OrtApiBase *zrt_library_open(const char *path, char *message, size_t size);

/* Opens the shared library at `path`, or the built-in core for NULL, and makes an environment and releases it: the
   first one of a process registers all operators. Reports no error: who loads the library next meets it again. */
void zrt_library_start(const char *path);
