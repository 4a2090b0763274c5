/* Values that ONNX Runtime made, and everything that Python reads of one, in one C call. */
#pragma once

/* The type, shape and memory of a value. `dims`, `data` and `memory` belong to the value; only tensors have them. */
typedef struct zrt_description {
    ONNXType kind;
    ONNXTensorElementDataType type;
    size_t rank;
    const int64_t *dims;
    /* NULL for other values than dense tensors. */
    void *data;
    const OrtMemoryInfo *memory;
    /* Whether it is a dense tensor of numbers in ONNX Runtime's own memory of the host. */
    int plain;
} zrt_description;

OrtStatus *zrt_describe(const OrtApi *api, const OrtValue *value, zrt_description *description);

/* The fields of an OrtMemoryInfo; `name` belongs to it. */
typedef struct zrt_location {
    const char *name;
    int device_id;
    OrtAllocatorType allocator_type;
    OrtMemType mem_type;
    OrtMemoryInfoDeviceType device_type;
    OrtDeviceMemoryType device_mem_type;
    uint32_t vendor_id;
} zrt_location;

OrtStatus *zrt_locate(const OrtApi *api, const OrtMemoryInfo *memory, zrt_location *location);

/* One output of a run. The first part is constant, the rest is about the last run. */
typedef struct zrt_made_row {
    /* Whether ONNX Runtime allocates it. If not, it is bound to memory of the caller's and the row is not used. */
    int left;
    /* The output's element type and numpy's dtype for it; NULL where its Python object is no array, or where Python
       makes it. */
    ONNXTensorElementDataType type;
    void *dtype;
    /* Whether it may lie in the memory of a feed, so that Python gets a copy. */
    int shared;
    /* Owned from the run's end until Python has its object. It stays NULL for an absent optional. */
    OrtValue *value;
    zrt_description seen;
} zrt_made_row;

/* The outputs of a run that ONNX Runtime allocates. One run at a time uses it. */
typedef struct zrt_made {
    const OrtApi *api;
    /* Borrowed; the arrays of the outputs keep these alive, beside their values. */
    zrt_handle *const *parents;
    size_t parent_count;
    size_t count;
    zrt_made_row *rows;
} zrt_made;

/* Room for `count` outputs, all zero; NULL without memory. */
zrt_made *zrt_made_new(const OrtApi *api, size_t count);

/* Frees the room and the values that it still owns; a zrt_release. */
void zrt_made_free(void *made);

/* Takes the outputs that are left to ONNX Runtime out of `values`, which a run has filled. */
OrtStatus *zrt_made_fill(zrt_made *made, OrtValue **values);

/* zrt_made_fill with the values that are bound as outputs, in the order of binding. */
OrtStatus *zrt_made_fill_bound(zrt_made *made, const OrtIoBinding *binding);

/* Moves an owned value to a handle that has no pointer yet. */
void zrt_made_move(zrt_made *made, size_t index, zrt_handle *handle);
