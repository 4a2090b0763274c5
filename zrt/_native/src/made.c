#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "made.h"

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

zrt_made *zrt_made_new(const OrtApi *api, size_t count) {
    zrt_made *made = calloc(1, sizeof *made + count * sizeof *made->rows);
    if (made == NULL)
        return NULL;
    made->api = api;
    made->count = count;
    made->rows = (zrt_made_row *)(made + 1);
    return made;
}

void zrt_made_free(void *pointer) {
    zrt_made *made = pointer;
    for (size_t i = 0; i < made->count; i++)
        if (made->rows[i].value != NULL)
            made->api->ReleaseValue(made->rows[i].value);
    free(made);
}

OrtStatus *zrt_made_fill(zrt_made *made, OrtValue **values) {
    const OrtApi *api = made->api;
    for (size_t i = 0; i < made->count; i++) {
        zrt_made_row *row = &made->rows[i];
        if (!row->left)
            continue;
        int there = 0;
        RETURN_IF_FAILED(api->HasValue(values[i], &there));
        /* Reading an absent optional crashes. */
        if (!there)
            continue;
        RETURN_IF_FAILED(zrt_describe(api, values[i], &row->seen));
        row->value = values[i];
        values[i] = NULL;
    }
    return NULL;
}

OrtStatus *zrt_made_fill_bound(zrt_made *made, const OrtIoBinding *binding) {
    const OrtApi *api = made->api;
    OrtAllocator *allocator;
    RETURN_IF_FAILED(api->GetAllocatorWithDefaultOptions(&allocator));
    OrtValue **values = NULL;
    size_t count = 0;
    RETURN_IF_FAILED(api->GetBoundOutputValues(binding, allocator, &values, &count));
    if (values == NULL)
        return NULL;
    OrtStatus *status = NULL;
    if (count == made->count)
        status = zrt_made_fill(made, values);
    else
        status = api->CreateStatus(ORT_FAIL, "another number of outputs is bound than was read before");
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL)
            api->ReleaseValue(values[i]);
    /* It frees memory only, and its status is always NULL. */
    OrtStatus *freed = api->AllocatorFree(allocator, values);
    if (freed != NULL)
        api->ReleaseStatus(freed);
    return status;
}

void zrt_made_move(zrt_made *made, size_t index, zrt_handle *handle) {
    handle->pointer = made->rows[index].value;
    made->rows[index].value = NULL;
}
