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
    /* For runs from Python's feeds (feed.h), and NULL where an input takes no arrays. Python keeps these objects: the
       inputs' names; the dtypes of their arrays, NULL for strings; and for each output the arguments of numpy's
       `empty`, NULL where ONNX Runtime makes it. */
    void *const *names;
    void *const *dtypes;
    void *const *fresh;
    /* Whether the inputs are all those of the session, in its order. */
    int positional;
} zrt_call;

/* Store a value over the memory of each input or output in `values`, but for the outputs that `made` leaves to ONNX
   Runtime; `made` is NULL where it leaves none. Return a code (code.h): ZRT_MISALIGNED for memory that is not aligned,
   on which a kernel may crash. */
uintptr_t zrt_call_wrap_inputs(const zrt_call *call, void *const *memory, OrtValue **values);
uintptr_t zrt_call_wrap_outputs(const zrt_call *call, void *const *memory, const zrt_made *made, OrtValue **values);

/* `call` is a handle on a zrt_call. inputs[i] and outputs[i] are the arrays' memory; `made` receives the outputs that
   it leaves to ONNX Runtime, and `list`, the address of a list, their arrays (made.h); `made` is NULL where it leaves
   none. Returns a code (code.h). */
uintptr_t zrt_call_run(zrt_handle *call, const OrtRunOptions *run_options, void *const *inputs, void *const *outputs,
    zrt_made *made, uintptr_t list);

/* Like zrt_call_run, with inputs that are values; they are borrowed during the call. */
uintptr_t zrt_call_run_values(zrt_handle *call, const OrtRunOptions *run_options, OrtValue *const *inputs,
    void *const *outputs, zrt_made *made, uintptr_t list);
