#include <stddef.h>

#include "queue.h"

void zrt_queue_append(zrt_queue *queue, zrt_message *message) {
    message->next = NULL;
    if (queue->length++ == 0)
        queue->first = message;
    else
        queue->last->next = message;
    queue->last = message;
}

zrt_message *zrt_queue_pop(zrt_queue *queue) {
    if (queue->length == 0)
        return NULL;
    zrt_message *message = queue->first;
    queue->first = message->next;
    queue->length--;
    return message;
}

zrt_message *zrt_queue_take(zrt_queue *queue) {
    zrt_message *messages = queue->length ? queue->first : NULL;
    queue->length = 0;
    return messages;
}
