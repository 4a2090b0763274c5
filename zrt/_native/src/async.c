#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "made.h"
#include "call.h"
#include "queue.h"
#include "bridge.h"
#include "async.h"

/* How many runs ONNX Runtime's threads have at a time. Its pools have room for 1,024 tasks a thread and run further
   ones on the calling thread, which would block an event loop. */
#define AT_ONCE 512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;

/* Runs that wait for ONNX Runtime's threads, and how many these have. `lock` guards this and all that follows. */
static zrt_queue queued;
static size_t at_once;

/* Runs that wait for our own workers; how many workers there are, are idle, and may be. */
static zrt_queue jobs;
static size_t workers, idle, most;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    /* The parent's threads, which finish these runs there, do not exist in the child. */
    queued.length = jobs.length = at_once = workers = idle = 0;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&arrived, NULL);
}

int zrt_run_open(size_t limit) {
    most = limit;
    return pthread_atfork(before_fork, in_parent, in_child);
}

uintptr_t zrt_run_new(zrt_handle *handle, OrtRunOptions *run_options, void *const *inputs, int values,
    void *const *outputs, zrt_made *made, zrt_run **result) {
    const zrt_call *call = handle->pointer;
    zrt_run *run = calloc(1, sizeof *run + (call->input_count + call->output_count) * sizeof(OrtValue *));
    if (run == NULL)
        return (uintptr_t)call->api->CreateStatus(ORT_FAIL, "no memory for a run");
    run->message.kind = ZRT_MESSAGE_RUN;
    run->call = call;
    run->run_options = run_options;
    run->wrapped = !values;
    run->made = made;
    run->inputs = (OrtValue **)(run + 1);
    run->outputs = run->inputs + call->input_count;
    uintptr_t code = ZRT_OK;
    if (run_options == NULL) {
        code = (uintptr_t)call->api->CreateRunOptions(&run->run_options);
        run->own_options = 1;
    }
    if (code == ZRT_OK)
        code = zrt_call_wrap_outputs(call, outputs, made, run->outputs);
    if (values)
        for (size_t i = 0; i < call->input_count; i++)
            run->inputs[i] = inputs[i];
    else if (code == ZRT_OK)
        code = zrt_call_wrap_inputs(call, inputs, run->inputs);
    if (code != ZRT_OK)
        zrt_run_free(run);
    else
        *result = run;
    return code;
}

void zrt_run_free(void *pointer) {
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
    if (run->status != NULL)
        call->api->ReleaseStatus(run->status);
    free(run);
}

static void finish(zrt_run *run, OrtStatus *status) {
    run->status = status == NULL && run->made != NULL ? zrt_made_fill(run->made, run->outputs) : status;
    /* Another thread may free the run as soon as it is pushed: do not touch it afterwards. */
    zrt_bridge_push(&run->message);
}

static void *worker(void *unused) {
    (void)unused;
#ifdef __APPLE__
    pthread_setname_np("zrt-run");
#else
    pthread_setname_np(pthread_self(), "zrt-run");
#endif
    for (;;) {
        pthread_mutex_lock(&lock);
        idle++;
        while (jobs.length == 0)
            pthread_cond_wait(&arrived, &lock);
        idle--;
        zrt_run *run = (zrt_run *)zrt_queue_pop(&jobs);
        pthread_mutex_unlock(&lock);
        const zrt_call *call = run->call;
        finish(run,
            call->api->Run(call->session, run->run_options, call->input_names, (const OrtValue *const *)run->inputs,
                call->input_count, call->output_names, call->output_count, run->outputs));
    }
    return NULL;
}

static int start_worker(void) {
    /* Python's own threads handle the signals. */
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, worker, NULL);
    if (!failed)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

static void give_to_worker(zrt_run *run) {
    pthread_mutex_lock(&lock);
    if (jobs.length >= idle && workers < most && start_worker())
        workers++;
    int served = workers != 0;
    if (served) {
        zrt_queue_append(&jobs, &run->message);
        pthread_cond_signal(&arrived);
    }
    pthread_mutex_unlock(&lock);
    if (!served)
        finish(run, run->call->api->CreateStatus(ORT_FAIL, "no thread can be started for the run"));
}

/* The next run for ONNX Runtime's threads after one ended; NULL if none waits. */
static zrt_run *replace(void) {
    pthread_mutex_lock(&lock);
    zrt_run *run = (zrt_run *)zrt_queue_pop(&queued);
    if (run == NULL)
        at_once--;
    pthread_mutex_unlock(&lock);
    return run;
}

static void run_next(zrt_run *run);

static void ended(void *run, OrtValue **outputs, size_t count, OrtStatusPtr status) {
    (void)outputs;
    (void)count;
    finish(run, status);
    run_next(replace());
}

static void run_next(zrt_run *run) {
    while (run != NULL) {
        const zrt_call *call = run->call;
        OrtStatus *status = call->api->RunAsync(call->session, run->run_options, call->input_names,
            (const OrtValue *const *)run->inputs, call->input_count, call->output_names, call->output_count,
            run->outputs, ended, run);
        if (status == NULL)
            return;
        /* RunAsync refuses sessions without a pool of threads. */
        call->api->ReleaseStatus(status);
        give_to_worker(run);
        run = replace();
    }
}

void zrt_run_start(zrt_handle *handle, int on_worker) {
    zrt_run *run = handle->pointer;
    zrt_handle_ref(handle);
    run->handle = handle;
    run->started = 1;
    /* A session from before a fork has a pool without threads. */
    if (on_worker || zrt_handle_inherited(handle)) {
        give_to_worker(run);
        return;
    }
    pthread_mutex_lock(&lock);
    int waits = at_once == AT_ONCE;
    if (waits)
        zrt_queue_append(&queued, &run->message);
    else
        at_once++;
    pthread_mutex_unlock(&lock);
    if (!waits)
        run_next(run);
}
