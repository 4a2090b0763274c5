/* Records ONNX Runtime's log lines for Python, or prints them to standard error after the bridge's end. */
#pragma once

typedef struct zrt_log {
    /* The next line of a list. */
    struct zrt_log *next;
    int severity;
    /* The number of the Python logger (log_sink.py). */
    uintptr_t sink;
    /* The time since the epoch. */
    uint64_t nanoseconds;
    /* The thread that logged it, as pthread_self returns it, and the system's name for the thread. */
    uint64_t thread;
    char thread_name[16];
    /* How many lines before this one went to standard error for want of memory. */
    size_t strayed;
    const char *category;
    const char *id;
    const char *location;
    const char *text;
} zrt_log;

/* Records a line that this thread logs now; the caller frees the record. Prints the line and returns NULL if there is
   no memory. */
zrt_log *zrt_log_record(
    OrtLoggingLevel severity, const char *category, const char *id, const char *location, const char *text);

/* An OrtLoggingFunction, called in any thread; `sink` is the number of the Python logger. */
void zrt_log_sink(
    void *sink, OrtLoggingLevel severity, const char *category, const char *id, const char *location, const char *text);

/* Writes a line to standard error in ONNX Runtime's format. Allocates nothing. */
void zrt_log_print(const zrt_log *log);

void zrt_log_free(zrt_log *log);
