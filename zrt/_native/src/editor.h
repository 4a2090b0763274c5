/* Models built through ONNX Runtime's model editor: one owner for graph, model and what is under way to them, so that
   neither a failed call nor an interrupt between two of them loses or doubles anything. */
#pragma once

typedef struct zrt_editor {
    const OrtApi *api;
    const OrtModelEditorApi *editor;
    /* Until it belongs to the model. */
    OrtGraph *graph;
    OrtModel *model;
} zrt_editor;

typedef struct zrt_attribute {
    const char *name;
    const void *data;
    int length;
    OrtOpAttrType type;
} zrt_attribute;

/* Every function returns a status of ONNX Runtime's, NULL for success, after which the caller still owns all that it
   gave. */

OrtStatus *zrt_editor_new(const OrtApi *api, zrt_editor **out);

/* Says whether the library makes a value of this type; NULL: it does. */
OrtStatus *zrt_editor_takes(const OrtApi *api, const OrtTypeInfo *type);

/* The graph's inputs, or its outputs. */
OrtStatus *zrt_editor_values(
    zrt_editor *editor, bool outputs, const char *const *names, const OrtTypeInfo *const *types, size_t count);

/* A tensor of `size` bytes at `data`: copied, or used where it lies for as long as anything made of the graph lives. */
OrtStatus *zrt_editor_initializer(zrt_editor *editor, const char *name, ONNXTensorElementDataType type,
    const int64_t *dims, size_t rank, void *data, size_t size, bool borrowed);

OrtStatus *zrt_editor_node(zrt_editor *editor, const char *op, const char *domain, const char *name,
    const char *const *inputs, size_t input_count, const char *const *outputs, size_t output_count,
    const zrt_attribute *attributes, size_t attribute_count);

/* Makes `model` of the graph, to which nothing can be added then. */
OrtStatus *zrt_editor_model(zrt_editor *editor, const char *const *domains, const int *versions, size_t count);

void zrt_editor_free(void *editor);
