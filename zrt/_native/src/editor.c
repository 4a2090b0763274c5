#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "library.h"
#include "editor.h"

static OrtStatus *no_memory(const OrtApi *api) {
    return api->CreateStatus(ORT_FAIL, "no memory for the model editor");
}

void zrt_editor_free(void *pointer) {
    zrt_editor *editor = pointer;
    if (editor->graph != NULL)
        editor->api->ReleaseGraph(editor->graph);
    if (editor->model != NULL)
        editor->api->ReleaseModel(editor->model);
    free(editor);
}

OrtStatus *zrt_editor_values(
    zrt_editor *editor, bool outputs, const char *const *names, const OrtTypeInfo *const *types, size_t count) {
    const OrtApi *api = editor->api;
    OrtStatus *status = NULL;
    OrtValueInfo **infos = calloc(count ? count : 1, sizeof *infos);
    if (infos == NULL)
        return no_memory(api);
    for (size_t i = 0; i < count && status == NULL; i++)
        status = editor->editor->CreateValueInfo(names[i], types[i], &infos[i]);
    if (status == NULL)
        status =
            (outputs ? editor->editor->SetGraphOutputs : editor->editor->SetGraphInputs)(editor->graph, infos, count);
    /* A call that fails may have moved some of them into the graph; those are NULL in the array. */
    if (status != NULL)
        for (size_t i = 0; i < count; i++)
            if (infos[i] != NULL)
                api->ReleaseValueInfo(infos[i]);
    free(infos);
    return status;
}

/* An allocator of one byte, which notes that the byte was freed. */
typedef struct witness {
    OrtAllocator allocator;
    const OrtMemoryInfo *info;
    bool freed;
} witness;

static void *witness_alloc(OrtAllocator *allocator, size_t size) {
    (void)allocator;
    (void)size;
    return NULL;
}

static void witness_free(OrtAllocator *allocator, void *data) {
    (void)data;
    ((witness *)allocator)->freed = true;
}

static const OrtMemoryInfo *witness_info(const OrtAllocator *allocator) {
    return ((const witness *)allocator)->info;
}

/* Whether AddInitializerToGraph takes ownership of the value. The released libraries do, some headers of the same
   version say otherwise. Find out by a graph with one value: does its release free the value? */
static OrtStatus *takes_over(const zrt_editor *editor, bool *answer) {
    /* 0: not known yet, 1: no, 2: yes. */
    static int known;
    int state = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (state != 0) {
        *answer = state == 2;
        return NULL;
    }
    const OrtApi *api = editor->api;
    OrtMemoryInfo *info = NULL;
    OrtGraph *graph = NULL;
    OrtValue *value = NULL;
    uint8_t byte = 0;
    int64_t dim = 1;
    witness seen;
    memset(&seen, 0, sizeof seen);
    seen.allocator.version = ZRT_API_VERSION;
    seen.allocator.Alloc = witness_alloc;
    seen.allocator.Free = witness_free;
    seen.allocator.Info = witness_info;
    OrtStatus *status = api->CreateMemoryInfo("Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault, &info);
    if (status == NULL) {
        seen.info = info;
        status = editor->editor->CreateGraph(&graph);
    }
    if (status == NULL)
        status = api->CreateTensorWithDataAndDeleterAsOrtValue(
            &seen.allocator, &byte, 1, &dim, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, &value);
    if (status == NULL)
        status = editor->editor->AddInitializerToGraph(graph, "value", value, false);
    if (graph != NULL)
        api->ReleaseGraph(graph);
    *answer = seen.freed;
    if (value != NULL && !seen.freed)
        api->ReleaseValue(value);
    if (info != NULL)
        api->ReleaseMemoryInfo(info);
    if (status == NULL)
        __atomic_store_n(&known, *answer ? 2 : 1, __ATOMIC_RELAXED);
    return status;
}

OrtStatus *zrt_editor_initializer(zrt_editor *editor, const char *name, zrt_handle *value, bool borrowed) {
    bool taken = false;
    RETURN_IF_FAILED(takes_over(editor, &taken));
    RETURN_IF_FAILED(editor->editor->AddInitializerToGraph(editor->graph, name, value->pointer, borrowed));
    if (taken)
        value->pointer = NULL;
    return NULL;
}

OrtStatus *zrt_editor_node(zrt_editor *editor, const char *op, const char *domain, const char *name,
    const char *const *inputs, size_t input_count, const char *const *outputs, size_t output_count,
    const zrt_attribute *attributes, size_t attribute_count) {
    const OrtApi *api = editor->api;
    OrtNode *node = NULL;
    OrtStatus *status = NULL;
    OrtOpAttr **attrs = calloc(attribute_count ? attribute_count : 1, sizeof *attrs);
    if (attrs == NULL)
        return no_memory(api);
    for (size_t i = 0; i < attribute_count && status == NULL; i++)
        status = api->CreateOpAttr(
            attributes[i].name, attributes[i].data, attributes[i].length, attributes[i].type, &attrs[i]);
    if (status == NULL)
        status = editor->editor->CreateNode(
            op, domain, name, inputs, input_count, outputs, output_count, attrs, attribute_count, &node);
    /* The node copies them; it sets those that it takes over to NULL in the array. */
    for (size_t i = 0; i < attribute_count; i++)
        if (attrs[i] != NULL)
            api->ReleaseOpAttr(attrs[i]);
    free(attrs);
    if (status == NULL)
        status = editor->editor->AddNodeToGraph(editor->graph, node);
    if (status != NULL && node != NULL)
        api->ReleaseNode(node);
    return status;
}

OrtStatus *zrt_editor_model(zrt_editor *editor, const char *const *domains, const int *versions, size_t count) {
    OrtStatus *status = editor->editor->CreateModel(domains, versions, count, &editor->model);
    if (status == NULL)
        status = editor->editor->AddGraphToModel(editor->model, editor->graph);
    if (status == NULL)
        editor->graph = NULL;
    return status;
}
