#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "made.h"
#include "call.h"
#include "deadline.h"
#include "own_threads.h"
#include "queue.h"
#include "watch.h"
#include "bridge.h"
#include "async.h"

/* A run, and what wakes the threads that wait for it. */
typedef struct background {
    zrt_run run;
    pthread_cond_t over;
} background;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;

/* Runs that wait for a worker; how many workers there are, are idle, and may be. `lock` guards these, the inboxes, and
   what changes in a run once it is started. */
static zrt_queue jobs;
static size_t workers, idle, most;

/* Started runs that have not ended; atomic. */
static size_t under_way;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    /* The parent's threads, which finish these runs there, do not exist in the child. */
    jobs.length = workers = idle = under_way = 0;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&arrived, NULL);
}

int zrt_run_open(size_t limit) {
    static int opened;
    most = limit;
    if (opened)
        return 0;
    int failed = pthread_atfork(before_fork, in_parent, in_child);
    opened = !failed;
    return failed;
}

static int open_pipe(int *ends) {
#ifdef __APPLE__
    if (pipe(ends))
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
#else
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
#endif
}

uintptr_t zrt_inbox_new(const OrtApi *api, zrt_inbox **result) {
    zrt_inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox == NULL)
        return (uintptr_t)api->CreateStatus(ORT_FAIL, "no memory for an event loop's runs");
    int ends[2];
    if (open_pipe(ends)) {
        free(inbox);
        return (uintptr_t)api->CreateStatus(ORT_FAIL, "no pipe can be opened for an event loop's runs");
    }
    inbox->readable = ends[0];
    inbox->writable = ends[1];
    *result = inbox;
    return ZRT_OK;
}

void zrt_inbox_free(void *pointer) {
    zrt_inbox *inbox = pointer;
    close(inbox->readable);
    close(inbox->writable);
    free(inbox);
}

size_t zrt_inbox_take(zrt_inbox *inbox, uint64_t *keys, size_t room) {
    zrt_queue taken = {0};
    pthread_mutex_lock(&lock);
    while (taken.length < room && inbox->ended.length)
        zrt_queue_append(&taken, zrt_queue_pop(&inbox->ended));
    /* With runs left the pipe stays readable. */
    char bytes[64];
    while (inbox->ended.length == 0 && read(inbox->readable, bytes, sizeof bytes) == sizeof bytes)
        ;
    pthread_mutex_unlock(&lock);
    size_t count = 0;
    for (zrt_run *run; (run = (zrt_run *)zrt_queue_pop(&taken)) != NULL;) {
        keys[count++] = run->key;
        zrt_handle_unref(run->handle);
    }
    return count;
}

void zrt_inbox_close(zrt_inbox *inbox) {
    pthread_mutex_lock(&lock);
    inbox->closed = 1;
    zrt_queue left = inbox->ended;
    inbox->ended.length = 0;
    pthread_mutex_unlock(&lock);
    for (zrt_message *message; (message = zrt_queue_pop(&left)) != NULL;)
        zrt_bridge_push(message);
}

static void run_free(void *pointer) {
    zrt_run *run = pointer;
    const zrt_call *call = run->call;
    for (size_t i = 0; run->wrapped && i < call->input_count; i++)
        if (run->inputs[i] != NULL)
            call->api->ReleaseValue(run->inputs[i]);
    for (size_t i = 0; i < call->output_count; i++)
        if (run->outputs[i] != NULL)
            call->api->ReleaseValue(run->outputs[i]);
    if (run->own_options && run->run_options != NULL)
        call->api->ReleaseRunOptions(run->run_options);
    if (run->code > ZRT_LAST)
        call->api->ReleaseStatus((OrtStatus *)run->code);
    pthread_cond_destroy(&((background *)run)->over);
    free(run);
}

zrt_run *zrt_run_new(zrt_handle *handle, uint64_t key, OrtRunOptions *run_options, void *const *inputs, int values,
    void *const *outputs, zrt_made *made, zrt_handle *inbox, uint64_t end) {
    const zrt_call *call = handle->pointer;
    background *block = calloc(1, sizeof *block + (call->input_count + call->output_count) * sizeof(OrtValue *));
    if (block == NULL)
        return NULL;
    pthread_cond_init(&block->over, NULL);
    zrt_run *run = &block->run;
    run->watch.end = end;
    run->watch.api = call->api;
    run->message.kind = ZRT_MESSAGE_RUN;
    run->key = key;
    run->call = call;
    run->inbox = inbox;
    run->run_options = run_options;
    run->wrapped = !values;
    run->made = made;
    run->inputs = (OrtValue **)(block + 1);
    run->outputs = run->inputs + call->input_count;
    run->handle = zrt_handle_new(run, run_free, (zrt_handle *[]){handle, inbox}, inbox == NULL ? 1 : 2);
    if (run->handle == NULL) {
        run_free(run);
        return NULL;
    }
    run->watch.run = run->handle;
    if (run_options == NULL) {
        run->code = (uintptr_t)call->api->CreateRunOptions(&run->run_options);
        run->own_options = 1;
    }
    if (run->code == ZRT_OK)
        run->code = zrt_call_wrap_outputs(call, outputs, made, run->outputs);
    if (values)
        memcpy(run->inputs, inputs, call->input_count * sizeof *inputs);
    else if (run->code == ZRT_OK)
        run->code = zrt_call_wrap_inputs(call, inputs, run->inputs);
    return run;
}

void zrt_run_drop(zrt_run *run) {
    zrt_handle_unref(run->handle);
}

/* Passes on the reference that zrt_run_start took: with the message, or it drops it. */
static void finish(zrt_run *run, uintptr_t code) {
    code = zrt_watch_remove(&run->watch, code);
    if (code == ZRT_OK && run->made != NULL)
        code = (uintptr_t)zrt_made_fill(run->made, run->outputs);
    run->code = code;
    zrt_handle *loop = NULL;
    pthread_mutex_lock(&lock);
    run->ended = 1;
    zrt_inbox *inbox = run->inbox == NULL ? NULL : run->inbox->pointer;
    int to_inbox = inbox != NULL && !inbox->closed;
    if (to_inbox) {
        if (inbox->ended.length == 0)
            loop = zrt_handle_ref(run->inbox);
        zrt_queue_append(&inbox->ended, &run->message);
    }
    int to_waiter = run->waiting != 0;
    if (to_waiter)
        pthread_cond_broadcast(&((background *)run)->over);
    else
        run->reported = 1;
    pthread_mutex_unlock(&lock);
    /* Another thread may free a run that is in an inbox or in the bridge: do not touch it afterwards. */
    if (loop != NULL) {
        if (write(inbox->writable, "", 1) < 0) {
            /* The pipe is full, and so readable. */
        }
        zrt_handle_unref(loop);
    } else if (to_waiter)
        zrt_handle_unref(run->handle);
    else if (!to_inbox)
        zrt_bridge_push(&run->message);
    __atomic_fetch_sub(&under_way, 1, __ATOMIC_RELEASE);
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        idle++;
        while (jobs.length == 0)
            pthread_cond_wait(&arrived, &lock);
        idle--;
        zrt_run *run = (zrt_run *)zrt_queue_pop(&jobs);
        run->taken = 1;
        pthread_mutex_unlock(&lock);
        const zrt_call *call = run->call;
        finish(run, (uintptr_t)call->api->Run(call->session, run->run_options, call->input_names,
                        (const OrtValue *const *)run->inputs, call->input_count, call->output_names, call->output_count,
                        run->outputs));
    }
    return NULL;
}

void zrt_run_start(zrt_run *run) {
    zrt_handle_ref(run->handle);
    __atomic_fetch_add(&under_way, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    run->started = 1;
    pthread_mutex_unlock(&lock);
    uintptr_t code = zrt_watch_add(&run->watch);
    if (code != ZRT_OK) {
        finish(run, code);
        return;
    }
    pthread_mutex_lock(&lock);
    if (jobs.length >= idle && workers < most && zrt_own_thread("zrt-run", worker, NULL) == 0)
        workers++;
    int served = workers != 0;
    if (served) {
        zrt_queue_append(&jobs, &run->message);
        pthread_cond_signal(&arrived);
    }
    pthread_mutex_unlock(&lock);
    if (!served)
        finish(run, (uintptr_t)run->call->api->CreateStatus(ORT_FAIL, "no thread can be started for the run"));
}

void zrt_run_expire(zrt_run *run) {
    OrtStatus *status = NULL;
    pthread_mutex_lock(&lock);
    int waits = !run->taken && zrt_queue_remove(&jobs, &run->message);
    /* Options that the caller gave may be gone once the run has ended. */
    if (!waits && !run->ended)
        status = run->call->api->RunOptionsSetTerminate(run->run_options);
    pthread_mutex_unlock(&lock);
    if (waits)
        finish(run, ZRT_TIMEOUT);
    if (status != NULL)
        run->call->api->ReleaseStatus(status);
}

int zrt_run_wait(zrt_run *run, double seconds) {
    struct timespec end;
    zrt_deadline(seconds, &end);
    /* The interpreter may end meanwhile, with a daemon thread in here. */
    zrt_handle_ref(run->handle);
    pthread_mutex_lock(&lock);
    run->waiting++;
    int waited = 0;
    while (!run->ended && waited == 0)
        waited = pthread_cond_timedwait(&((background *)run)->over, &lock, &end);
    run->waiting--;
    int ended = run->ended;
    pthread_mutex_unlock(&lock);
    zrt_handle_unref(run->handle);
    return ended;
}

void zrt_run_report(zrt_run *run) {
    pthread_mutex_lock(&lock);
    int reports = run->ended && !run->reported;
    if (reports) {
        run->reported = 1;
        zrt_handle_ref(run->handle);
    }
    pthread_mutex_unlock(&lock);
    if (reports)
        zrt_bridge_push(&run->message);
}

size_t zrt_run_count(void) {
    return __atomic_load_n(&under_way, __ATOMIC_ACQUIRE);
}
