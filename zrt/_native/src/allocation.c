#include <stdlib.h>

#include "ort.h"
#include "allocation.h"

zrt_allocation *zrt_allocation_empty(const OrtApi *api, OrtAllocator *allocator) {
    zrt_allocation *allocation = calloc(1, sizeof *allocation);
    if (allocation != NULL) {
        allocation->api = api;
        allocation->allocator = allocator;
    }
    return allocation;
}

OrtStatus *zrt_allocation_new(const OrtApi *api, OrtAllocator *allocator, size_t bytes, zrt_allocation **result) {
    zrt_allocation *allocation = zrt_allocation_empty(api, allocator);
    if (allocation == NULL)
        return NULL;
    OrtStatus *status = api->AllocatorAlloc(allocator, bytes, &allocation->data);
    if (status != NULL || allocation->data == NULL) {
        free(allocation);
        return status;
    }
    allocation->bytes = bytes;
    *result = allocation;
    return NULL;
}

void zrt_allocation_free(void *pointer) {
    zrt_allocation *allocation = pointer;
    OrtStatus *status = NULL;
    if (allocation->data != NULL)
        status = allocation->api->AllocatorFree(allocation->allocator, allocation->data);
    if (status != NULL)
        allocation->api->ReleaseStatus(status);
    free(allocation);
}
