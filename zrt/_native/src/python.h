/* Python.h with its buffers, which are part of the limited API since Python 3.11, the oldest that zrt takes. */
#pragma once

#ifdef Py_LIMITED_API
#undef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

/* The builtins that zrt_builtin_open makes; call.h and bind.h describe them. */
PyObject *zrt_find_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *zrt_run_feeds(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *zrt_run_values(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *zrt_bind_array(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
