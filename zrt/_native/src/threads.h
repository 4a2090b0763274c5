/* Threads that a caller's factory makes for ONNX Runtime's pools. */
#pragma once

enum {
    /* No thread has come yet. */
    ZRT_THREAD_AWAITED = 0,
    /* One came, and waits to be told whether it is taken. */
    ZRT_THREAD_ARRIVED = 1,
    ZRT_THREAD_RUNNING = 2,
    ZRT_THREAD_DONE = 3,
    /* The factory let the work go: nobody will come. */
    ZRT_THREAD_FORGOTTEN = 4,
    /* A thread came that cannot be taken. */
    ZRT_THREAD_UNFIT = 5,
    /* Whoever comes is sent away. */
    ZRT_THREAD_REFUSED = 6
};

/* One worker: what it runs, and how far it is. */
typedef struct zrt_thread zrt_thread;

/* Gets a thread for a worker; returns 0 when one has arrived. */
typedef int (*zrt_thread_ask)(void *python, zrt_thread *thread);

/* What ONNX Runtime gives to `zrt_thread_create`. */
typedef struct zrt_crew {
    /* NULL once the pools are made: a later worker gets a thread of the system's. */
    zrt_thread_ask ask;
    void *python;
    size_t made;
    int failed;
} zrt_crew;

/* ONNX Runtime's OrtCustomCreateThreadFn and OrtCustomJoinThreadFn. The second returns as soon as the thread has left
   ONNX Runtime's code, and never needs the GIL. */
OrtCustomThreadHandle zrt_thread_create(void *crew, OrtThreadWorkerFn worker, void *worker_data);
void zrt_thread_join(OrtCustomThreadHandle thread);

/* Python's own reference to a worker, and its end: where no thread has come by then, none will. */
zrt_thread *zrt_thread_take(zrt_thread *thread);
void zrt_thread_forget(zrt_thread *thread);

/* For the thread that is to be the worker: waits to be taken, and works to the end. Returns the state that it found:
   anything but AWAITED means that it came in vain. */
int zrt_thread_work(zrt_thread *thread);

/* Says that the thread that came cannot be taken. */
void zrt_thread_unfit(zrt_thread *thread);

/* Waits for so long, at most, for a thread to come; returns the state. */
int zrt_thread_await(zrt_thread *thread, int milliseconds);
