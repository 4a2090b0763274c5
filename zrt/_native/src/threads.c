#include "python.h"
#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "lane.h"
#include "wait.h"
#include "threads.h"

struct zrt_thread {
    OrtThreadWorkerFn worker;
    void *worker_data;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int state;
    int references;
    /* While the thread waits for its start: the crew, and the next one of it that waits. */
    zrt_crew *crew;
    zrt_thread *next;
};

static zrt_thread *new_thread(OrtThreadWorkerFn worker, void *worker_data) {
    zrt_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL || zrt_wait_open(&thread->changed) != 0) {
        free(thread);
        return NULL;
    }
    thread->worker = worker;
    thread->worker_data = worker_data;
    thread->references = 1;
    pthread_mutex_init(&thread->mutex, NULL);
    return thread;
}

zrt_thread *zrt_thread_take(zrt_thread *thread) {
    __atomic_fetch_add(&thread->references, 1, __ATOMIC_RELAXED);
    return thread;
}

static void drop(zrt_thread *thread) {
    if (__atomic_sub_fetch(&thread->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}

/* Changes the state if it is `from`; returns the state that it found. */
static int change(zrt_thread *thread, int from, int to) {
    pthread_mutex_lock(&thread->mutex);
    int found = thread->state;
    if (found == from) {
        thread->state = to;
        pthread_cond_broadcast(&thread->changed);
    }
    pthread_mutex_unlock(&thread->mutex);
    return found;
}

static int wait_while(zrt_thread *thread, int state) {
    pthread_mutex_lock(&thread->mutex);
    while (thread->state == state)
        pthread_cond_wait(&thread->changed, &thread->mutex);
    int found = thread->state;
    pthread_mutex_unlock(&thread->mutex);
    return found;
}

int zrt_thread_await(zrt_thread *thread, int milliseconds) {
    uint64_t end = zrt_clock() + (uint64_t)milliseconds * 1000000;
    pthread_mutex_lock(&thread->mutex);
    while (thread->state == ZRT_THREAD_AWAITED)
        if (zrt_wait(&thread->changed, &thread->mutex, end) != 0)
            break;
    int found = thread->state;
    pthread_mutex_unlock(&thread->mutex);
    return found;
}

void zrt_thread_unfit(zrt_thread *thread) {
    change(thread, ZRT_THREAD_AWAITED, ZRT_THREAD_UNFIT);
}

void zrt_thread_forget(zrt_thread *thread) {
    change(thread, ZRT_THREAD_AWAITED, ZRT_THREAD_FORGOTTEN);
    drop(thread);
}

int zrt_thread_work(zrt_thread *thread) {
    int found = change(thread, ZRT_THREAD_AWAITED, ZRT_THREAD_ARRIVED);
    if (found == ZRT_THREAD_AWAITED && wait_while(thread, ZRT_THREAD_ARRIVED) == ZRT_THREAD_RUNNING) {
        thread->worker(thread->worker_data);
        change(thread, ZRT_THREAD_RUNNING, ZRT_THREAD_DONE);
    }
    return found;
}

/* Refuses the thread that waits, or any that arrives later. */
static void refuse(zrt_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    thread->state = ZRT_THREAD_REFUSED;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->mutex);
    drop(thread);
}

static int ask(const zrt_crew *crew, zrt_thread *thread) {
    int failed = 1;
    /* Taking the GIL after the interpreter's end would block forever. */
    if (Py_IsInitialized())
        IN_PYTHON(failed = crew->ask(crew->python, thread));
    return failed;
}

OrtCustomThreadHandle zrt_thread_create(void *pointer, OrtThreadWorkerFn worker, void *worker_data) {
    zrt_crew *crew = pointer;
    if (crew->ask == NULL || crew->failed)
        return NULL;
    zrt_thread *thread = new_thread(worker, worker_data);
    if (thread == NULL) {
        crew->failed = ZRT_CREW_NO_MEMORY;
        return NULL;
    }
    if (ask(crew, thread) != 0) {
        crew->failed = ZRT_CREW_FAILED;
        refuse(thread);
        return NULL;
    }
    thread->crew = crew;
    thread->next = crew->waiting;
    crew->waiting = thread;
    return (OrtCustomThreadHandle)thread;
}

void zrt_crew_start(zrt_crew *crew) {
    while (crew->waiting != NULL) {
        zrt_thread *thread = crew->waiting;
        crew->waiting = thread->next;
        thread->crew = NULL;
        change(thread, ZRT_THREAD_ARRIVED, ZRT_THREAD_RUNNING);
    }
}

void zrt_thread_join(OrtCustomThreadHandle handle) {
    zrt_thread *thread = (zrt_thread *)handle;
    if (thread->crew != NULL) {
        /* The pool ends before its threads began. */
        zrt_thread **place = &thread->crew->waiting;
        while (*place != thread)
            place = &(*place)->next;
        *place = thread->next;
        refuse(thread);
        return;
    }
    wait_while(thread, ZRT_THREAD_RUNNING);
    drop(thread);
}
