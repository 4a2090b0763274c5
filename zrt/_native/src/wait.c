#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "ort.h"
#include "handle.h"
#include "lane.h"
#include "wait.h"

int zrt_wait_open(pthread_cond_t *condition) {
#ifdef __APPLE__
    return pthread_cond_init(condition, NULL);
#else
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error != 0)
        return error;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
#endif
}

int zrt_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t end) {
#ifdef __APPLE__
    uint64_t now = zrt_clock(), left = end > now ? end - now : 0;
    struct timespec span = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    return pthread_cond_timedwait_relative_np(condition, lock, &span);
#else
    struct timespec time = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    return pthread_cond_timedwait(condition, lock, &time);
#endif
}
