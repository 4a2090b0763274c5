/* Everything that Python reads of a value, of a memory, or of a load's metadata, in one C call. */
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

/* One entry of the custom metadata of a session's model: a text that the default allocator frees, NULL if it has no
   such entry. */
OrtStatus *zrt_metadata(const OrtApi *api, const OrtSession *session, const char *key, char **value);
