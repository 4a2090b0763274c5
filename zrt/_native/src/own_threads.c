#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "own_threads.h"

typedef struct start {
    const char *name;
    void *(*work)(void *);
    void *argument;
} start;

static void *begin(void *pointer) {
    start own = *(start *)pointer;
    free(pointer);
#ifdef __APPLE__
    pthread_setname_np(own.name);
#else
    pthread_setname_np(pthread_self(), own.name);
#endif
    return own.work(own.argument);
}

int zrt_own_thread(const char *name, void *(*work)(void *), void *argument) {
    start *given = malloc(sizeof *given);
    if (given == NULL)
        return ENOMEM;
    *given = (start){name, work, argument};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, begin, given);
    if (error == 0)
        pthread_detach(thread);
    else
        free(given);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
