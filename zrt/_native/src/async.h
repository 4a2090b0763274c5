/* Runs in the background, on a few threads of our own that serve all sessions. The thread of an event loop takes ended
   runs from the loop's inbox; a thread that waits in zrt_run_wait takes its run; the bridge takes all others. */
#pragma once

/* The ended runs that one event loop has to take. A handle owns it. */
typedef struct zrt_inbox {
    zrt_queue ended;
    /* The ends of a pipe: `readable` is so while there are runs to take. */
    int readable;
    int writable;
    int closed;
} zrt_inbox;

/* One run, owned by `handle`. It owns `outputs`, `code`, and where they were made here the options and the inputs. */
typedef struct zrt_run {
    zrt_message message;
    zrt_handle *handle;
    /* Python's name for the run. */
    uint64_t key;
    const zrt_call *call;
    /* On the zrt_inbox of the loop that waits for the run, or NULL. */
    zrt_handle *inbox;
    zrt_watch watch;
    OrtRunOptions *run_options;
    /* Whether zrt_run_new created the options. */
    int own_options;
    /* Whether zrt_run_new wrapped the inputs as values; else they are borrowed. */
    int wrapped;
    int started;
    /* Whether a worker has it. */
    int taken;
    int ended;
    /* Whether the bridge or an inbox has the message. */
    int reported;
    /* How many threads are in zrt_run_wait. */
    size_t waiting;
    /* A code (code.h): the end of the run, or why it could not be made. */
    uintptr_t code;
    /* The room for the outputs that are left to ONNX Runtime; borrowed, or NULL where there are none. */
    zrt_made *made;
    OrtValue **inputs;
    OrtValue **outputs;
} zrt_run;

/* Call it before the other functions; another call only sets `workers`, the largest number of threads. Returns 0 or an
   errno. */
int zrt_run_open(size_t workers);

/* Stores an inbox. Returns a code (code.h). */
uintptr_t zrt_inbox_new(const OrtApi *api, zrt_inbox **result);

/* Frees an inbox; a zrt_release. */
void zrt_inbox_free(void *inbox);

/* Takes up to `room` ended runs, oldest first: stores their keys and returns how many there are. */
size_t zrt_inbox_take(zrt_inbox *inbox, uint64_t *keys, size_t room);

/* The loop is gone: the bridge gets the runs that wait here, and all that end later. */
void zrt_inbox_close(zrt_inbox *inbox);

/* A run that is still to be started, with options of its own where `run_options` is NULL; `code` says whether it can
   be. `inputs` is memory, or values that are borrowed; `outputs` is memory; `made` is that of zrt_call_run. All three
   must stay until the run ends. `inbox` may be NULL; `end` is that of a zrt_watch. Returns NULL without memory. */
zrt_run *zrt_run_new(zrt_handle *call, uint64_t key, OrtRunOptions *run_options, void *const *inputs, int values,
    void *const *outputs, zrt_made *made, zrt_handle *inbox, uint64_t end);

/* Drops the reference to the run that zrt_run_new returned. */
void zrt_run_drop(zrt_run *run);

/* Starts the run. Never blocks; any thread may call it. */
void zrt_run_start(zrt_run *run);

/* Ends a run whose deadline has passed: at once while it waits for a worker, else after its current operator. */
void zrt_run_expire(zrt_run *run);

/* Waits for the end of the run, for `seconds` at most. Returns whether it has ended. Of a run that ends meanwhile the
   bridge gets no message: the caller completes it, or calls zrt_run_report. */
int zrt_run_wait(zrt_run *run, double seconds);

/* Gives the bridge the message of an ended run, unless it got it. */
void zrt_run_report(zrt_run *run);

/* How many started runs have not ended. */
size_t zrt_run_count(void);
