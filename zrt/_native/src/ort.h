/* The C API of ONNX Runtime: the official headers where they are given (exact mode), ours elsewhere. */
#pragma once
#ifdef ZRT_EXACT
#include <onnxruntime_c_api.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decl/handles.h"
#include "decl/enums.h"
#include "decl/callbacks.h"
#include "decl/providers.h"
#include "decl/interop.h"
#include "decl/custom_op.h"
#include "decl/editor.h"
#include "decl/compile.h"
#include "decl/api.h"
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "zrt takes the weights of a model as they are stored: in little-endian order"
#endif

/* Returns the status of a call from the function that uses it, if the call failed. */
#define RETURN_IF_FAILED(expression)                                                                                   \
    do {                                                                                                               \
        OrtStatus *status_ = (expression);                                                                             \
        if (__builtin_expect(status_ != NULL, 0))                                                                      \
            return status_;                                                                                            \
    } while (0)

/* As RETURN_IF_FAILED, from a function that returns a code (code.h). */
#define RETURN_CODE_IF_FAILED(expression)                                                                              \
    do {                                                                                                               \
        OrtStatus *status_ = (expression);                                                                             \
        if (__builtin_expect(status_ != NULL, 0))                                                                      \
            return (uintptr_t)status_;                                                                                 \
    } while (0)
