/* Threads for ONNX Runtime's pools, made by a Python factory of the caller (thread_factory.py). A zrt_thread is one
   worker; ONNX Runtime and Python each hold a reference to it. */
#pragma once

enum {
    /* No thread has arrived yet. */
    ZRT_THREAD_AWAITED = 0,
    /* A thread has arrived and waits for its start. */
    ZRT_THREAD_ARRIVED = 1,
    ZRT_THREAD_RUNNING = 2,
    ZRT_THREAD_DONE = 3,
    /* The factory released the work: no thread will arrive. */
    ZRT_THREAD_FORGOTTEN = 4,
    /* A thread arrived that cannot be accepted. */
    ZRT_THREAD_UNFIT = 5,
    /* Every thread that arrives is refused. */
    ZRT_THREAD_REFUSED = 6
};

/* One worker: the function that it runs, and its state. */
typedef struct zrt_thread zrt_thread;

/* Asks the factory for a thread; returns 0 when one has arrived. */
typedef int (*zrt_thread_ask)(void *python, zrt_thread *thread);

enum {
    /* The factory made no thread; Python may know why. */
    ZRT_CREW_FAILED = 1,
    ZRT_CREW_NO_MEMORY = 2
};

/* The options that ONNX Runtime passes to `zrt_thread_create`. Owned by a handle that outlives the pools. */
typedef struct zrt_crew {
    /* NULL once the pools are made. */
    zrt_thread_ask ask;
    void *python;
    /* The threads that have arrived and wait for their start. */
    zrt_thread *waiting;
    /* Why no more threads are asked for, ZRT_CREW_FAILED or ZRT_CREW_NO_MEMORY; else 0. */
    int failed;
} zrt_crew;

/* Lets the threads begin, when all pools are made: a pool waits forever for the end of workers that have begun where
   another one of it is missing. */
void zrt_crew_start(zrt_crew *crew);

/* An OrtCustomCreateThreadFn and an OrtCustomJoinThreadFn. The second returns as soon as the thread has left ONNX
   Runtime's code, and never takes the GIL. */
OrtCustomThreadHandle zrt_thread_create(void *crew, OrtThreadWorkerFn worker, void *worker_data);
void zrt_thread_join(OrtCustomThreadHandle thread);

/* Take and release Python's reference to a worker. Releasing it before a thread arrives means that none will. */
zrt_thread *zrt_thread_take(zrt_thread *thread);
void zrt_thread_forget(zrt_thread *thread);

/* The thread that is to be the worker calls this. It waits for its start, and works until the pool ends. Returns the
   state that it found: any but AWAITED means that the worker needs no thread. */
int zrt_thread_work(zrt_thread *thread);

/* Refuses the thread that arrived: it cannot be accepted. */
void zrt_thread_unfit(zrt_thread *thread);

/* Waits for a thread to arrive, for `milliseconds` at most; returns the state. */
int zrt_thread_await(zrt_thread *thread, int milliseconds);
