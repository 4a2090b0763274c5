/* A FIFO queue that links the messages themselves, so it never allocates. It has no lock: its user guards it. */
#pragma once

/* The first member of every message; the rest depends on `kind`. */
typedef struct zrt_message {
    struct zrt_message *next;
    int kind;
} zrt_message;

/* All zeros: an empty queue. */
typedef struct zrt_queue {
    zrt_message *first;
    zrt_message *last;
    size_t length;
} zrt_queue;

void zrt_queue_append(zrt_queue *queue, zrt_message *message);

/* Removes the first message; NULL for an empty queue. */
zrt_message *zrt_queue_pop(zrt_queue *queue);

/* Removes all messages, linked by `next`; NULL for an empty queue. */
zrt_message *zrt_queue_take(zrt_queue *queue);

/* Removes this message; returns whether it was there. */
int zrt_queue_remove(zrt_queue *queue, zrt_message *message);
