#include <Python.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "watch.h"
#include "budget.h"

/* A run that waits for places, on the stack of its thread. It stands in the line until its turn comes or it is ended:
   the thread that takes it out of the line opens the gate, as its last use of the waiter. */
typedef struct waiter {
    const OrtRunOptions *run_options;
    /* Those of the watch that ends the wait at an interrupt; NULL outside of the main thread. */
    const OrtRunOptions *watched;
    size_t wanted;
    /* 0 for a run that was ended. */
    size_t granted;
    PyThread_type_lock gate;
    struct waiter *next;
} waiter;

/* A session whose runs take several places. Entries stay, and later sessions use them again: so runs read them without
   a lock. */
typedef struct entry {
    OrtSession *session;
    size_t places;
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
static waiter *first, **last = &first;
static size_t waiting;
static uint64_t waited;
static entry *entries;

static size_t places;
static const OrtApi *api;

/* How many forks came before: in a child no run of the parent holds places. */
static unsigned generation;

/* Whether this thread computes a part of a run: how many runs are inside each other. */
static _Thread_local int inside;

static size_t least(size_t one, size_t other) {
    return one < other ? one : other;
}

/* Grants free places to the runs that wait, and returns those whose gates are to be opened. The caller has the lock,
   and WAITING is set. */
static waiter *grant(void) {
    waiter *granted = NULL;
    uint64_t now = __atomic_load_n(&state, __ATOMIC_RELAXED);
    while (first != NULL && (now & FREE) != 0) {
        waiter *next = first;
        first = next->next;
        next->granted = least(next->wanted, now & FREE);
        now += RUN - next->granted;
        next->next = granted;
        granted = next;
        waiting--;
    }
    if (first == NULL) {
        last = &first;
        now &= ~(uint64_t)WAITING;
    }
    __atomic_store_n(&state, now, __ATOMIC_RELEASE);
    return granted;
}

/* Without the lock, for which a thread that wakes would have to wait again. */
static void open_gates(waiter *granted) {
    while (granted != NULL) {
        waiter *next = granted->next;
        PyThread_release_lock(granted->gate);
        granted = next;
    }
}

static void give(size_t count) {
    uint64_t now = __atomic_load_n(&state, __ATOMIC_RELAXED);
    while (!(now & WAITING))
        if (__atomic_compare_exchange_n(&state, &now, now + count, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
    pthread_mutex_lock(&lock);
    __atomic_fetch_add(&state, count, __ATOMIC_RELEASE);
    waiter *granted = grant();
    pthread_mutex_unlock(&lock);
    open_gates(granted);
}

/* Waits for places. The result is 0 where the run was ended meanwhile. */
static size_t wait_in_line(waiter *self) {
    uint64_t since = zrt_clock();
    pthread_mutex_lock(&lock);
    __atomic_fetch_or(&state, WAITING, __ATOMIC_ACQUIRE);
    *last = self;
    last = &self->next;
    waiting++;
    waiter *granted = grant();
    pthread_mutex_unlock(&lock);
    open_gates(granted);
    /* A run may have been ended before it was in the line, where zrt_budget_wake did not find it. */
    if (zrt_watch_over(self->run_options))
        zrt_budget_wake(self->run_options);
    if (zrt_watch_over(self->watched))
        zrt_budget_wake(self->watched);
    PyThread_acquire_lock(self->gate, WAIT_LOCK);
    __atomic_fetch_add(&waited, zrt_clock() - since, __ATOMIC_RELAXED);
    return self->granted;
}

/* Waits for places, in the main thread until an interrupt comes. Returns a code. */
static uintptr_t wait_watched(waiter *self, size_t *taken) {
    if (!zrt_watch_hears()) {
        *taken = wait_in_line(self);
        return ZRT_OK;
    }
    zrt_watch watch;
    uintptr_t code = zrt_watch_begin(&watch, api, NULL, UINT64_MAX);
    if (code == ZRT_OK) {
        self->watched = watch.run_options;
        *taken = wait_in_line(self);
    }
    code = zrt_watch_end(&watch, code);
    if (!watch.interrupted)
        return code;
    if (*taken != 0)
        give(*taken);
    return ZRT_INTERRUPTED;
}

/* Takes places, at least one, and stores how many: 0 for a run that was ended while it waited. Returns a code. */
static uintptr_t take(size_t wanted, const OrtRunOptions *run_options, size_t *taken) {
    uint64_t now = __atomic_load_n(&state, __ATOMIC_RELAXED);
    while (!(now & WAITING) && (now & FREE)) {
        *taken = least(wanted, now & FREE);
        if (__atomic_compare_exchange_n(&state, &now, now + RUN - *taken, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return ZRT_OK;
    }
    *taken = 0;
    waiter self = {.run_options = run_options, .wanted = wanted, .gate = PyThread_allocate_lock()};
    if (self.gate == NULL)
        return ZRT_NO_MEMORY;
    PyThread_acquire_lock(self.gate, NOWAIT_LOCK);
    uintptr_t code = wait_watched(&self, taken);
    PyThread_free_lock(self.gate);
    return code;
}

static size_t places_of(const OrtSession *session) {
    for (entry *entry = __atomic_load_n(&entries, __ATOMIC_ACQUIRE); entry != NULL; entry = entry->next)
        if (__atomic_load_n(&entry->session, __ATOMIC_ACQUIRE) == session)
            return entry->places;
    return 1;
}

/* The places of a run. */
typedef struct share {
    size_t taken;
    unsigned generation;
} share;

/* Returns a code: at any but ZRT_OK nothing may run. */
static uintptr_t begin(share *share, const OrtSession *session, const OrtRunOptions *run_options) {
    *share = (struct share){0, generation};
    uintptr_t code = inside ? ZRT_OK : take(places_of(session), run_options, &share->taken);
    inside += code == ZRT_OK;
    return code;
}

static OrtStatus *end(const share *share, OrtStatus *status) {
    inside--;
    if (share->taken != 0 && share->generation == generation)
        give(share->taken);
    return status;
}

static OrtStatus *run(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
    const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
    OrtValue **outputs) {
    share share;
    uintptr_t code = begin(&share, session, run_options);
    if (code != ZRT_OK)
        return (OrtStatus *)code;
    return end(
        &share, api->Run(session, run_options, input_names, inputs, input_count, output_names, output_count, outputs));
}

static OrtStatus *run_with_binding(OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding) {
    share share;
    uintptr_t code = begin(&share, session, run_options);
    if (code != ZRT_OK)
        return (OrtStatus *)code;
    return end(&share, api->RunWithBinding(session, run_options, binding));
}

void zrt_budget_set(const OrtApi *table, size_t count) {
    api = table;
    places = count;
    state = count;
}

void zrt_budget_install(OrtApi *table) {
    if (places == 0)
        return;
    table->Run = run;
    table->RunWithBinding = run_with_binding;
}

int zrt_budget_enter(OrtSession *session, size_t count) {
    pthread_mutex_lock(&lock);
    entry *entry = entries;
    while (entry != NULL && entry->session != NULL)
        entry = entry->next;
    if (entry == NULL && (entry = calloc(1, sizeof *entry)) != NULL) {
        entry->next = entries;
        __atomic_store_n(&entries, entry, __ATOMIC_RELEASE);
    }
    if (entry != NULL) {
        entry->places = least(count, places);
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
    waiter *ended = NULL;
    for (waiter **link = &first; *link != NULL;) {
        waiter *each = *link;
        if (each->run_options == run_options || each->watched == run_options) {
            *link = each->next;
            each->next = ended;
            ended = each;
            waiting--;
        } else
            link = &each->next;
        if (*link == NULL)
            last = link;
    }
    /* No place is free while a run waits: it is for the flag WAITING. */
    grant();
    pthread_mutex_unlock(&lock);
    open_gates(ended);
}

int zrt_budget_mark(int mark) {
    int before = inside;
    inside = mark;
    return before;
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
    state = places;
    generation++;
    pthread_mutex_init(&lock, NULL);
}

int zrt_budget_open(void) {
    return pthread_atfork(before_fork, in_parent, in_child);
}
