#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "lane.h"
#include "log.h"
#include "wait.h"
#include "bridge.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static pthread_cond_t delivered;

/* The lines that wait, the oldest first, and where the next one is linked. */
static zrt_log *queue;
static zrt_log **place = &queue;
static uint64_t pushed_count;
static uint64_t delivered_count;
static int ended;

static zrt_log *take_all(void) {
    zrt_log *lines = queue;
    queue = NULL;
    place = &queue;
    return lines;
}

static void free_all(zrt_log *lines) {
    while (lines != NULL) {
        zrt_log *next = lines->next;
        free(lines);
        lines = next;
    }
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    /* The parent delivers the lines that wait, and those that its thread has taken. */
    zrt_log *lines = take_all();
    delivered_count = pushed_count;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&arrived, NULL);
    zrt_wait_open(&delivered);
    free_all(lines);
}

int zrt_bridge_open(void) {
    static int opened;
    if (opened)
        return 0;
    int failed = zrt_wait_open(&delivered);
    if (!failed)
        failed = pthread_atfork(before_fork, in_parent, in_child);
    opened = !failed;
    return failed;
}

int zrt_bridge_push(zrt_log *log) {
    pthread_mutex_lock(&lock);
    int accepted = !ended;
    if (accepted) {
        log->next = NULL;
        *place = log;
        place = &log->next;
        pushed_count++;
        pthread_cond_signal(&arrived);
    }
    pthread_mutex_unlock(&lock);
    return accepted;
}

zrt_log *zrt_bridge_take(size_t count) {
    pthread_mutex_lock(&lock);
    if (count != 0) {
        delivered_count += count;
        pthread_cond_broadcast(&delivered);
    }
    while (queue == NULL && !ended)
        pthread_cond_wait(&arrived, &lock);
    zrt_log *lines = take_all();
    pthread_mutex_unlock(&lock);
    return lines;
}

uint64_t zrt_bridge_pushed(void) {
    pthread_mutex_lock(&lock);
    uint64_t count = pushed_count;
    pthread_mutex_unlock(&lock);
    return count;
}

int zrt_bridge_flush(uint64_t count, double seconds) {
    uint64_t end = zrt_clock() + (uint64_t)(seconds * 1e9);
    pthread_mutex_lock(&lock);
    int waited = 0;
    while (delivered_count < count && !ended && waited == 0)
        waited = zrt_wait(&delivered, &lock, end);
    int done = delivered_count >= count;
    pthread_mutex_unlock(&lock);
    return done;
}

void zrt_bridge_end(void) {
    pthread_mutex_lock(&lock);
    ended = 1;
    zrt_log *lines = take_all();
    pthread_cond_broadcast(&arrived);
    pthread_cond_broadcast(&delivered);
    pthread_mutex_unlock(&lock);
    for (const zrt_log *log = lines; log != NULL; log = log->next)
        zrt_log_print(log);
    free_all(lines);
}
