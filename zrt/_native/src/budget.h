/* The budget of CPUs: no more runs at a time than it has places, first in, first out. Without one nothing here is
   called. */
#pragma once

/* The counters at one instant. */
typedef struct zrt_budget {
    size_t places;
    size_t free;
    size_t waiting;
    /* How many runs took places, and how many nanoseconds runs waited. */
    uint64_t runs;
    uint64_t waited;
} zrt_budget;

/* Call it once, before zrt_watch_open registers its own handlers of forks. Returns 0 or an errno. */
int zrt_budget_open(void);

/* Sets ONNX Runtime's table and the number of places, at most 32767; 0: no budget. Call it before there are sessions.
 */
void zrt_budget_set(const OrtApi *api, size_t places);

/* Lets the runs by this copy of ONNX Runtime's table take places, if there is a budget. */
void zrt_budget_install(OrtApi *table);

/* Lets the runs of a session take several places, or those that are free; all others take one. `bound`: only the
   threads of their callers compute them, even those that waited. Returns 0, or -1 without memory. Release the session
   by zrt_budget_release then. */
int zrt_budget_enter(OrtSession *session, size_t places, int bound);
void zrt_budget_release(OrtSession *session);

/* For how many nanoseconds the last run of this thread waited for its turn. */
uint64_t zrt_budget_waited(void);

/* Ends the runs that wait under these options, which were terminated. */
void zrt_budget_wake(const OrtRunOptions *run_options);

/* Marks that this thread computes a part of a run, until the mark that it returns is set again. Runs inside a run take
   no place: to wait for one that the outer run holds would be a deadlock. */
int zrt_budget_mark(int inside);

void zrt_budget_read(zrt_budget *budget);
