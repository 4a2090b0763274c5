#define _GNU_SOURCE
#include <Python.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "watch.h"
#include "budget.h"
#include "wait.h"

/* While a run of the main thread is watched, the timer looks for an interrupt so often: a signal handler cannot wake
   it. */
#define LOOK_NANOSECONDS 20000000u

/* Guards all that follows up to the interrupt. The timer ends a run under it, so that the run's thread, which takes it
   before it frees the options, cannot free them meanwhile. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sooner;

/* The runs in any order: few wait at a time, and the timer wakes for the earliest. */
static zrt_watch *watches;
/* When the timer wakes by itself; a later deadline need not wake it. */
static uint64_t wakes = UINT64_MAX;
static int ticks;

/* One more than the forks that came before. A watch has it while it is in the list. */
static unsigned generation = 1;
static const char *ended_words;
static pthread_t main_thread;

/* The interrupt. Only the main thread uses these, but for the flag. */
static int interrupt_came;
static int interruptible_runs;
static struct sigaction replaced;

static void end_run(zrt_watch *watch) {
    /* It stores a flag, and its status is always NULL. */
    OrtStatus *status = watch->api->RunOptionsSetTerminate(watch->run_options);
    if (status != NULL)
        watch->api->ReleaseStatus(status);
    zrt_budget_wake(watch->run_options);
}

/* Ends the runs that are due; returns when to look again. */
static uint64_t look(void) {
    /* A wake that is already planned stays: in a loop of short runs hardly any wakes the timer then. */
    uint64_t now = zrt_clock(), next = wakes > now ? wakes : UINT64_MAX;
    int interrupted = __atomic_exchange_n(&interrupt_came, 0, __ATOMIC_SEQ_CST);
    for (zrt_watch *watch = watches; watch != NULL; watch = watch->next) {
        uint64_t due = watch->end;
        if (watch->passed || watch->interrupted)
            continue;
        watch->passed = watch->end <= now;
        watch->interrupted = interrupted && watch->interruptible;
        if (watch->passed || watch->interrupted)
            end_run(watch);
        else if (watch->interruptible && now + LOOK_NANOSECONDS < due)
            due = now + LOOK_NANOSECONDS;
        if (due > now && due < next)
            next = due;
    }
    return next;
}

static void *tick(void *unused) {
    (void)unused;
#ifdef __APPLE__
    pthread_setname_np("zrt-timer");
#else
    pthread_setname_np(pthread_self(), "zrt-timer");
#endif
    pthread_mutex_lock(&lock);
    for (;;) {
        wakes = look();
        if (wakes == UINT64_MAX) {
            pthread_cond_wait(&sooner, &lock);
            continue;
        }
        zrt_wait(&sooner, &lock, wakes);
    }
    return NULL;
}

/* Starts the timer if it does not run. Returns 0 or an errno. */
static int start_timer(void) {
    if (ticks)
        return 0;
    /* Python's own threads handle signals. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, tick, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    ticks = error == 0;
    return error;
}

/* It calls only functions that a signal handler may call. */
static void on_interrupt(int number) {
    int error = errno;
    __atomic_store_n(&interrupt_came, 1, __ATOMIC_SEQ_CST);
    /* As the handler of Python, in the place of which this one is. */
    PyErr_SetInterruptEx(number);
    errno = error;
}

static int is_ours(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == on_interrupt;
}

/* Puts our handler in the place of Python's. Returns 0 where SIGINT is ignored or ends the process. */
static int listen(void) {
    struct sigaction ours;
    sigaction(SIGINT, NULL, &ours);
    if (ours.sa_handler == SIG_DFL || ours.sa_handler == SIG_IGN)
        return 0;
    if (interruptible_runs++ == 0) {
        replaced = ours;
        ours.sa_flags &= ~SA_SIGINFO;
        ours.sa_handler = on_interrupt;
        __atomic_store_n(&interrupt_came, 0, __ATOMIC_SEQ_CST);
        sigaction(SIGINT, &ours, NULL);
    }
    return 1;
}

static void restore(void) {
    struct sigaction there;
    sigaction(SIGINT, &replaced, &there);
    /* An operator in Python, or another thread, may have set another handler. It stays; if it calls ours, Python gets
       the interrupt. */
    if (!is_ours(&there))
        sigaction(SIGINT, &there, NULL);
}

int zrt_watch_hears(void) {
    return pthread_equal(main_thread, pthread_self());
}

int zrt_watch_over(const OrtRunOptions *run_options) {
    int over = 0;
    pthread_mutex_lock(&lock);
    for (zrt_watch *watch = watches; watch != NULL && !over; watch = watch->next)
        over = watch->run_options == run_options && (watch->passed || watch->interrupted);
    pthread_mutex_unlock(&lock);
    return over;
}

uintptr_t zrt_watch_begin(zrt_watch *watch, const OrtApi *api, OrtRunOptions *run_options, uint64_t end) {
    *watch = (zrt_watch){.end = end, .api = api, .run_options = run_options, .own_options = run_options == NULL};
    if (run_options == NULL) {
        OrtStatus *status = api->CreateRunOptions(&watch->run_options);
        if (status != NULL)
            return (uintptr_t)status;
    }
    uint64_t now = zrt_clock(), due = end;
    if (end <= now)
        return ZRT_TIMEOUT;
    if (zrt_watch_hears() && (watch->interruptible = listen()) && now + LOOK_NANOSECONDS < due)
        due = now + LOOK_NANOSECONDS;
    pthread_mutex_lock(&lock);
    int failed = start_timer();
    if (!failed) {
        watch->generation = generation;
        watch->next = watches;
        watch->link = &watches;
        if (watches != NULL)
            watches->link = &watch->next;
        watches = watch;
        if (due < wakes) {
            wakes = due;
            pthread_cond_signal(&sooner);
        }
    }
    pthread_mutex_unlock(&lock);
    return failed ? (uintptr_t)api->CreateStatus(ORT_FAIL, "no thread can be started for deadlines") : ZRT_OK;
}

uintptr_t zrt_watch_end(zrt_watch *watch, uintptr_t code) {
    if (watch->interruptible && --interruptible_runs == 0)
        restore();
    /* Not in the list where it has not begun. Other runs change its link, but not this. */
    if (watch->generation != 0) {
        pthread_mutex_lock(&lock);
        if (watch->generation == generation) {
            *watch->link = watch->next;
            if (watch->next != NULL)
                watch->next->link = watch->link;
        }
        pthread_mutex_unlock(&lock);
    }
    /* A run may fail for another reason in that very moment. */
    if ((watch->passed || watch->interrupted) && code > ZRT_LAST &&
        strstr(watch->api->GetErrorMessage((OrtStatus *)code), ended_words) != NULL) {
        watch->api->ReleaseStatus((OrtStatus *)code);
        code = watch->passed ? ZRT_TIMEOUT : ZRT_INTERRUPTED;
    }
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

static void in_child(void) {
    /* The timer and the other threads, whose runs these are, do not exist in the child. */
    watches = NULL;
    wakes = UINT64_MAX;
    ticks = 0;
    generation++;
    pthread_mutex_init(&lock, NULL);
    zrt_wait_open(&sooner);
    if (interruptible_runs != 0 && !pthread_equal(main_thread, pthread_self())) {
        interruptible_runs = 0;
        restore();
    }
    /* As in Python: the thread that forked. */
    main_thread = pthread_self();
}

int zrt_watch_open(unsigned long thread, const char *words) {
    ended_words = strdup(words);
    if (ended_words == NULL)
        return ENOMEM;
    main_thread = (pthread_t)thread;
    int error = zrt_wait_open(&sooner);
    /* The handlers before a fork are last-in, first-out: this file's lock is taken before that of the budget, as in
       end_run. */
    if (error == 0)
        error = zrt_budget_open();
    return error != 0 ? error : pthread_atfork(before_fork, in_parent, in_child);
}
