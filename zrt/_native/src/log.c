#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "ort.h"
#include "log.h"
#include "bridge.h"

static size_t strayed;

static struct iovec piece(const char *text) {
    return (struct iovec){(void *)text, strlen(text)};
}

void zrt_log_print(const zrt_log *log) {
    static const char *const letters[] = {"V", "I", "W", "E", "F"};
    static const char *const colours[] = {"", "", "\033[0;93m", "\033[1;31m", "\033[1;37;41m"};
    int known = log->severity >= 0 && log->severity < 5 ? log->severity : 4;
    time_t seconds = (time_t)(log->nanoseconds / 1000000000u);
    struct tm local;
    char date[32] = "", when[64];
    if (localtime_r(&seconds, &local) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(when, sizeof when, "%s.%09u [", date, (unsigned)(log->nanoseconds % 1000000000u));
    struct iovec pieces[] = {piece(colours[known]), piece(when), piece(letters[known]), piece(":"),
        piece(log->category), piece(":"), piece(log->id), piece(", "), piece(log->location), piece("] "),
        piece(log->text), piece(known >= 2 ? "\033[m\n" : "\n")};
    int count = sizeof pieces / sizeof *pieces, begun = 0;
    while (begun < count) {
        ssize_t written = writev(STDERR_FILENO, pieces + begun, count - begun);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        while (begun < count && (size_t)written >= pieces[begun].iov_len)
            written -= pieces[begun++].iov_len;
        if (begun < count) {
            pieces[begun].iov_base = (char *)pieces[begun].iov_base + written;
            pieces[begun].iov_len -= written;
        }
    }
}

void zrt_log_free(zrt_log *log) {
    free(log);
}

static const char *store(char **place, const char *text, size_t size) {
    char *stored = memcpy(*place, text, size);
    *place += size;
    return stored;
}

zrt_log *zrt_log_record(
    OrtLoggingLevel severity, const char *category, const char *id, const char *location, const char *text) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    size_t of_category = strlen(category) + 1, of_id = strlen(id) + 1, of_location = strlen(location) + 1,
           of_text = strlen(text) + 1;
    zrt_log *log = malloc(sizeof *log + of_category + of_id + of_location + of_text);
    if (log == NULL) {
        __atomic_fetch_add(&strayed, 1, __ATOMIC_RELAXED);
        zrt_log_print(&(zrt_log){.severity = severity,
            .nanoseconds = nanoseconds,
            .category = category,
            .id = id,
            .location = location,
            .text = text});
        return NULL;
    }
    memset(log, 0, sizeof *log);
    log->severity = severity;
    log->nanoseconds = nanoseconds;
    log->thread = (uint64_t)(uintptr_t)pthread_self();
    pthread_getname_np(pthread_self(), log->thread_name, sizeof log->thread_name);
    log->strayed = __atomic_exchange_n(&strayed, 0, __ATOMIC_RELAXED);
    char *place = (char *)(log + 1);
    log->category = store(&place, category, of_category);
    log->id = store(&place, id, of_id);
    log->location = store(&place, location, of_location);
    log->text = store(&place, text, of_text);
    return log;
}

void zrt_log_sink(void *sink, OrtLoggingLevel severity, const char *category, const char *id, const char *location,
    const char *text) {
    zrt_log *log = zrt_log_record(severity, category, id, location, text);
    if (log == NULL)
        return;
    log->sink = (uintptr_t)sink;
    if (!zrt_bridge_push(log)) {
        zrt_log_print(log);
        free(log);
    }
}
