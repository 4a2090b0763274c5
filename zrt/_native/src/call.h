/* Session.run in one C call: wrap the caller's arrays as values, run, release them. */
#pragma once

typedef struct zrt_tensor {
    ONNXTensorElementDataType type;
    size_t bytes;
    size_t alignment; /* of its memory, a power of two */
    size_t rank;
    const int64_t *dims;
} zrt_tensor;

/* The constant part of all runs with the same names and shapes. */
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

/* Stores a value over each tensor's memory in `values`; values[i] stays as it is where memory[i] is NULL. Returns a
   code (code.h): ZRT_MISALIGNED for memory that is not aligned, on which a kernel may crash. */
uintptr_t zrt_call_wrap(
    const zrt_call *call, const zrt_tensor *tensors, size_t count, void *const *memory, OrtValue **values);

/* Sets absent optional outputs of a successful run to NULL: reading such a value crashes. */
OrtStatus *zrt_call_drop_absent(const zrt_call *call, OrtValue **results);

/* `call` is a handle on a zrt_call. inputs[i] and outputs[i] are the arrays' memory. ONNX Runtime allocates an output
   whose memory is NULL; values[i] then owns it for the caller, or is NULL for an absent optional output. Returns a code
   (code.h). */
uintptr_t zrt_call_run(
    zrt_handle *call, const OrtRunOptions *run_options, void *const *inputs, void *const *outputs, OrtValue **values);

/* Like zrt_call_run, with inputs that are values; they are borrowed during the call. */
uintptr_t zrt_call_run_values(zrt_handle *call, const OrtRunOptions *run_options, OrtValue *const *inputs,
    void *const *outputs, OrtValue **values);
