#define _GNU_SOURCE
#include <Python.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "log.h"
#include "log_callback.h"
#include "watch.h"
#include "budget.h"

/* The least stack of a worker: kernels need more than some systems give to a thread. */
#define STACK_BYTES (8u << 20)

/* A run, by ``RunWithBinding`` where there is a binding and by ``Run`` else, on the stack of its caller. Where no place
   is free, it stands in the line until its turn comes or it is ended: the thread that takes it out of the line opens
   the gate, as its last use of the run. */
typedef struct run {
    OrtSession *session;
    const OrtRunOptions *options;
    const OrtIoBinding *binding;
    const char *const *input_names;
    const OrtValue *const *inputs;
    size_t input_count;
    const char *const *output_names;
    size_t output_count;
    OrtValue **outputs;

    size_t wanted;
    /* Whether only its caller's thread may compute it. */
    int bound;
    /* Those of the watch that ends the wait at an interrupt; NULL outside of the main thread. */
    const OrtRunOptions *watched;
    uint64_t since;
    /* How its thread rounds, and whether it flushes denormals to zero. */
    fenv_t arithmetic;
    /* 0 for a run that was ended. */
    size_t granted;
    uint64_t waited;
    /* Whether a worker has computed it, with this result. */
    int computed;
    OrtStatus *status;
    PyThread_type_lock gate;
    struct run *next;
} run;

/* A session whose runs take several places, or are bound to the threads of their callers. Entries stay, and later
   sessions use them again: so runs read them without a lock. */
typedef struct entry {
    OrtSession *session;
    size_t places;
    int bound;
    struct entry *next;
} entry;

/* The state in one word: the free places, whether a run waits, and the number of runs. While a run waits, only the
   holder of the lock changes it. */
#define FREE 0x7fffu
#define WAITING 0x8000u
#define RUN 0x10000u
static uint64_t state;

/* Guards all that follows up to the entries. A thread that has the lock of watch.c may take it, never the other way
   round. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static run *first, **last = &first;
static size_t waiting;
static uint64_t waited;
/* The threads that compute runs from the line. A caller that got the place itself would first have to wake up, and its
   CPU would be idle meanwhile; a worker goes from one run to the next. */
static pthread_cond_t served = PTHREAD_COND_INITIALIZER;
static size_t workers, computing;
static entry *entries;

static size_t places;
static const OrtApi *api;
#ifdef __linux__
/* Those that the thread that made the budget may use. */
static cpu_set_t cpus;
static int cpus_known;
#endif

/* How many forks came before: in a child no run of the parent holds places. */
static unsigned generation;

/* Whether this thread computes a part of a run. */
static _Thread_local int inside;

static _Thread_local uint64_t last_waited;

static size_t least(size_t one, size_t other) {
    return one < other ? one : other;
}

static OrtStatus *compute(const run *run) {
    if (run->binding != NULL)
        return api->RunWithBinding(run->session, run->options, run->binding);
    return api->Run(run->session, run->options, run->input_names, run->inputs, run->input_count, run->output_names,
        run->output_count, run->outputs);
}

/* Whether the first run of the line can have its turn. The caller has the lock, here and in what follows. */
static int has_turn(void) {
    return first != NULL && (__atomic_load_n(&state, __ATOMIC_RELAXED) & FREE) != 0;
}

static void end_line(void) {
    last = &first;
    __atomic_fetch_and(&state, ~(uint64_t)WAITING, __ATOMIC_RELEASE);
}

/* Takes the first run, which has its turn, out of the line. */
static run *grant(void) {
    run *granted = first;
    granted->granted = least(granted->wanted, __atomic_load_n(&state, __ATOMIC_RELAXED) & FREE);
    __atomic_fetch_add(&state, RUN - granted->granted, __ATOMIC_ACQUIRE);
    granted->waited = zrt_clock() - granted->since;
    waited += granted->waited;
    waiting--;
    first = granted->next;
    if (first == NULL)
        end_line();
    return granted;
}

/* Takes the bound runs at the head of the line that have their turn. */
static run *grant_bound(void) {
    run *granted = NULL;
    while (has_turn() && first->bound) {
        run *next = grant();
        next->next = granted;
        granted = next;
    }
    return granted;
}

/* Without the lock, for which a thread that wakes would have to wait again. */
static void open_gates(run *granted) {
    while (granted != NULL) {
        run *next = granted->next;
        PyThread_release_lock(granted->gate);
        granted = next;
    }
}

/* Gives the runs at the head of the line their turn, and the lock back. */
static void unlock_and_serve(void) {
    run *granted = grant_bound();
    int more = has_turn();
    pthread_mutex_unlock(&lock);
    if (more)
        pthread_cond_signal(&served);
    open_gates(granted);
}

static void give(size_t count) {
    uint64_t now = __atomic_load_n(&state, __ATOMIC_RELAXED);
    while (!(now & WAITING))
        if (__atomic_compare_exchange_n(&state, &now, now + count, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
    pthread_mutex_lock(&lock);
    __atomic_fetch_add(&state, count, __ATOMIC_RELEASE);
    unlock_and_serve();
}

static void *work(void *unused) {
    (void)unused;
#ifdef __APPLE__
    pthread_setname_np("zrt-budget");
#else
    pthread_setname_np(pthread_self(), "zrt-budget");
#endif
#ifdef __linux__
    /* A new thread has those of the caller that waited, who may have given itself fewer. */
    if (cpus_known)
        sched_setaffinity(0, sizeof cpus, &cpus);
#endif
    inside = 1;
    run *done = NULL;
    pthread_mutex_lock(&lock);
    for (;;) {
        run *next = has_turn() && !first->bound ? grant() : NULL;
        computing += next != NULL;
        unlock_and_serve();
        if (done != NULL)
            PyThread_release_lock(done->gate);
        done = next;
        if (next != NULL) {
            fesetenv(&next->arithmetic);
            next->status = compute(next);
            next->computed = 1;
        }
        pthread_mutex_lock(&lock);
        if (next != NULL) {
            computing--;
            __atomic_fetch_add(&state, next->granted, __ATOMIC_RELEASE);
        } else
            while (!has_turn())
                pthread_cond_wait(&served, &lock);
    }
    return NULL;
}

/* Starts a worker unless there are enough: as many as places, or one for each run that waits. Returns whether there is
   any. */
static int start_worker(void) {
    if (workers == places || workers - computing > waiting)
        return 1;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return workers != 0;
    size_t stack = 0;
    pthread_attr_getstacksize(&attributes, &stack);
    if (stack < STACK_BYTES)
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* Python's own threads handle signals. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    /* Not by Python's function: where it traces memory, that would wait for the GIL, and a thread with the GIL that
       forks waits for our lock. */
    pthread_t thread;
    workers += pthread_create(&thread, &attributes, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return workers != 0;
}

/* Waits until the run was computed or ended, or has places. Returns a code. */
static uintptr_t wait_in_line(run *self) {
    self->since = zrt_clock();
    fegetenv(&self->arithmetic);
    /* A worker is no thread of Python's. */
    if (zrt_log_has_callback())
        self->bound = 1;
    pthread_mutex_lock(&lock);
    if (!self->bound && !start_worker()) {
        pthread_mutex_unlock(&lock);
        return (uintptr_t)api->CreateStatus(ORT_FAIL, "no thread can be started for runs that wait for a CPU");
    }
    __atomic_fetch_or(&state, WAITING, __ATOMIC_ACQUIRE);
    *last = self;
    last = &self->next;
    waiting++;
    unlock_and_serve();
    /* A run may have been ended before it was in the line, where zrt_budget_wake did not find it. */
    if (zrt_watch_over(self->options))
        zrt_budget_wake(self->options);
    if (zrt_watch_over(self->watched))
        zrt_budget_wake(self->watched);
    PyThread_acquire_lock(self->gate, WAIT_LOCK);
    return ZRT_OK;
}

/* wait_in_line, in the main thread until an interrupt comes. */
static uintptr_t wait_watched(run *self) {
    if (!zrt_watch_hears())
        return wait_in_line(self);
    zrt_watch watch;
    uintptr_t code = zrt_watch_begin(&watch, api, NULL, UINT64_MAX);
    if (code == ZRT_OK) {
        self->watched = watch.run_options;
        code = wait_in_line(self);
    }
    code = zrt_watch_end(&watch, code);
    /* Python raises the interrupt of a run that was computed meanwhile. */
    if (code != ZRT_OK || !watch.interrupted || self->computed)
        return code;
    if (self->granted != 0)
        give(self->granted);
    return ZRT_INTERRUPTED;
}

/* Takes places if there is a free one and no run waits. */
static int take(run *self) {
    uint64_t now = __atomic_load_n(&state, __ATOMIC_RELAXED);
    while (!(now & WAITING) && (now & FREE)) {
        self->granted = least(self->wanted, now & FREE);
        if (__atomic_compare_exchange_n(&state, &now, now + RUN - self->granted, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
    }
    self->granted = 0;
    return 0;
}

static uintptr_t wait_for_turn(run *self) {
    self->gate = PyThread_allocate_lock();
    if (self->gate == NULL)
        return ZRT_NO_MEMORY;
    PyThread_acquire_lock(self->gate, NOWAIT_LOCK);
    uintptr_t code = wait_watched(self);
    PyThread_free_lock(self->gate);
    return code;
}

/* The result of a code other than ZRT_OK is no status but that code. */
static OrtStatus *take_turn(run *self) {
    if (inside)
        return compute(self);
    self->wanted = 1;
    for (entry *entry = __atomic_load_n(&entries, __ATOMIC_ACQUIRE); entry != NULL; entry = entry->next)
        if (__atomic_load_n(&entry->session, __ATOMIC_ACQUIRE) == self->session) {
            self->wanted = entry->places;
            self->bound = entry->bound;
            break;
        }
    uintptr_t code = take(self) ? ZRT_OK : wait_for_turn(self);
    if (code != ZRT_OK)
        return (OrtStatus *)code;
    if (self->computed)
        return self->status;
    /* Its options may have been reset since they ended it: so ONNX Runtime, which would compute it, does not see it.
       Python and watch.c know an ended run by "terminate flag" (ort_messages.py). */
    if (self->granted == 0)
        return api->CreateStatus(ORT_FAIL, "the run ended while it waited for a CPU: its terminate flag was set");
    unsigned begun = generation;
    inside = 1;
    OrtStatus *status = compute(self);
    inside = 0;
    if (begun == generation)
        give(self->granted);
    return status;
}

static OrtStatus *run_in_turn(run *self) {
    OrtStatus *status = take_turn(self);
    last_waited = self->waited;
    return status;
}

static OrtStatus *run_by_names(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
    const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
    OrtValue **outputs) {
    run self = {.session = session,
        .options = options,
        .input_names = input_names,
        .inputs = inputs,
        .input_count = input_count,
        .output_names = output_names,
        .output_count = output_count,
        .outputs = outputs};
    return run_in_turn(&self);
}

static OrtStatus *run_with_binding(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
    run self = {.session = session, .options = options, .binding = binding};
    return run_in_turn(&self);
}

void zrt_budget_set(const OrtApi *table, size_t count) {
    api = table;
    places = count;
    state = count;
#ifdef __linux__
    cpus_known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
#endif
}

void zrt_budget_install(OrtApi *table) {
    if (places == 0)
        return;
    table->Run = run_by_names;
    table->RunWithBinding = run_with_binding;
}

int zrt_budget_enter(OrtSession *session, size_t count, int bound) {
    pthread_mutex_lock(&lock);
    entry *entry = entries;
    while (entry != NULL && __atomic_load_n(&entry->session, __ATOMIC_ACQUIRE) != NULL)
        entry = entry->next;
    if (entry == NULL && (entry = calloc(1, sizeof *entry)) != NULL) {
        entry->next = entries;
        __atomic_store_n(&entries, entry, __ATOMIC_RELEASE);
    }
    if (entry != NULL) {
        entry->places = least(count, places);
        entry->bound = bound;
        __atomic_store_n(&entry->session, session, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return entry == NULL ? -1 : 0;
}

void zrt_budget_release(OrtSession *session) {
    for (entry *entry = __atomic_load_n(&entries, __ATOMIC_ACQUIRE); entry != NULL; entry = entry->next)
        if (__atomic_load_n(&entry->session, __ATOMIC_RELAXED) == session)
            __atomic_store_n(&entry->session, NULL, __ATOMIC_RELEASE);
    api->ReleaseSession(session);
}

void zrt_budget_wake(const OrtRunOptions *run_options) {
    if (!(__atomic_load_n(&state, __ATOMIC_ACQUIRE) & WAITING))
        return;
    pthread_mutex_lock(&lock);
    run *ended = NULL;
    for (run **link = &first; *link != NULL;) {
        run *each = *link;
        if (each->options == run_options || each->watched == run_options) {
            *link = each->next;
            each->next = ended;
            ended = each;
            waiting--;
            each->waited = zrt_clock() - each->since;
            waited += each->waited;
        } else
            link = &each->next;
        last = link;
    }
    if (first == NULL)
        end_line();
    unlock_and_serve();
    open_gates(ended);
}

int zrt_budget_mark(int mark) {
    int before = inside;
    inside = mark;
    return before;
}

uint64_t zrt_budget_waited(void) {
    return last_waited;
}

void zrt_budget_read(zrt_budget *budget) {
    pthread_mutex_lock(&lock);
    uint64_t now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    *budget = (zrt_budget){places, now & FREE, waiting, now / RUN, waited};
    pthread_mutex_unlock(&lock);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    /* The runs that held places and those that waited are the parent's. */
    first = NULL;
    last = &first;
    waiting = 0;
    waited = 0;
    workers = computing = 0;
    state = places;
    generation++;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&served, NULL);
}

int zrt_budget_open(void) {
    return pthread_atfork(before_fork, in_parent, in_child);
}
