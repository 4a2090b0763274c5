/* Calls a Python callable with each line of ONNX Runtime's log, on the thread that logs it. */
#pragma once

/* Sets the callable, whose `id` this is, in the place of the one before; 0 sets none. Called with the GIL free. */
void zrt_log_set_callback(uintptr_t callable);

/* Whether there is a callable. */
int zrt_log_has_callback(void);

/* An OrtLoggingFunction, called in any thread. Writes a line to standard error where there is no callable, where the
   thread is none of Python's, where the callable itself causes the line, and where it raises: that goes to
   `sys.unraisablehook`. A thread that Python does not know could wait for the GIL forever. */
void zrt_log_call(void *unused, OrtLoggingLevel severity, const char *category, const char *id, const char *location,
    const char *text);
