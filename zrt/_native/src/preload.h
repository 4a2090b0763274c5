/* Opens the library and has it register its operators on a thread of its own, while Python imports modules: the first
   environment of a process takes 15 ms, most of them for this. Nothing depends on it. If it fails, the caller that
   needs the library meets the same failure and reports it. */
#pragma once

/* Starts the thread, at the first call only and not after zrt_preload_wait. `path` is the library, or NULL for the core
   built into this module. Returns 0 or an errno. */
int zrt_preload_start(const char *path);

/* Waits until the thread has ended; returns at once if there is none, and none begins from then on. */
void zrt_preload_wait(void);

/* Logs the lines from `severity` on that ONNX Runtime logged on that thread, in the name of `id`: it logs them once in
   a process. They go to `sink`, or to standard error if that is NULL; lines that were passed on are forgotten. Call it
   after zrt_preload_wait. */
void zrt_preload_log(int severity, const char *id, OrtLoggingFunction sink, void *parameter);
