#include <stdbool.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "library.h"
#include "editor.h"

static OrtStatus *no_memory(const OrtApi *api) {
    return api->CreateStatus(ORT_FAIL, "no memory for the model editor");
}

void zrt_editor_free(void *pointer) {
    zrt_editor *editor = pointer;
    /* Python may fail before it sets `api`. */
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

OrtStatus *zrt_editor_initializer(zrt_editor *editor, const char *name, zrt_handle *value, bool borrowed) {
    RETURN_IF_FAILED(editor->editor->AddInitializerToGraph(editor->graph, name, value->pointer, borrowed));
    /* Each released library takes the value over, also those whose headers say otherwise. */
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
