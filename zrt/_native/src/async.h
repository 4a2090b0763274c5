/* Runs that are begun here and end elsewhere: on ONNX Runtime's threads, or on a few of ours where it has none. */
#pragma once

/* One run. Everything that it reads and writes stays until its message was taken. */
typedef struct zrt_run {
    zrt_message message;
    zrt_handle *handle;
    const zrt_call *call;
    OrtRunOptions *run_options;
    /* Whether the options were made here, so that they are released here. */
    int own_options;
    int started;
    /* Whether the inputs were wrapped here, so that they are released here. */
    int wrapped;
    OrtStatus *status;
    OrtValue **inputs;
    OrtValue **outputs;
} zrt_run;

/* To be called once, before anything else here; at most `workers` threads of ours. 0, or the errno. */
int zrt_run_open(size_t workers);

/* Stores a run that is still to be started, with options of its own where `run_options` is NULL. `inputs` is memory, or
   values that are borrowed; outputs[i] is memory, or NULL for an output that is left to ONNX Runtime. Returns a code
   (code.h). */
uintptr_t zrt_run_new(zrt_handle *call, OrtRunOptions *run_options, void *const *inputs, int values,
    void *const *outputs, zrt_run **result);

/* Releases what the run still owns; a zrt_release. */
void zrt_run_free(void *run);

/* Starts the run that `handle` owns, with a reference to it: whoever takes the message gives that back. `on_worker`
   keeps it off OrtApi::RunAsync. */
void zrt_run_start(zrt_handle *handle, int on_worker);
