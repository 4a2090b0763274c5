#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "made.h"
#include "call.h"
#include "own_threads.h"
#include "queue.h"
#include "watch.h"
#include "async.h"

/* Guards the heap and the `passed` of each watch. The timer ends a run under it, so that the run's thread, which takes
   it before it frees the options, cannot free them meanwhile. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sooner;

/* A pairing heap: it links the watches themselves, so that a run with a deadline allocates nothing for it. */
static zrt_watch *first;
/* When the timer wakes by itself; a later deadline need not wake it. */
static uint64_t wakes = UINT64_MAX;
static int ticks;

/* How many forks came before. */
static unsigned generation;
static const char *ended_words;

static zrt_watch *meld(zrt_watch *a, zrt_watch *b) {
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    if (b->end < a->end) {
        zrt_watch *other = a;
        a = b;
        b = other;
    }
    b->previous = a;
    b->sibling = a->child;
    if (b->sibling != NULL)
        b->sibling->previous = b;
    a->child = b;
    return a;
}

static zrt_watch *meld_all(zrt_watch *each) {
    zrt_watch *pairs = NULL, *melded = NULL, *next;
    for (; each != NULL; each = next) {
        zrt_watch *second = each->sibling;
        next = second == NULL ? NULL : second->sibling;
        zrt_watch *pair = meld(each, second);
        pair->sibling = pairs;
        pairs = pair;
    }
    for (; pairs != NULL; pairs = next) {
        next = pairs->sibling;
        melded = meld(melded, pairs);
    }
    if (melded != NULL)
        melded->sibling = melded->previous = NULL;
    return melded;
}

static void take_out(zrt_watch *watch) {
    if (watch == first)
        first = meld_all(watch->child);
    else {
        if (watch->previous->child == watch)
            watch->previous->child = watch->sibling;
        else
            watch->previous->sibling = watch->sibling;
        if (watch->sibling != NULL)
            watch->sibling->previous = watch->previous;
        first = meld(first, meld_all(watch->child));
    }
    watch->child = watch->sibling = watch->previous = NULL;
    watch->waits = 0;
}

static void end_run(zrt_watch *watch) {
    /* It stores a flag, and its status is always NULL. */
    OrtStatus *status = watch->api->RunOptionsSetTerminate(watch->run_options);
    if (status != NULL)
        watch->api->ReleaseStatus(status);
}

static void wait_until(uint64_t end) {
#ifdef __APPLE__
    uint64_t now = zrt_clock(), left = end > now ? end - now : 0;
    struct timespec span = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    pthread_cond_timedwait_relative_np(&sooner, &lock, &span);
#else
    struct timespec time = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    pthread_cond_timedwait(&sooner, &lock, &time);
#endif
}

static void *tick(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (first == NULL) {
            wakes = UINT64_MAX;
            pthread_cond_wait(&sooner, &lock);
        } else if (zrt_clock() < first->end) {
            wakes = first->end;
            wait_until(wakes);
        } else {
            zrt_watch *watch = first;
            take_out(watch);
            watch->passed = 1;
            zrt_handle *run = watch->run;
            if (run == NULL)
                end_run(watch);
            else {
                zrt_handle_ref(run);
                pthread_mutex_unlock(&lock);
                zrt_run_expire(run->pointer);
                zrt_handle_unref(run);
                pthread_mutex_lock(&lock);
            }
        }
    }
    return NULL;
}

uintptr_t zrt_watch_add(zrt_watch *watch) {
    if (watch->end == 0)
        return ZRT_OK;
    if (watch->end <= zrt_clock())
        return ZRT_TIMEOUT;
    pthread_mutex_lock(&lock);
    int failed = !ticks && zrt_own_thread("zrt-timer", tick, NULL) != 0;
    if (!failed) {
        ticks = watch->waits = 1;
        watch->generation = generation;
        first = meld(first, watch);
        if (watch->end < wakes) {
            wakes = watch->end;
            pthread_cond_signal(&sooner);
        }
    }
    pthread_mutex_unlock(&lock);
    return failed ? (uintptr_t)watch->api->CreateStatus(ORT_FAIL, "no thread can be started for deadlines") : ZRT_OK;
}

uintptr_t zrt_watch_remove(zrt_watch *watch, uintptr_t code) {
    if (watch->end == 0)
        return code;
    pthread_mutex_lock(&lock);
    /* A child that an operator in Python forked has another heap. */
    if (watch->waits && watch->generation == generation)
        take_out(watch);
    int passed = watch->passed;
    pthread_mutex_unlock(&lock);
    int interrupted = __atomic_load_n(&watch->interrupted, __ATOMIC_SEQ_CST);
    if ((!passed && !interrupted) || code <= ZRT_LAST)
        return code;
    /* A run may fail for another reason in that very moment. */
    OrtStatus *status = (OrtStatus *)code;
    if (strstr(watch->api->GetErrorMessage(status), ended_words) == NULL)
        return code;
    watch->api->ReleaseStatus(status);
    return passed ? ZRT_TIMEOUT : ZRT_INTERRUPTED;
}

/* The interrupt. During runs of the main thread with a deadline, its handler calls the one that was there before. */
static pthread_t main_thread;
static zrt_watch *listening;
static struct sigaction before;
/* The handler that another library set over ours during a run, which may call ours. */
static struct sigaction over;
/* How many threads are in the handler. */
static int inside;

static void on_interrupt(int number, siginfo_t *info, void *context) {
    int error = errno;
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    zrt_watch *watch = __atomic_load_n(&listening, __ATOMIC_SEQ_CST);
    for (; watch != NULL; watch = watch->outer) {
        __atomic_store_n(&watch->interrupted, 1, __ATOMIC_SEQ_CST);
        end_run(watch);
    }
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
    errno = error;
}

static int is_ours(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_interrupt;
}

static int same(const struct sigaction *a, const struct sigaction *b) {
    if ((a->sa_flags & SA_SIGINFO) != (b->sa_flags & SA_SIGINFO))
        return 0;
    return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler;
}

static void listen(zrt_watch *watch) {
    if (listening == NULL) {
        struct sigaction there;
        sigaction(SIGINT, NULL, &there);
        if (there.sa_handler == SIG_DFL || there.sa_handler == SIG_IGN)
            return;
        /* Ours may be there still, or below `over`: calling either from ours would never end. */
        if (!is_ours(&there) && !same(&there, &over)) {
            before = there;
            memset(&over, 0, sizeof over);
            there.sa_flags |= SA_SIGINFO;
            there.sa_sigaction = on_interrupt;
            sigaction(SIGINT, &there, NULL);
        }
    }
    watch->listens = 1;
    watch->outer = listening;
    __atomic_store_n(&listening, watch, __ATOMIC_SEQ_CST);
}

static void hush(zrt_watch *watch) {
    __atomic_store_n(&listening, watch->outer, __ATOMIC_SEQ_CST);
    if (watch->outer == NULL) {
        struct sigaction there;
        sigaction(SIGINT, &before, &there);
        /* An operator in Python, or another thread, may have set another handler. */
        if (!is_ours(&there)) {
            if (!same(&there, &before))
                over = there;
            sigaction(SIGINT, &there, NULL);
        }
    }
    while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) != 0)
        ;
    watch->listens = 0;
}

uintptr_t zrt_watch_begin(zrt_watch *watch, const OrtApi *api, OrtRunOptions *run_options, uint64_t end) {
    memset(watch, 0, sizeof *watch);
    watch->end = end;
    watch->api = api;
    watch->run_options = run_options;
    if (run_options == NULL) {
        OrtStatus *status = api->CreateRunOptions(&watch->run_options);
        if (status != NULL)
            return (uintptr_t)status;
        watch->own_options = 1;
    }
    uintptr_t code = zrt_watch_add(watch);
    if (code == ZRT_OK && pthread_equal(main_thread, pthread_self()))
        listen(watch);
    return code;
}

uintptr_t zrt_watch_end(zrt_watch *watch, uintptr_t code) {
    if (watch->listens)
        hush(watch);
    code = zrt_watch_remove(watch, code);
    if (watch->own_options)
        watch->api->ReleaseRunOptions(watch->run_options);
    return code;
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static int open_condition(void) {
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error != 0)
        return error;
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    error = pthread_cond_init(&sooner, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

static void in_child(void) {
    /* The timer and the other threads, whose runs these are, do not exist in the child. */
    first = NULL;
    wakes = UINT64_MAX;
    ticks = 0;
    generation++;
    pthread_mutex_init(&lock, NULL);
    open_condition();
    inside = 0;
    if (listening != NULL && !pthread_equal(main_thread, pthread_self())) {
        listening = NULL;
        sigaction(SIGINT, &before, NULL);
    }
    /* As in Python: the thread that forked. */
    main_thread = pthread_self();
}

int zrt_watch_open(unsigned long thread, const char *words) {
    static int opened;
    if (opened)
        return 0;
    char *copy = strdup(words);
    if (copy == NULL)
        return ENOMEM;
    main_thread = (pthread_t)thread;
    int error = open_condition();
    if (error == 0)
        error = pthread_atfork(before_fork, in_parent, in_child);
    if (error != 0) {
        free(copy);
        return error;
    }
    ended_words = copy;
    opened = 1;
    return 0;
}

uint64_t zrt_watch_end_in(double seconds) {
    return zrt_clock() + (uint64_t)(seconds * 1e9);
}

uintptr_t zrt_lane_run_until(zrt_handle *handle, OrtRunOptions *run_options, uint64_t end) {
    const zrt_lane *lane = handle->pointer;
    zrt_watch watch;
    uintptr_t code = zrt_watch_begin(&watch, lane->api, run_options, end);
    if (code == ZRT_OK)
        code = zrt_lane_run_with(handle, watch.run_options);
    return zrt_watch_end(&watch, code);
}

uintptr_t zrt_call_run_until(zrt_handle *handle, OrtRunOptions *run_options, uint64_t end, void *const *inputs,
    OrtValue *const *values, void *const *outputs, zrt_made *made, uintptr_t list) {
    const zrt_call *call = handle->pointer;
    zrt_watch watch;
    uintptr_t code = zrt_watch_begin(&watch, call->api, run_options, end);
    if (code == ZRT_OK && inputs != NULL)
        code = zrt_call_run(handle, watch.run_options, inputs, outputs, made, list);
    else if (code == ZRT_OK)
        code = zrt_call_run_values(handle, watch.run_options, values, outputs, made, list);
    return zrt_watch_end(&watch, code);
}
