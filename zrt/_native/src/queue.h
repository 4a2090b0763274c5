/* First in, first out, over the messages themselves: nothing here allocates. Whoever owns a queue guards it. */
#pragma once

/* The head of every message; what follows it depends on the kind. */
typedef struct zrt_message {
    struct zrt_message *next;
    int kind;
} zrt_message;

/* Zeroed, it is empty. */
typedef struct zrt_queue {
    zrt_message *first;
    zrt_message *last;
    size_t length;
} zrt_queue;

void zrt_queue_append(zrt_queue *queue, zrt_message *message);

/* The first, which leaves the queue; NULL where there is none. */
zrt_message *zrt_queue_pop(zrt_queue *queue);

/* All there are, which leave the queue and hang together by `next`; NULL where there is none. */
zrt_message *zrt_queue_take(zrt_queue *queue);
