/* Ends runs at their deadlines, and those of the main thread at an interrupt (SIGINT) too. One thread serves all
   deadlines; it starts with the first one. */
#pragma once

/* A run with a deadline. The run's thread owns it, or the zrt_run that it is part of. */
typedef struct zrt_watch {
    /* On zrt_clock; 0 for a run without a deadline. */
    uint64_t end;
    /* The run's own options, which no other run uses: ending this run must end no other. */
    const OrtApi *api;
    OrtRunOptions *run_options;
    /* The handle on the zrt_run for a run in the background, else NULL. */
    zrt_handle *run;
    int own_options;
    /* Whether the deadline passed, and whether an interrupt came, before the run ended. */
    int passed;
    int interrupted;
    /* Whether it is in the heap of deadlines, in which process, and its place there. */
    int waits;
    unsigned generation;
    struct zrt_watch *child;
    struct zrt_watch *sibling;
    struct zrt_watch *previous;
    /* The run of the main thread from which this one was started, by an operator in Python. */
    int listens;
    struct zrt_watch *outer;
} zrt_watch;

/* Call it before the other functions, from one thread at a time; later calls do nothing. `main_thread` is Python's
   number of its main thread; a failure with `words` in its message is that of a run that was ended. Returns 0 or an
   errno. */
int zrt_watch_open(unsigned long main_thread, const char *words);

/* The time in so many seconds, for `end`. */
uint64_t zrt_watch_end_in(double seconds);

/* Begins the watch of a run that follows in this thread, under `watch->run_options`. These are `run_options`, which
   only this run may use, or new ones for NULL. Returns a code (code.h), ZRT_TIMEOUT if the deadline has passed; call
   zrt_watch_end in any case. */
uintptr_t zrt_watch_begin(zrt_watch *watch, const OrtApi *api, OrtRunOptions *run_options, uint64_t end);

/* Ends the watch of a run that returned `code`. Returns the code, or ZRT_TIMEOUT or ZRT_INTERRUPTED if that ended it.
 */
uintptr_t zrt_watch_end(zrt_watch *watch, uintptr_t code);

/* The parts of these two that a run in the background needs: other threads may call them, and without a deadline they
   do nothing. */
uintptr_t zrt_watch_add(zrt_watch *watch);
uintptr_t zrt_watch_remove(zrt_watch *watch, uintptr_t code);

/* zrt_lane_run_with and zrt_call_run with a deadline, and with options that only this run uses, or NULL. The inputs of
   the call are `inputs`, or `values` if that is NULL. */
uintptr_t zrt_lane_run_until(zrt_handle *lane, OrtRunOptions *run_options, uint64_t end);
uintptr_t zrt_call_run_until(zrt_handle *call, OrtRunOptions *run_options, uint64_t end, void *const *inputs,
    OrtValue *const *values, void *const *outputs, zrt_made *made, uintptr_t list);
