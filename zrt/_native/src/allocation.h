/* Memory from an allocator of ONNX Runtime, freed exactly once. */
#pragma once

typedef struct zrt_allocation {
    const OrtApi *api;
    OrtAllocator *allocator;
    void *data;
    size_t bytes;
} zrt_allocation;

/* An allocation without memory: ONNX Runtime stores in `data` and `bytes` what it allocates. NULL without memory for
   the struct itself. The caller owns the result. */
zrt_allocation *zrt_allocation_empty(const OrtApi *api, OrtAllocator *allocator);

/* Allocates `bytes` and stores the result, which the caller owns. Without memory `result` stays as it is, also where
   the status is NULL. */
OrtStatus *zrt_allocation_new(const OrtApi *api, OrtAllocator *allocator, size_t bytes, zrt_allocation **result);

/* Frees the memory and the struct; a zrt_release. */
void zrt_allocation_free(void *allocation);
