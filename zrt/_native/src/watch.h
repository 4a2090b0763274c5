/* Ends runs at their deadlines, and those of the main thread at an interrupt (SIGINT) too. One thread serves all
   deadlines; it starts with the first one. */
#pragma once

/* A run with a deadline, owned by the run's thread. */
typedef struct zrt_watch {
    /* On zrt_clock. */
    uint64_t end;
    const OrtApi *api;
    /* Options that no other run uses: ending this run must end no other. And whether the watch made them. */
    OrtRunOptions *run_options;
    int own_options;
    /* Whether the deadline passed, and whether an interrupt came, before the run ended. */
    int passed;
    int interrupted;
    /* Whether an interrupt ends the run. */
    int interruptible;
    /* In the list of all watches the next one, and the pointer to this one. How many forks came before it: a child has
       another list. */
    struct zrt_watch *next;
    struct zrt_watch **link;
    unsigned generation;
} zrt_watch;

/* Call it once, before the other functions. `main_thread` is Python's number of its main thread; a failure with `words`
   in its message is that of a run that was ended. Returns 0 or an errno. */
int zrt_watch_open(unsigned long main_thread, const char *words);

/* Begins the watch of a run that follows in this thread, under `watch->run_options`. These are `run_options`, which
   only this run may use, or new ones for NULL. Returns a code (code.h), ZRT_TIMEOUT if the deadline has passed; call
   zrt_watch_end in any case. */
uintptr_t zrt_watch_begin(zrt_watch *watch, const OrtApi *api, OrtRunOptions *run_options, uint64_t end);

/* Ends the watch of a run that returned `code`. Returns the code, or ZRT_TIMEOUT or ZRT_INTERRUPTED if that ended it.
 */
uintptr_t zrt_watch_end(zrt_watch *watch, uintptr_t code);

/* Whether a watch of this thread would end at an interrupt. */
int zrt_watch_hears(void);

/* Whether a watched run under these options was ended. */
int zrt_watch_over(const OrtRunOptions *run_options);
