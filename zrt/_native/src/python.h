/* Python.h with its buffers, which are part of the limited API since Python 3.11, the oldest that zrt takes. */
#pragma once

#ifdef Py_LIMITED_API
#undef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <pthread.h>
#include <unistd.h>

/* Calls Python in a function that ORT calls. When the interpreter ends, Python makes a thread that wants the GIL exit.
   That must not unwind the frames of ORT, so the thread sleeps here forever, as it does by itself since Python 3.14. */
static inline void zrt_stay(void *nothing) {
    (void)nothing;
    for (;;)
        pause();
}

#define IN_PYTHON(call)                                                                                                \
    do {                                                                                                               \
        pthread_cleanup_push(zrt_stay, NULL) call;                                                                     \
        pthread_cleanup_pop(0);                                                                                        \
    } while (0)

/* The builtins that zrt_builtin_open makes; call.h and bind.h describe them. */
PyObject *zrt_find_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *zrt_run_feeds(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *zrt_run_values(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *zrt_bind_array(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
