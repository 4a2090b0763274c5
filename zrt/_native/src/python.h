/* Python.h with its buffers, which are part of the limited API since Python 3.11, the oldest that zrt takes. */
#pragma once

#ifdef Py_LIMITED_API
#undef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
