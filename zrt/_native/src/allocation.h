/* Memory from one of ONNX Runtime's allocators, given back to it once. */
#pragma once

typedef struct zrt_allocation {
    const OrtApi *api;
    OrtAllocator *allocator;
    void *data;
    size_t bytes;
} zrt_allocation;

/* One without memory yet, for what ONNX Runtime allocates and stores in it. NULL when memory is short. */
zrt_allocation *zrt_allocation_empty(const OrtApi *api, OrtAllocator *allocator);

/* Stores an allocation of `bytes` in `result`; where that stays as it was and there is no status, there is no memory.
 */
OrtStatus *zrt_allocation_new(const OrtApi *api, OrtAllocator *allocator, size_t bytes, zrt_allocation **result);

/* Gives it back; a zrt_release. */
void zrt_allocation_free(void *allocation);
