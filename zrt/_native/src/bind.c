#include "python.h"
#include <stdint.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "bind.h"

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "numpy's sizes are those of ONNX Runtime");

/* A value to bind, or for NULL a device on which ONNX Runtime makes an output. */
typedef struct target {
    int is_output;
    OrtValue *value;
    const OrtMemoryInfo *memory;
} target;

static OrtStatus *bind(const zrt_lane *lane, const char *name, const target *target) {
    if (target->value == NULL)
        return lane->api->BindOutputToDevice(lane->binding, name, target->memory);
    return target->is_output ? lane->api->BindOutput(lane->binding, name, target->value)
                             : lane->api->BindInput(lane->binding, name, target->value);
}

/* Binds, and puts `kept` into the table of the request. */
static uintptr_t put(zrt_lane *lane, PyObject *request, PyObject *kept, const target *target) {
    PyObject *table = PyTuple_GetItem(request, 0), *name = PyTuple_GetItem(request, 1);
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text == NULL)
        return (uintptr_t)lane->api->CreateStatus(ORT_INVALID_ARGUMENT, "the name is no UTF-8");
    if (zrt_lane_take(lane))
        return ZRT_BUSY;
    PyObject *former = PyDict_GetItemWithError(table, name);
    Py_XINCREF(former);
    uintptr_t code = ZRT_OK;
    /* First, so that no memory is bound that nothing keeps alive. */
    if (PyDict_SetItem(table, name, kept) != 0)
        code = (uintptr_t)lane->api->CreateStatus(ORT_FAIL, "no memory to bind it");
    else
        code = (uintptr_t)bind(lane, text, target);
    if (code == ZRT_OK) {
        int anew = target->is_output ? former != kept : former == NULL;
        lane->incomplete |= anew;
        lane->version += (size_t)anew;
    } else if (former != NULL) {
        PyDict_SetItem(table, name, former);
    } else if (PyDict_GetItemWithError(table, name) != NULL) {
        PyDict_DelItem(table, name);
    }
    zrt_lane_give(lane);
    /* It may run Python's code, which may use the binding. */
    Py_XDECREF(former);
    return code;
}

/* The size in bytes, or SIZE_MAX where a tensor has no such size. */
static size_t bytes_of(const int64_t *dims, size_t rank, size_t bits) {
    size_t count = 1, size;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(count, (size_t)dims[i], &count))
            return SIZE_MAX;
    if (__builtin_mul_overflow(count, bits, &size) || size > SIZE_MAX - 7)
        return SIZE_MAX;
    return (size + 7) / 8;
}

/* Stores a tensor over memory of the host. */
static uintptr_t wrap(const zrt_lane *lane, uintptr_t address, const int64_t *dims, size_t rank,
    ONNXTensorElementDataType type, size_t bits, OrtValue **value) {
    size_t bytes = bytes_of(dims, rank, bits);
    if (bytes == SIZE_MAX)
        return (uintptr_t)lane->api->CreateStatus(ORT_INVALID_ARGUMENT, "no tensor has these sizes");
    /* An empty tensor may have any address. No type needs more than 8 bytes: complex numbers are pairs. */
    uintptr_t width = bits < 8 ? 1 : bits > 64 ? 8 : bits / 8;
    if (bytes > 0 && (address == 0 || address & (width - 1) || address > UINTPTR_MAX - bytes))
        return ZRT_MISALIGNED;
    return (uintptr_t)lane->api->CreateTensorWithDataAsOrtValue(
        lane->host, (void *)address, bytes, dims, rank, type, value);
}

static uintptr_t put_memory(zrt_lane *lane, PyObject *request, PyObject *kept, int is_output, uintptr_t address,
    const int64_t *dims, size_t rank, ONNXTensorElementDataType type, size_t bits) {
    OrtValue *value = NULL;
    uintptr_t code = wrap(lane, address, dims, rank, type, bits, &value);
    if (code != ZRT_OK)
        return code;
    code = put(lane, request, kept, &(target){is_output, value, NULL});
    /* The binding has a reference of its own. */
    lane->api->ReleaseValue(value);
    return code;
}

/* The type of the elements that a buffer describes by one letter; none for others. */
static ONNXTensorElementDataType type_of(const Py_buffer *view) {
    static const ONNXTensorElementDataType whole[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64};
    static const ONNXTensorElementDataType natural[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
        ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64};
    if (view->format == NULL || view->format[0] == 0 || view->format[1] != 0)
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t power = view->itemsize == 1 ? 0 : view->itemsize == 2 ? 1 : view->itemsize == 4 ? 2 : 3;
    switch (*view->format) {
    case '?':
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
    case 'e':
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case 'f':
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case 'd':
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
        return whole[power];
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
        return natural[power];
    default:
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    }
}

static uintptr_t put_array(zrt_lane *lane, PyObject *request, const Py_buffer *view) {
    ONNXTensorElementDataType type = type_of(view);
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED)
        return ZRT_MISALIGNED;
    PyObject *kept = PyTuple_Pack(1, PyTuple_GetItem(request, 2));
    uintptr_t code = ZRT_MISALIGNED;
    if (kept != NULL)
        code = put_memory(lane, request, kept, 0, (uintptr_t)view->buf, (const int64_t *)view->shape,
            (size_t)view->ndim, type, 8 * (size_t)view->itemsize);
    Py_XDECREF(kept);
    return code;
}

uintptr_t zrt_bind_array(zrt_handle *handle, uintptr_t request) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_buffer view;
    uintptr_t code = ZRT_MISALIGNED;
    if (PyObject_GetBuffer(PyTuple_GetItem((PyObject *)request, 2), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0) {
        code = put_array(handle->pointer, (PyObject *)request, &view);
        PyBuffer_Release(&view);
    }
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}

uintptr_t zrt_bind_address(zrt_handle *handle, uintptr_t request, int is_output, uintptr_t address, const int64_t *dims,
    size_t rank, ONNXTensorElementDataType type, size_t bits) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tuple = (PyObject *)request;
    uintptr_t code =
        put_memory(handle->pointer, tuple, PyTuple_GetItem(tuple, 2), is_output, address, dims, rank, type, bits);
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}

uintptr_t zrt_bind_left(zrt_handle *handle, uintptr_t request, const OrtMemoryInfo *memory) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tuple = (PyObject *)request;
    uintptr_t code = put(handle->pointer, tuple, PyTuple_GetItem(tuple, 2), &(target){1, NULL, memory});
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}
