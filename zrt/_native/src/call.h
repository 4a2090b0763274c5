/* A run of a session in one C call: from the feeds as the caller gave them to the list of results. */
#pragma once

struct zrt_arena;

typedef struct zrt_tensor {
    ONNXTensorElementDataType type;
    size_t alignment; /* of its memory, a power of two */
    size_t rank;
    /* In a call that is `general` a size may be ZRT_ANY_SIZE, or a number below it: the same number stands for one size
       in all inputs and outputs. NULL: any shape. */
    const int64_t *dims;
} zrt_tensor;

/* The most sizes that have a number in a general call. */
#define ZRT_MOST_SIZES 32

/* The constant part of all runs with the same names and types; and with the same shapes, if it is not `general`. */
typedef struct zrt_call {
    int general;
    /* The session's copy of ONNX Runtime's table: its `Run` may be that of record.c, budget.c or forks.c. */
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
    /* Which outputs ONNX Runtime allocates; NULL for none. Python replaces it if the model declares outputs wrongly. */
    const zrt_allocated *allocated;
    /* Python keeps these objects: for each output the arguments of numpy's `empty`, or the dtype alone in a general
       call, NULL where ONNX Runtime allocates it; the inputs' names, NULL where an input takes no array; the dtypes of
       their arrays, NULL for strings; and a tuple of the outputs' names, NULL where the outputs are all those of the
       session.
     */
    void *const *fresh;
    void *const *names;
    void *const *dtypes;
    void *wanted;
    /* Whether the inputs are all those of the session, in its order. */
    int positional;
    /* The session's arena if its unused memory goes back to the system, else NULL; and the bytes of the inputs, 0 where
       they are not known. */
    struct zrt_arena *arena;
    size_t input_bytes;
} zrt_call;

/* Keeps numpy's function `empty`; returns 0, or -1 with an exception. The builtins:

   run_feeds(calls, feeds, outputs, options=0, end=0) runs the first call that is for these feeds and outputs.
   `calls` is a tuple of, by turns, the address of a handle on a zrt_call and the object that keeps it. `feeds` is a
   dict of numpy arrays by name, or a list or tuple in the session's order. `outputs` has the outputs' names, or is None
   for all. `options` is the address of OrtRunOptions, or 0; `end` is that of a zrt_watch, or 0; with both, no other run
   may use the options.

   find_call(calls, feeds, outputs) returns the object of that call, or None.

   run_values(calls, values, options=0, end=0) runs the first call over the OrtValues at the address `values`.

   run_feeds and run_values free the GIL during the run and return the list of results, or a tuple of a code (code.h),
   the results so far and the call's object. run_feeds returns None where nothing ran, because no call is for such feeds
   or one of them cannot be copied. */
int zrt_call_open(void *empty);

/* run_values for a tuple that begins with the elements of `calls` and the argument `values`. */
void *zrt_call_prepared(void *prepared);
