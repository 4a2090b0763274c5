#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "ort.h"
#include "handle.h"
#include "made.h"
#include "call.h"
#include "deadline.h"
#include "queue.h"
#include "watch.h"
#include "bridge.h"
#include "log.h"
#include "async.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static pthread_cond_t delivered = PTHREAD_COND_INITIALIZER;

static zrt_queue queue;
static uint64_t pushed_count;
static uint64_t delivered_count;
static int ended;

static void free_logs(zrt_message *messages) {
    while (messages != NULL) {
        zrt_message *next = messages->next;
        if (messages->kind == ZRT_MESSAGE_LOG)
            free(messages);
        messages = next;
    }
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    /* The parent delivers the messages that wait, and those that its thread has taken. */
    zrt_message *messages = zrt_queue_take(&queue);
    delivered_count = pushed_count;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&arrived, NULL);
    pthread_cond_init(&delivered, NULL);
    free_logs(messages);
}

int zrt_bridge_open(void) {
    static int opened;
    if (opened)
        return 0;
    int failed = pthread_atfork(before_fork, in_parent, in_child);
    opened = !failed;
    return failed;
}

int zrt_bridge_push(zrt_message *message) {
    pthread_mutex_lock(&lock);
    int accepted = !ended;
    if (accepted) {
        zrt_queue_append(&queue, message);
        pushed_count++;
        pthread_cond_signal(&arrived);
    }
    pthread_mutex_unlock(&lock);
    return accepted;
}

zrt_message *zrt_bridge_take(size_t count) {
    pthread_mutex_lock(&lock);
    if (count != 0) {
        delivered_count += count;
        pthread_cond_broadcast(&delivered);
    }
    while (queue.length == 0 && !ended)
        pthread_cond_wait(&arrived, &lock);
    zrt_message *messages = zrt_queue_take(&queue);
    pthread_mutex_unlock(&lock);
    return messages;
}

void zrt_bridge_release(zrt_message *messages) {
    while (messages != NULL) {
        zrt_message *next = messages->next;
        if (messages->kind == ZRT_MESSAGE_RUN)
            zrt_run_drop((zrt_run *)messages);
        else if (messages->kind == ZRT_MESSAGE_LOG)
            free(messages);
        messages = next;
    }
}

uint64_t zrt_bridge_pushed(void) {
    pthread_mutex_lock(&lock);
    uint64_t count = pushed_count;
    pthread_mutex_unlock(&lock);
    return count;
}

int zrt_bridge_flush(uint64_t count, double seconds) {
    struct timespec end;
    zrt_deadline(seconds, &end);
    pthread_mutex_lock(&lock);
    int waited = 0;
    while (delivered_count < count && !ended && waited == 0)
        waited = pthread_cond_timedwait(&delivered, &lock, &end);
    int done = delivered_count >= count;
    pthread_mutex_unlock(&lock);
    return done;
}

void zrt_bridge_end(void) {
    pthread_mutex_lock(&lock);
    ended = 1;
    zrt_message *messages = zrt_queue_take(&queue);
    pthread_cond_broadcast(&arrived);
    pthread_cond_broadcast(&delivered);
    pthread_mutex_unlock(&lock);
    for (zrt_message *message = messages; message != NULL; message = message->next)
        if (message->kind == ZRT_MESSAGE_LOG)
            zrt_log_print((const zrt_log *)message);
    free_logs(messages);
}
