#include <stdlib.h>

#include "ort.h"
#include "allocation.h"

void zrt_allocation_free(void *pointer) {
    zrt_allocation *allocation = pointer;
    OrtStatus *status = NULL;
    if (allocation->data != NULL)
        status = allocation->api->AllocatorFree(allocation->allocator, allocation->data);
    /* Python may fail before it sets `api`. */
    if (status != NULL)
        allocation->api->ReleaseStatus(status);
    free(allocation);
}
