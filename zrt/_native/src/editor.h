/* Models built through ONNX Runtime's model editor. A zrt_editor owns the graph and the model, so that neither a failed
   call nor an interrupt between two calls leaks or frees twice. */
#pragma once

typedef struct zrt_editor {
    const OrtApi *api;
    const OrtModelEditorApi *editor;
    /* NULL once the model owns it. */
    OrtGraph *graph;
    OrtModel *model;
} zrt_editor;

typedef struct zrt_attribute {
    const char *name;
    const void *data;
    int length;
    OrtOpAttrType type;
} zrt_attribute;

/* Every function returns a status of ONNX Runtime, NULL for success. */

/* Sets the graph's inputs or outputs. */
OrtStatus *zrt_editor_values(
    zrt_editor *editor, bool outputs, const char *const *names, const OrtTypeInfo *const *types, size_t count);

/* Moves the value of a handle into the graph. If `borrowed`, its memory must outlive every session of the graph. */
OrtStatus *zrt_editor_initializer(zrt_editor *editor, const char *name, zrt_handle *value, bool borrowed);

OrtStatus *zrt_editor_node(zrt_editor *editor, const char *op, const char *domain, const char *name,
    const char *const *inputs, size_t input_count, const char *const *outputs, size_t output_count,
    const zrt_attribute *attributes, size_t attribute_count);

/* Moves the graph into `model`; nothing can be added to it afterwards. */
OrtStatus *zrt_editor_model(zrt_editor *editor, const char *const *domains, const int *versions, size_t count);

/* A zrt_release. */
void zrt_editor_free(void *editor);
