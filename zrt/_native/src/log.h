/* ONNX Runtime's log lines as messages, and as lines on standard error where nobody takes messages. */
#pragma once

typedef struct zrt_log {
    zrt_message message;
    int severity;
    /* Which logger it is for. */
    uintptr_t sink;
    /* When, since the epoch. */
    uint64_t nanoseconds;
    /* The thread that logged it: what pthread_self says, and the system's name for it. */
    uint64_t thread;
    char thread_name[16];
    /* So many lines before this one found no memory and went to standard error. */
    size_t strayed;
    const char *category;
    const char *id;
    const char *location;
    const char *text;
} zrt_log;

/* An OrtLoggingFunction; `sink` is a number. */
void zrt_log_sink(
    void *sink, OrtLoggingLevel severity, const char *category, const char *id, const char *location, const char *text);

/* Writes a line to standard error as ONNX Runtime does. Allocates nothing. */
void zrt_log_write(
    int severity, uint64_t nanoseconds, const char *category, const char *id, const char *location, const char *text);

void zrt_log_print(const zrt_log *log);
