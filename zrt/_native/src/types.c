#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "types.h"

static OrtStatus *no_memory(const OrtApi *api) {
    return api->CreateStatus(ORT_FAIL, "no memory for the types of a model");
}

/* The block, moved if `count` elements of `width` bytes do not fit. NULL without memory: it stays as it is then. */
static void *with_capacity(void *block, size_t *capacity, size_t count, size_t width) {
    if (count <= *capacity)
        return block;
    size_t wanted = 2 * count + 64;
    void *moved = realloc(block, wanted * width);
    if (moved != NULL)
        *capacity = wanted;
    return moved;
}

static OrtStatus *number(const OrtApi *api, zrt_types *types, int64_t value) {
    int64_t *numbers = with_capacity(types->numbers, &types->number_capacity, types->count + 1, sizeof value);
    if (numbers == NULL)
        return no_memory(api);
    types->numbers = numbers;
    numbers[types->count++] = value;
    return NULL;
}

static OrtStatus *text(const OrtApi *api, zrt_types *types, const char *start, size_t size) {
    RETURN_IF_FAILED(number(api, types, (int64_t)size));
    if (size == 0)
        return NULL;
    char *texts = with_capacity(types->texts, &types->text_capacity, types->size + size, 1);
    if (texts == NULL)
        return no_memory(api);
    types->texts = texts;
    memcpy(texts + types->size, start, size);
    types->size += size;
    return NULL;
}

static OrtStatus *shape(const OrtApi *api, zrt_types *types, const OrtTensorTypeAndShapeInfo *info, size_t rank,
    int64_t *sizes, const char **names) {
    RETURN_IF_FAILED(api->GetDimensions(info, sizes, rank));
    RETURN_IF_FAILED(api->GetSymbolicDimensions(info, names, rank));
    for (size_t i = 0; i < rank; i++) {
        RETURN_IF_FAILED(number(api, types, sizes[i] < 0 ? -1 : sizes[i]));
        if (sizes[i] < 0)
            RETURN_IF_FAILED(text(api, types, names[i], names[i] == NULL ? 0 : strlen(names[i])));
    }
    return NULL;
}

static OrtStatus *tensor(const OrtApi *api, zrt_types *types, const OrtTensorTypeAndShapeInfo *info) {
    ONNXTensorElementDataType element;
    RETURN_IF_FAILED(api->GetTensorElementType(info, &element));
    RETURN_IF_FAILED(number(api, types, element));
    if (!api->TensorTypeAndShape_HasShape(info))
        return number(api, types, -1);
    size_t rank;
    RETURN_IF_FAILED(api->GetDimensionsCount(info, &rank));
    RETURN_IF_FAILED(number(api, types, (int64_t)rank));
    if (rank == 0)
        return NULL;
    int64_t *sizes = calloc(rank, sizeof *sizes);
    const char **names = calloc(rank, sizeof *names);
    OrtStatus *status = sizes == NULL || names == NULL ? no_memory(api) : shape(api, types, info, rank, sizes, names);
    free(sizes);
    free(names);
    return status;
}

/* Appends a type that the caller owns, and releases it. */
static OrtStatus *element(const OrtApi *api, zrt_types *types, OrtTypeInfo *type) {
    OrtStatus *status = zrt_types_read(api, type, types);
    api->ReleaseTypeInfo(type);
    return status;
}

OrtStatus *zrt_types_read(const OrtApi *api, const OrtTypeInfo *type, zrt_types *types) {
    enum ONNXType kind;
    RETURN_IF_FAILED(api->GetOnnxTypeFromTypeInfo(type, &kind));
    RETURN_IF_FAILED(number(api, types, kind));
    const char *denotation = NULL;
    size_t length = 0;
    RETURN_IF_FAILED(api->GetDenotationFromTypeInfo(type, &denotation, &length));
    RETURN_IF_FAILED(text(api, types, denotation, length));
    OrtTypeInfo *inner;
    if (kind == ONNX_TYPE_TENSOR || kind == ONNX_TYPE_SPARSETENSOR) {
        const OrtTensorTypeAndShapeInfo *info;
        RETURN_IF_FAILED(api->CastTypeInfoToTensorInfo(type, &info));
        return tensor(api, types, info);
    }
    if (kind == ONNX_TYPE_SEQUENCE) {
        const OrtSequenceTypeInfo *info;
        RETURN_IF_FAILED(api->CastTypeInfoToSequenceTypeInfo(type, &info));
        RETURN_IF_FAILED(api->GetSequenceElementType(info, &inner));
        return element(api, types, inner);
    }
    if (kind == ONNX_TYPE_MAP) {
        const OrtMapTypeInfo *info;
        ONNXTensorElementDataType key;
        RETURN_IF_FAILED(api->CastTypeInfoToMapTypeInfo(type, &info));
        RETURN_IF_FAILED(api->GetMapKeyType(info, &key));
        RETURN_IF_FAILED(number(api, types, key));
        RETURN_IF_FAILED(api->GetMapValueType(info, &inner));
        return element(api, types, inner);
    }
    if (kind == ONNX_TYPE_OPTIONAL) {
        const OrtOptionalTypeInfo *info;
        RETURN_IF_FAILED(api->CastTypeInfoToOptionalTypeInfo(type, &info));
        RETURN_IF_FAILED(api->GetOptionalContainedTypeInfo(info, &inner));
        return element(api, types, inner);
    }
    return NULL;
}

/* The functions of the table for one list of a session's values. */
typedef struct list {
    OrtStatus *(*count)(const OrtSession *session, size_t *count);
    OrtStatus *(*name)(const OrtSession *session, size_t index, OrtAllocator *allocator, char **name);
    OrtStatus *(*type)(const OrtSession *session, size_t index, OrtTypeInfo **type);
} list;

static OrtStatus *values(
    const OrtApi *api, const OrtSession *session, OrtAllocator *allocator, const list *of, zrt_types *types) {
    size_t count;
    RETURN_IF_FAILED(of->count(session, &count));
    RETURN_IF_FAILED(number(api, types, (int64_t)count));
    for (size_t i = 0; i < count; i++) {
        char *name;
        RETURN_IF_FAILED(of->name(session, i, allocator, &name));
        OrtStatus *status = text(api, types, name, strlen(name));
        allocator->Free(allocator, name);
        RETURN_IF_FAILED(status);
        OrtTypeInfo *type;
        RETURN_IF_FAILED(of->type(session, i, &type));
        RETURN_IF_FAILED(element(api, types, type));
    }
    return NULL;
}

OrtStatus *zrt_types_of_session(const OrtApi *api, const OrtSession *session, zrt_types *types) {
    const list lists[] = {
        {api->SessionGetInputCount, api->SessionGetInputName, api->SessionGetInputTypeInfo},
        {api->SessionGetOutputCount, api->SessionGetOutputName, api->SessionGetOutputTypeInfo},
        {api->SessionGetOverridableInitializerCount, api->SessionGetOverridableInitializerName,
            api->SessionGetOverridableInitializerTypeInfo},
    };
    OrtAllocator *allocator;
    RETURN_IF_FAILED(api->GetAllocatorWithDefaultOptions(&allocator));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        RETURN_IF_FAILED(values(api, session, allocator, &lists[i], types));
    return NULL;
}

void zrt_types_clear(zrt_types *types) {
    free(types->numbers);
    free(types->texts);
    memset(types, 0, sizeof *types);
}
