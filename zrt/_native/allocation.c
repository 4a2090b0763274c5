#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "allocation.h"

uintptr_t zrt_allocation_new(const OrtApi *api, OrtAllocator *allocator, size_t bytes, zrt_allocation **result)
{
    zrt_allocation *allocation = calloc(1, sizeof *allocation);
    if (allocation == NULL)
        return 0;
    OrtStatus *status = api->AllocatorAlloc(allocator, bytes, &allocation->data);
    if (status != NULL || allocation->data == NULL) {
        free(allocation);
        return (uintptr_t)status;
    }
    allocation->api = api;
    allocation->allocator = allocator;
    allocation->bytes = bytes;
    *result = allocation;
    return 0;
}

void zrt_allocation_free(void *pointer)
{
    zrt_allocation *allocation = pointer;
    OrtStatus *status = allocation->api->AllocatorFree(allocation->allocator, allocation->data);
    if (status != NULL)
        allocation->api->ReleaseStatus(status);
    free(allocation);
}
