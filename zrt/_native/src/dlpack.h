/* Tensors to and from other libraries in capsules: the structures of DLPack 1.x, which its ABI settles. */
#pragma once

typedef struct zrt_dl_tensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    /* In elements; NULL where the elements follow each other in the order of C. */
    int64_t *strides;
    uint64_t byte_offset;
} zrt_dl_tensor;

/* What an unversioned capsule, "dltensor", points to: all there was before 1.0. */
typedef struct zrt_dl_plain {
    zrt_dl_tensor tensor;
    void *context;
    void (*deleter)(struct zrt_dl_plain *self);
} zrt_dl_plain;

#define ZRT_DL_READ_ONLY 1
#define ZRT_DL_COPIED 2
#define ZRT_DL_PADDED 4

/* What "dltensor_versioned" points to; of another major version only what stands before `flags` can be read. */
typedef struct zrt_dl_versioned {
    uint32_t major;
    uint32_t minor;
    void *context;
    void (*deleter)(struct zrt_dl_versioned *self);
    uint64_t flags;
    zrt_dl_tensor tensor;
} zrt_dl_versioned;

/* Appends to the Python list at `box` a capsule with a copy of what `tensor` says, which keeps `owner` until whoever
   took it is done, or until the capsule itself goes. Versioned if `major` is not 0. Returns 0, or -1 without memory. */
int zrt_dlpack_export(
    uintptr_t box, zrt_handle *owner, const zrt_dl_tensor *tensor, uint32_t major, uint32_t minor, uint64_t flags);

/* A zrt_release that hands a zrt_dl_versioned back to whose it is. */
void zrt_dlpack_give_back(void *versioned);

#define ZRT_DL_PLAIN 1
#define ZRT_DL_VERSIONED 2

/* Takes the tensor over from the Python object at `capsule` into a handle that is empty so far, whose release gives it
   back. Returns what it points to now, or 0 if this is no capsule of a tensor (or no longer). */
int zrt_dlpack_take(uintptr_t capsule, zrt_handle *handle);
