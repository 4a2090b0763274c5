/* Asynchronous runs: on ONNX Runtime's threads, or on a few of our own where a session has none. A run that ends pushes
   its message into the bridge, and the bridge's Python thread completes the future. */
#pragma once

/* One run. It owns `outputs`, `status`, and where they were made here the options and the inputs. The handle
   keeps the memory that the run reads and writes alive until Python has taken the message. */
typedef struct zrt_run {
    zrt_message message;
    zrt_handle *handle;
    const zrt_call *call;
    OrtRunOptions *run_options;
    /* Whether zrt_run_new created the options. */
    int own_options;
    int started;
    /* Whether zrt_run_new wrapped the inputs as values; else they are borrowed. */
    int wrapped;
    OrtStatus *status;
    /* The room for the outputs that are left to ONNX Runtime; borrowed, or NULL where there are none. */
    zrt_made *made;
    OrtValue **inputs;
    OrtValue **outputs;
} zrt_run;

/* Call it once, before the other functions; `workers` is the largest number of our own threads. Returns 0 or an errno.
 */
int zrt_run_open(size_t workers);

/* Stores a run that is still to be started, with options of its own where `run_options` is NULL. `inputs` is memory, or
   values that are borrowed; `outputs` is memory; `made` is that of zrt_call_run, and in use until the run ends. Returns
   a code (code.h). */
uintptr_t zrt_run_new(zrt_handle *call, OrtRunOptions *run_options, void *const *inputs, int values,
    void *const *outputs, zrt_made *made, zrt_run **result);

/* Frees the run and all that it still owns; a zrt_release. */
void zrt_run_free(void *run);

/* Starts the run that `handle` owns and takes a reference to the handle; the thread that takes the message releases it.
   `on_worker` chooses one of our own workers even where the session has threads. Never blocks; any thread may call it.
 */
void zrt_run_start(zrt_handle *handle, int on_worker);
