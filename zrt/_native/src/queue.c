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

int zrt_queue_remove(zrt_queue *queue, zrt_message *message) {
    zrt_message *before = NULL, *each = queue->first;
    for (size_t i = 0; i < queue->length; i++, before = each, each = each->next) {
        if (each != message)
            continue;
        if (before == NULL)
            queue->first = message->next;
        else
            before->next = message->next;
        if (queue->last == message)
            queue->last = before;
        queue->length--;
        return 1;
    }
    return 0;
}
