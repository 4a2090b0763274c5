#include <stdint.h>
#include <string.h>

#include "ort.h"
#include "describe.h"

/* Whether it is ONNX Runtime's own memory of the host, which no other provider has to free. */
static OrtStatus *is_own(const OrtApi *api, const OrtMemoryInfo *memory, int *own) {
    const char *name;
    RETURN_IF_FAILED(api->MemoryInfoGetName(memory, &name));
    OrtMemoryInfoDeviceType device;
    api->MemoryInfoGetDeviceType(memory, &device);
    *own = device == OrtMemoryInfoDeviceType_CPU && strcmp(name, "Cpu") == 0;
    return NULL;
}

OrtStatus *zrt_describe(const OrtApi *api, const OrtValue *value, zrt_description *description) {
    memset(description, 0, sizeof *description);
    RETURN_IF_FAILED(api->GetValueType(value, &description->kind));
    if (description->kind != ONNX_TYPE_TENSOR && description->kind != ONNX_TYPE_SPARSETENSOR)
        return NULL;
    RETURN_IF_FAILED(api->GetTensorElementTypeAndShapeDataReference(
        value, &description->type, &description->dims, &description->rank));
    if (description->kind != ONNX_TYPE_TENSOR)
        return NULL;
    RETURN_IF_FAILED(api->GetTensorMemoryInfo(value, &description->memory));
    /* The function takes a pointer to non-const for the caller's sake; it only reads the value. */
    RETURN_IF_FAILED(api->GetTensorMutableData((OrtValue *)value, &description->data));
    if (description->type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
        RETURN_IF_FAILED(is_own(api, description->memory, &description->plain));
    return NULL;
}

OrtStatus *zrt_locate(const OrtApi *api, const OrtMemoryInfo *memory, zrt_location *location) {
    RETURN_IF_FAILED(api->MemoryInfoGetName(memory, &location->name));
    RETURN_IF_FAILED(api->MemoryInfoGetId(memory, &location->device_id));
    RETURN_IF_FAILED(api->MemoryInfoGetType(memory, &location->allocator_type));
    RETURN_IF_FAILED(api->MemoryInfoGetMemType(memory, &location->mem_type));
    api->MemoryInfoGetDeviceType(memory, &location->device_type);
    location->device_mem_type = api->MemoryInfoGetDeviceMemType(memory);
    location->vendor_id = api->MemoryInfoGetVendorId(memory);
    return NULL;
}

OrtStatus *zrt_metadata(const OrtApi *api, const OrtSession *session, const char *key, char **value) {
    OrtAllocator *allocator;
    RETURN_IF_FAILED(api->GetAllocatorWithDefaultOptions(&allocator));
    OrtModelMetadata *metadata;
    RETURN_IF_FAILED(api->SessionGetModelMetadata(session, &metadata));
    OrtStatus *status = api->ModelMetadataLookupCustomMetadataMap(metadata, allocator, key, value);
    api->ReleaseModelMetadata(metadata);
    return status;
}
