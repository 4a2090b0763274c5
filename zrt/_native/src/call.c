#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "made.h"
#include "arrays.h"
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

/* Stores a value over each tensor's memory in `values`, but for the outputs that `made` leaves to ONNX Runtime. */
static uintptr_t wrap(const zrt_call *call, const zrt_tensor *tensors, size_t count, void *const *memory,
    const zrt_made *made, OrtValue **values) {
    for (size_t i = 0; i < count; i++) {
        if (made != NULL && made->rows[i].left)
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

uintptr_t zrt_call_wrap_inputs(const zrt_call *call, void *const *memory, OrtValue **values) {
    return wrap(call, call->inputs, call->input_count, memory, NULL, values);
}

uintptr_t zrt_call_wrap_outputs(const zrt_call *call, void *const *memory, const zrt_made *made, OrtValue **values) {
    return wrap(call, call->outputs, call->output_count, memory, made, values);
}

static void release(const zrt_call *call, OrtValue **values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL)
            call->api->ReleaseValue(values[i]);
    if (count > ON_STACK)
        free(values);
}

uintptr_t zrt_call_run_values(zrt_handle *handle, const OrtRunOptions *run_options, OrtValue *const *inputs,
    void *const *outputs, zrt_made *made, uintptr_t list) {
    const zrt_call *call = handle->pointer;
    size_t count = call->output_count;
    OrtValue *stack[ON_STACK];
    OrtValue **results = room(stack, count);
    if (results == NULL)
        return no_room(call);
    uintptr_t code = zrt_call_wrap_outputs(call, outputs, made, results);
    if (code == ZRT_OK)
        code = (uintptr_t)call->api->Run(call->session, run_options != NULL ? run_options : call->run_options,
            call->input_names, (const OrtValue *const *)inputs, call->input_count, call->output_names, count, results);
    if (code == ZRT_OK && made != NULL)
        code = (uintptr_t)zrt_made_fill(made, results);
    if (code == ZRT_OK && made != NULL && zrt_made_arrays(made, list) > 0)
        code = ZRT_LEFT;
    release(call, results, count);
    return code;
}

uintptr_t zrt_call_run(zrt_handle *handle, const OrtRunOptions *run_options, void *const *inputs, void *const *outputs,
    zrt_made *made, uintptr_t list) {
    const zrt_call *call = handle->pointer;
    size_t count = call->input_count;
    OrtValue *stack[ON_STACK];
    OrtValue **wrapped = room(stack, count);
    if (wrapped == NULL)
        return no_room(call);
    uintptr_t code = zrt_call_wrap_inputs(call, inputs, wrapped);
    if (code == ZRT_OK)
        code = zrt_call_run_values(handle, run_options, wrapped, outputs, made, list);
    release(call, wrapped, count);
    return code;
}
