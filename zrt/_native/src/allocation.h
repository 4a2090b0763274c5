/* Memory from an allocator of ONNX Runtime, freed exactly once. */
#pragma once

typedef struct zrt_allocation {
    const OrtApi *api;
    OrtAllocator *allocator;
    /* NULL until ONNX Runtime stores its memory here. */
    void *data;
    size_t bytes;
} zrt_allocation;

/* Frees the memory and the struct; a zrt_release. */
void zrt_allocation_free(void *allocation);
