#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ort.h"
#include "library.h"
#include "own_threads.h"
#include "queue.h"
#include "log.h"
#include "preload.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int started, running;

/* Records of type zrt_log. */
static zrt_queue lines;

static void before_fork(void) {
    /* A child has no such thread, and would find the library's locks as the thread left them. */
    pthread_mutex_lock(&lock);
    while (running)
        pthread_cond_wait(&ended, &lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
}

static void in_child(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&ended, NULL);
}

static void keep_line(void *unused, OrtLoggingLevel severity, const char *category, const char *id,
    const char *location, const char *text) {
    (void)unused;
    zrt_log *log = zrt_log_record(severity, category, id, location, text);
    if (log == NULL)
        return;
    pthread_mutex_lock(&lock);
    zrt_queue_append(&lines, &log->message);
    pthread_mutex_unlock(&lock);
}

/* The table that zrt would use, or NULL. An older library prints an error if it is asked for a newer table. */
static const OrtApi *table_of(const OrtApiBase *base) {
    unsigned minor;
    if (sscanf(base->GetVersionString(), "1.%u", &minor) != 1 || minor < ZRT_API_VERSION)
        return NULL;
    return base->GetApi(ZRT_API_VERSION);
}

static void end(void) {
    pthread_mutex_lock(&lock);
    running = 0;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}

/* Takes the memory that ORT's environment needs (6 MB) from the system at once. malloc would take it for this thread by
   a page at a time, 1,500 times, and each time stop the page faults of the threads that import modules meanwhile. */
static void reserve(void) {
    /* malloc maps larger pieces by themselves, and returns them when they are freed. */
    enum { PIECES = 54, SIZE = 120000, PAGE = 4096 };
    /* In use above the pieces, so that `free` keeps them for this thread. */
    __attribute__((unused)) static void *last;
    void *pieces[PIECES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = malloc(SIZE);
    last = malloc(1);
    for (int i = 0; i < PIECES; i++) {
#ifdef MADV_POPULATE_WRITE
        uintptr_t start = ((uintptr_t)pieces[i] + PAGE - 1) & -(uintptr_t)PAGE;
        if (pieces[i] != NULL)
            (void)madvise((void *)start, SIZE - 2 * PAGE, MADV_POPULATE_WRITE);
#endif
        free(pieces[i]);
    }
}

static void *preload(void *argument) {
    char *path = argument, message[1];
    const OrtApiBase *base = path == NULL ? zrt_library_builtin() : zrt_library_open(path, message, sizeof message);
    free(path);
    const OrtApi *table = base == NULL ? NULL : table_of(base);
    /* A library that tests make has an empty table. */
    if (table != NULL && table->CreateEnvWithOptions != NULL) {
        OrtEnvCreationOptions options = {
            .version = ZRT_API_VERSION,
            .logging_severity_level = ORT_LOGGING_LEVEL_VERBOSE,
            .log_id = "zrt",
            .custom_logging_function = keep_line,
        };
        OrtEnv *environment = NULL;
        reserve();
        OrtStatus *status = table->CreateEnvWithOptions(&options, &environment);
        if (status != NULL)
            table->ReleaseStatus(status);
        else
            table->ReleaseEnv(environment);
    }
    end();
    return NULL;
}

static int start(char *path) {
    int error = pthread_atfork(before_fork, in_parent, in_child);
    return error != 0 ? error : zrt_own_thread("zrt-open", preload, path);
}

int zrt_preload_start(const char *path) {
    pthread_mutex_lock(&lock);
    int first = !started;
    if (first)
        started = running = 1;
    pthread_mutex_unlock(&lock);
    if (!first)
        return 0;
    char *copy = path == NULL ? NULL : strdup(path);
    int error = path != NULL && copy == NULL ? ENOMEM : start(copy);
    if (error != 0) {
        free(copy);
        end();
    }
    return error;
}

void zrt_preload_wait(void) {
    pthread_mutex_lock(&lock);
    started = 1;
    while (running)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}

void zrt_preload_log(int severity, const char *id, OrtLoggingFunction sink, void *parameter) {
    pthread_mutex_lock(&lock);
    zrt_message *message = zrt_queue_take(&lines), *next;
    pthread_mutex_unlock(&lock);
    for (; message != NULL; message = next) {
        next = message->next;
        zrt_log *log = (zrt_log *)message;
        if (log->severity >= severity && sink != NULL)
            sink(parameter, (OrtLoggingLevel)log->severity, log->category, id, log->location, log->text);
        else if (log->severity >= severity)
            zrt_log_write(log->severity, log->nanoseconds, log->category, id, log->location, log->text);
        free(log);
    }
}
