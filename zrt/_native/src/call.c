#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "call.h"

/* Up to this many values go on the stack, more on the heap: a model may have any number of inputs, and a thread's stack
   may be small. */
#define ON_STACK 64

static OrtValue **room(OrtValue **stack, size_t count) {
    if (count > ON_STACK)
        return calloc(count, sizeof *stack);
    memset(stack, 0, count * sizeof *stack);
    return stack;
}

static uintptr_t no_room(const zrt_call *call) {
    return (uintptr_t)call->api->CreateStatus(ORT_FAIL, "no memory for the values of a run");
}

uintptr_t zrt_call_wrap(
    const zrt_call *call, const zrt_tensor *tensors, size_t count, void *const *memory, OrtValue **values) {
    for (size_t i = 0; i < count; i++) {
        if (memory[i] == NULL)
            continue;
        const zrt_tensor *tensor = &tensors[i];
        if ((uintptr_t)memory[i] & (tensor->alignment - 1))
            return ZRT_MISALIGNED;
        OrtStatus *status = call->api->CreateTensorWithDataAsOrtValue(
            call->memory, memory[i], tensor->bytes, tensor->dims, tensor->rank, tensor->type, &values[i]);
        if (status != NULL)
            return (uintptr_t)status;
    }
    return ZRT_OK;
}

OrtStatus *zrt_call_drop_absent(const zrt_call *call, OrtValue **results) {
    OrtStatus *status = NULL;
    for (size_t i = 0; status == NULL && i < call->output_count; i++) {
        int there = 0;
        status = call->api->HasValue(results[i], &there);
        if (status == NULL && !there) {
            call->api->ReleaseValue(results[i]);
            results[i] = NULL;
        }
    }
    return status;
}

static void release(const zrt_call *call, OrtValue **values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL)
            call->api->ReleaseValue(values[i]);
    if (count > ON_STACK)
        free(values);
}

uintptr_t zrt_call_run_values(zrt_handle *handle, const OrtRunOptions *run_options, OrtValue *const *inputs,
    void *const *outputs, OrtValue **values) {
    const zrt_call *call = handle->pointer;
    size_t count = call->output_count;
    OrtValue *stack[ON_STACK];
    OrtValue **results = room(stack, count);
    if (results == NULL)
        return no_room(call);
    uintptr_t code = zrt_call_wrap(call, call->outputs, count, outputs, results);
    if (code == ZRT_OK)
        code = (uintptr_t)call->api->Run(call->session, run_options != NULL ? run_options : call->run_options,
            call->input_names, (const OrtValue *const *)inputs, call->input_count, call->output_names, count, results);
    if (code == ZRT_OK && values != NULL)
        code = (uintptr_t)zrt_call_drop_absent(call, results);
    for (size_t i = 0; code == ZRT_OK && values != NULL && i < count; i++)
        if (outputs[i] == NULL) {
            values[i] = results[i];
            results[i] = NULL;
        }
    release(call, results, count);
    return code;
}

uintptr_t zrt_call_run(zrt_handle *handle, const OrtRunOptions *run_options, void *const *inputs, void *const *outputs,
    OrtValue **values) {
    const zrt_call *call = handle->pointer;
    size_t count = call->input_count;
    OrtValue *stack[ON_STACK];
    OrtValue **wrapped = room(stack, count);
    if (wrapped == NULL)
        return no_room(call);
    uintptr_t code = zrt_call_wrap(call, call->inputs, count, inputs, wrapped);
    if (code == ZRT_OK)
        code = zrt_call_run_values(handle, run_options, wrapped, outputs, values);
    release(call, wrapped, count);
    return code;
}
