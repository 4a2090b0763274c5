/* Tensors to and from other libraries in capsules, in the structs of DLPack 1.x. */
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
    /* In elements; NULL for C order. */
    int64_t *strides;
    uint64_t byte_offset;
} zrt_dl_tensor;

/* The content of an unversioned capsule, "dltensor", as before DLPack 1.0. */
typedef struct zrt_dl_plain {
    zrt_dl_tensor tensor;
    void *context;
    void (*deleter)(struct zrt_dl_plain *self);
} zrt_dl_plain;

#define ZRT_DL_READ_ONLY 1
#define ZRT_DL_COPIED 2
#define ZRT_DL_PADDED 4

/* The content of "dltensor_versioned". With another major version only the fields before `flags` are valid. */
typedef struct zrt_dl_versioned {
    uint32_t major;
    uint32_t minor;
    void *context;
    void (*deleter)(struct zrt_dl_versioned *self);
    uint64_t flags;
    zrt_dl_tensor tensor;
} zrt_dl_versioned;

/* Appends a capsule with a copy of `tensor` to the Python list at `box`, versioned if `major` is not 0. The capsule, or
   its consumer, holds a reference to `owner`. Returns 0, or -1 without memory. */
int zrt_dlpack_export(
    uintptr_t box, zrt_handle *owner, const zrt_dl_tensor *tensor, uint32_t major, uint32_t minor, uint64_t flags);

/* A zrt_release that calls the deleter of a zrt_dl_versioned. */
void zrt_dlpack_give_back(void *versioned);

#define ZRT_DL_PLAIN 1
#define ZRT_DL_VERSIONED 2

/* Moves the tensor of the Python object at `capsule` into an empty handle, whose release calls the tensor's deleter.
   Returns the kind of the tensor, or 0 where the object is no capsule of a tensor, or a consumer already took it. */
int zrt_dlpack_take(uintptr_t capsule, zrt_handle *handle);

/* Copies the tensor of the Python object at `capsule`, which keeps it. Returns 0, or -1 where the object is no capsule
   of a tensor, or a consumer took it. */
int zrt_dlpack_look(uintptr_t capsule, zrt_dl_tensor *tensor);
