#include "python.h"
#include <stdint.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "describe.h"
#include "text.h"
#include "allocated.h"
#include "lane.h"
#include "bind.h"
#include "containers.h"

static uintptr_t element_of(const OrtApi *api, const OrtValue *container, size_t index, OrtValue **element) {
    OrtAllocator *allocator;
    RETURN_CODE_IF_FAILED(api->GetAllocatorWithDefaultOptions(&allocator));
    RETURN_CODE_IF_FAILED(api->GetValue(container, (int)index, allocator, element));
    return ZRT_OK;
}

/* Copies the tensors of a sequence, without the GIL. */
static uintptr_t copy_tensors(const OrtApi *api, const OrtValue *sequence, OrtValue **tensors, size_t count) {
    uintptr_t code = ZRT_OK;
    PyThreadState *state = PyEval_SaveThread();
    for (size_t i = 0; i < count && code == ZRT_OK; i++)
        code = element_of(api, sequence, i, &tensors[i]);
    PyEval_RestoreThread(state);
    return code;
}

/* Fills a list with the arrays of a sequence's tensors. */
static uintptr_t put_arrays(
    const OrtApi *api, const OrtValue *sequence, const zrt_output *element, size_t count, PyObject *list) {
    OrtValue **tensors = calloc(count + 1, sizeof *tensors);
    zrt_output *outputs = calloc(count + 1, sizeof *outputs);
    uintptr_t code = ZRT_NO_MEMORY;
    if (tensors != NULL && outputs != NULL) {
        for (size_t i = 0; i < count; i++)
            outputs[i] = *element;
        const zrt_allocated allocated = {.api = api, .count = count, .outputs = outputs};
        code = copy_tensors(api, sequence, tensors, count);
        if (code == ZRT_OK)
            code = zrt_allocated_put(&allocated, tensors, ZRT_EVERY, list);
        zrt_release_values(api, tensors, count);
    }
    free(tensors);
    free(outputs);
    return code;
}

/* A new reference to one key or value of a map that is no string; NULL with an exception. */
static PyObject *number_at(const zrt_description *seen, size_t index) {
    switch (seen->type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
        return PyFloat_FromDouble(((const float *)seen->data)[index]);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
        return PyFloat_FromDouble(((const double *)seen->data)[index]);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        return PyLong_FromLongLong(((const long long *)seen->data)[index]);
    default:
        return NULL;
    }
}

/* The keys or the values of a map: an array of `count` objects, which the caller releases. */
typedef struct column {
    PyObject **objects;
    size_t count;
} column;

static uintptr_t fill(const OrtApi *api, const OrtValue *tensor, column *column) {
    zrt_description seen;
    RETURN_CODE_IF_FAILED(zrt_describe(api, tensor, &seen));
    if (seen.rank != 1)
        return (uintptr_t)api->CreateStatus(ORT_FAIL, "a map whose keys and values are no vectors");
    size_t count = (size_t)seen.dims[0];
    column->objects = PyMem_Calloc(count + 1, sizeof *column->objects);
    if (column->objects == NULL)
        return ZRT_NO_MEMORY;
    column->count = count;
    if (seen.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
        uintptr_t code = zrt_text_objects(api, tensor, count, column->objects);
        return code == ZRT_NO_TEXT ? ZRT_NO_MEMORY : code;
    }
    for (size_t i = 0; i < count; i++)
        if ((column->objects[i] = number_at(&seen, i)) == NULL)
            return ZRT_NO_MEMORY;
    return ZRT_OK;
}

static uintptr_t read_column(const OrtApi *api, const OrtValue *map, size_t part, column *column) {
    OrtValue *tensor = NULL;
    uintptr_t code = element_of(api, map, part, &tensor);
    if (code == ZRT_OK) {
        code = fill(api, tensor, column);
        api->ReleaseValue(tensor);
    }
    return code;
}

static void free_column(column *column) {
    for (size_t i = 0; i < column->count; i++)
        Py_XDECREF(column->objects[i]);
    PyMem_Free(column->objects);
}

/* Stores a new reference to the dict of a map. */
static uintptr_t read_map(const OrtApi *api, const OrtValue *map, PyObject **dict) {
    column keys = {NULL, 0}, values = {NULL, 0};
    uintptr_t code = read_column(api, map, 0, &keys);
    if (code == ZRT_OK)
        code = read_column(api, map, 1, &values);
    if (code == ZRT_OK && keys.count != values.count)
        code = (uintptr_t)api->CreateStatus(ORT_FAIL, "a map with more keys than values, or fewer");
    if (code == ZRT_OK && (*dict = PyDict_New()) == NULL)
        code = ZRT_NO_MEMORY;
    for (size_t i = 0; code == ZRT_OK && i < keys.count; i++)
        if (PyDict_SetItem(*dict, keys.objects[i], values.objects[i]) != 0)
            code = ZRT_NO_MEMORY;
    free_column(&keys);
    free_column(&values);
    return code;
}

/* Fills a list with the dicts of a sequence's maps. */
static uintptr_t put_dicts(const OrtApi *api, const OrtValue *sequence, size_t count, PyObject *list) {
    uintptr_t code = ZRT_OK;
    for (size_t i = 0; i < count && code == ZRT_OK; i++) {
        OrtValue *map = NULL;
        PyObject *dict = NULL;
        code = element_of(api, sequence, i, &map);
        if (code == ZRT_OK) {
            code = read_map(api, map, &dict);
            api->ReleaseValue(map);
        }
        /* It takes the reference. */
        if (dict != NULL && PyList_SetItem(list, (Py_ssize_t)i, dict) != 0)
            code = ZRT_NO_MEMORY;
    }
    return code;
}

static uintptr_t read_sequence(
    const OrtApi *api, const OrtValue *sequence, const zrt_output *element, PyObject **list) {
    size_t count;
    RETURN_CODE_IF_FAILED(api->GetValueCount(sequence, &count));
    *list = PyList_New(0);
    if (*list == NULL)
        return ZRT_NO_MEMORY;
    /* Other threads may look at the list while the GIL is free: no element may be NULL. */
    for (size_t i = 0; i < count; i++)
        if (PyList_Append(*list, Py_None) != 0)
            return ZRT_NO_MEMORY;
    return element->dtype == NULL ? put_dicts(api, sequence, count, *list)
                                  : put_arrays(api, sequence, element, count, *list);
}

uintptr_t zrt_container_read(
    const OrtApi *api, const OrtValue *value, ONNXTensorElementDataType type, uintptr_t dtype, uintptr_t results) {
    ONNXType kind;
    RETURN_CODE_IF_FAILED(api->GetValueType(value, &kind));
    PyGILState_STATE state = PyGILState_Ensure();
    const zrt_output element = {.allocated = 1, .type = type, .dtype = (void *)dtype};
    PyObject *object = NULL;
    uintptr_t code =
        kind == ONNX_TYPE_MAP ? read_map(api, value, &object) : read_sequence(api, value, &element, &object);
    if (code == ZRT_OK && PyList_Append((PyObject *)results, object) != 0)
        code = ZRT_NO_MEMORY;
    Py_XDECREF(object);
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}

/* Stores tensors over the memory of arrays. */
static uintptr_t wrap(
    const OrtApi *api, const OrtMemoryInfo *host, PyObject *arrays, OrtValue **tensors, size_t count) {
    uintptr_t code = ZRT_OK;
    for (size_t i = 0; i < count && code == ZRT_OK; i++) {
        PyObject *array = PyTuple_GetItem(arrays, (Py_ssize_t)i);
        code = zrt_is_array(array) ? zrt_tensor_over(api, host, array, 0, &tensors[i]) : ZRT_MISALIGNED;
    }
    return code;
}

uintptr_t zrt_sequence_over(const OrtApi *api, const OrtMemoryInfo *host, uintptr_t arrays, zrt_handle *sequence) {
    PyGILState_STATE state = PyGILState_Ensure();
    size_t count = (size_t)PyTuple_Size((PyObject *)arrays);
    OrtValue **tensors = calloc(count + 1, sizeof *tensors);
    uintptr_t code = ZRT_NO_MEMORY;
    if (tensors != NULL) {
        code = wrap(api, host, (PyObject *)arrays, tensors, count);
        if (code == ZRT_OK)
            code = (uintptr_t)api->CreateValue(
                (const OrtValue *const *)tensors, count, ONNX_TYPE_SEQUENCE, (OrtValue **)&sequence->pointer);
        zrt_release_values(api, tensors, count);
    }
    free(tensors);
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}
