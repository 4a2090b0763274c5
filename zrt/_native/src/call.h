/* Session.run in one C call: wrap the caller's arrays as values, run, release them. */
#pragma once

typedef struct zrt_tensor {
    ONNXTensorElementDataType type;
    size_t bytes;
    size_t alignment; /* of its memory, a power of two */
    size_t rank;
    const int64_t *dims;
} zrt_tensor;

/* What stays the same for all runs with the same names and shapes. */
typedef struct zrt_call {
    const OrtApi *api;
    OrtSession *session;
    const OrtRunOptions *run_options;
    const OrtMemoryInfo *memory;
    size_t input_count;
    size_t output_count;
    const char *const *input_names;
    const char *const *output_names;
    const zrt_tensor *inputs;
    const zrt_tensor *outputs;
} zrt_call;

/* A value over each tensor's memory, into `values`; where memory[i] is NULL values[i] stays as it is. Memory that is
   not aligned is refused: a kernel may crash on it. */
OrtStatus *zrt_call_wrap(
    const zrt_call *call, const zrt_tensor *tensors, size_t count, void *const *memory, OrtValue **values);

/* Of a run that succeeded: an optional output that is absent becomes NULL, since what reads such a value crashes. */
OrtStatus *zrt_call_drop_absent(const zrt_call *call, OrtValue **results);

/* `call` is a handle on a zrt_call. inputs[i] and outputs[i] are the arrays' memory; an output that is NULL is
   left to ONNX Runtime and comes back in values[i], which then belongs to the caller; NULL stands for an optional
   output that is absent. Returns 0 or the address of an OrtStatus. */
uintptr_t zrt_call_run(
    zrt_handle *call, const OrtRunOptions *run_options, void *const *inputs, void *const *outputs, OrtValue **values);

/* The same with inputs that are values already, borrowed for the time of the call. */
uintptr_t zrt_call_run_values(zrt_handle *call, const OrtRunOptions *run_options, OrtValue *const *inputs,
    void *const *outputs, OrtValue **values);
