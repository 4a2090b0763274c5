#include "python.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "allocated.h"
#include "bind.h"

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "numpy's sizes are those of ONNX Runtime");

/* A value to bind, or for NULL a memory in which ONNX Runtime makes an output. */
typedef struct target {
    int is_output;
    OrtValue *value;
    const OrtMemoryInfo *memory;
} target;

static OrtStatus *bind(const zrt_lane *lane, const char *name, const target *target) {
    if (target->value == NULL)
        return lane->api->BindOutputToDevice(lane->binding, name, target->memory);
    if (target->is_output)
        return lane->api->BindOutput(lane->binding, name, target->value);
    /* ONNX Runtime may copy the data to a device now. */
    PyThreadState *state = lane->synchronize ? PyEval_SaveThread() : NULL;
    OrtStatus *status = lane->api->BindInput(lane->binding, name, target->value);
    if (state != NULL)
        PyEval_RestoreThread(state);
    return status;
}

/* Whether an output is read in the same way after it was bound anew: from an array, or in the same memory. */
static int alike(PyObject *former, PyObject *keeper) {
    if (former == keeper)
        return 1;
    return PyTuple_Size(former) == 1 && PyTuple_Size(keeper) == 1 && zrt_is_array(PyTuple_GetItem(former, 0)) &&
           zrt_is_array(PyTuple_GetItem(keeper, 0));
}

/* Binds, and puts `keeper` into the table under the name. */
static uintptr_t put(zrt_lane *lane, PyObject *table, PyObject *name, PyObject *keeper, const target *target) {
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text == NULL)
        return (uintptr_t)lane->api->CreateStatus(ORT_INVALID_ARGUMENT, "the name is no UTF-8");
    if (zrt_flag_take(&lane->busy))
        return ZRT_BUSY;
    PyObject *former = PyDict_GetItemWithError(table, name);
    Py_XINCREF(former);
    uintptr_t code = ZRT_OK;
    /* First, so that no memory is bound that nothing keeps alive. */
    if (PyDict_SetItem(table, name, keeper) != 0)
        code = (uintptr_t)lane->api->CreateStatus(ORT_FAIL, "no memory to bind it");
    else
        code = (uintptr_t)bind(lane, text, target);
    if (code == ZRT_OK) {
        int anew = former == NULL || (target->is_output && !alike(former, keeper));
        lane->incomplete |= anew;
        lane->version += (size_t)anew;
    } else if (former != NULL) {
        PyDict_SetItem(table, name, former);
    } else if (PyDict_GetItemWithError(table, name) != NULL) {
        PyDict_DelItem(table, name);
    }
    zrt_flag_give(&lane->busy);
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

/* Stores a tensor over an address in `memory`. */
static uintptr_t wrap(const OrtApi *api, const OrtMemoryInfo *memory, uintptr_t address, const int64_t *dims,
    size_t rank, ONNXTensorElementDataType type, size_t bits, OrtValue **value) {
    size_t bytes = bytes_of(dims, rank, bits);
    if (bytes == SIZE_MAX)
        return (uintptr_t)api->CreateStatus(ORT_INVALID_ARGUMENT, "no tensor has these sizes");
    /* An empty tensor may have any address. No type needs more than 8 bytes: complex numbers are pairs. */
    uintptr_t width = bits < 8 ? 1 : bits > 64 ? 8 : bits / 8;
    if (bytes > 0 && (address == 0 || address & (width - 1) || address > UINTPTR_MAX - bytes))
        return ZRT_MISALIGNED;
    return (uintptr_t)api->CreateTensorWithDataAsOrtValue(memory, (void *)address, bytes, dims, rank, type, value);
}

/* The type of the elements that a buffer describes by one letter; none for others. */
static ONNXTensorElementDataType type_of(const Py_buffer *view) {
    static const struct {
        const char *letters;
        /* By the size of an element. */
        ONNXTensorElementDataType types[9];
    } kinds[] = {
        {"?", {[1] = ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL}},
        {"efd", {[2] = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
                    [4] = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                    [8] = ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE}},
        {"bhilq", {[1] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
                      [2] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
                      [4] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
                      [8] = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64}},
        {"BHILQ", {[1] = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
                      [2] = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
                      [4] = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
                      [8] = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64}},
    };
    int one_letter = view->format != NULL && view->format[0] != 0 && view->format[1] == 0;
    for (size_t i = 0; one_letter && view->itemsize <= 8 && i < sizeof kinds / sizeof *kinds; i++)
        if (strchr(kinds[i].letters, *view->format) != NULL)
            return kinds[i].types[view->itemsize];
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

uintptr_t zrt_tensor_over(const OrtApi *api, const OrtMemoryInfo *host, void *array, int writable, OrtValue **value) {
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0)
        return ZRT_MISALIGNED;
    ONNXTensorElementDataType type = type_of(&view);
    uintptr_t code = ZRT_MISALIGNED;
    if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED)
        code = wrap(api, host, (uintptr_t)view.buf, (const int64_t *)view.shape, (size_t)view.ndim, type,
            8 * (size_t)view.itemsize, value);
    PyBuffer_Release(&view);
    return code;
}

/* Binds a value, to which the binding has a reference of its own, and releases it. */
static uintptr_t put_value(
    zrt_lane *lane, PyObject *table, PyObject *name, PyObject *keeper, int is_output, OrtValue *value) {
    uintptr_t code = put(lane, table, name, keeper, &(target){is_output, value, NULL});
    lane->api->ReleaseValue(value);
    return code;
}

static uintptr_t put_array(zrt_lane *lane, PyObject *table, PyObject *name, PyObject *array, int is_output) {
    OrtValue *value = NULL;
    uintptr_t code = zrt_tensor_over(lane->api, lane->host, array, is_output, &value);
    if (code != ZRT_OK)
        return code;
    PyObject *keeper = PyTuple_Pack(1, array);
    code = ZRT_MISALIGNED;
    if (keeper != NULL)
        code = put_value(lane, table, name, keeper, is_output, value);
    else
        lane->api->ReleaseValue(value);
    Py_XDECREF(keeper);
    return code;
}

PyObject *zrt_bind_array(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    (void)count;
    const zrt_handle *handle = PyLong_AsVoidPtr(arguments[0]);
    uintptr_t code = put_array(handle->pointer, arguments[1], arguments[2], arguments[3], arguments[4] == Py_True);
    PyErr_Clear();
    return PyLong_FromUnsignedLongLong(code);
}

uintptr_t zrt_bind_address(zrt_handle *handle, uintptr_t request, int is_output, const OrtMemoryInfo *memory,
    uintptr_t address, const int64_t *dims, size_t rank, ONNXTensorElementDataType type, size_t bits) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tuple = (PyObject *)request, *name = PyTuple_GetItem(tuple, 1), *keeper = PyTuple_GetItem(tuple, 2);
    zrt_lane *lane = handle->pointer;
    OrtValue *value = NULL;
    uintptr_t code = wrap(lane->api, memory, address, dims, rank, type, bits, &value);
    if (code == ZRT_OK)
        code = put_value(lane, PyTuple_GetItem(tuple, 0), name, keeper, is_output, value);
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}

uintptr_t zrt_bind_output(zrt_handle *handle, uintptr_t request, OrtValue *value, const OrtMemoryInfo *memory) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tuple = (PyObject *)request, *name = PyTuple_GetItem(tuple, 1), *keeper = PyTuple_GetItem(tuple, 2);
    uintptr_t code = put(handle->pointer, PyTuple_GetItem(tuple, 0), name, keeper, &(target){1, value, memory});
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}

void zrt_lane_free(void *lane) {
    OrtIoBinding *binding = ((zrt_lane *)lane)->binding;
    if (binding != NULL)
        ((zrt_lane *)lane)->api->ReleaseIoBinding(binding);
    free(lane);
}

uintptr_t zrt_bound_read(const OrtIoBinding *binding, const zrt_allocated *allocated, size_t only, uintptr_t results) {
    const OrtApi *api = allocated->api;
    OrtAllocator *allocator;
    RETURN_CODE_IF_FAILED(api->GetAllocatorWithDefaultOptions(&allocator));
    OrtValue **values = NULL;
    size_t count = 0;
    RETURN_CODE_IF_FAILED(api->GetBoundOutputValues(binding, allocator, &values, &count));
    if (values == NULL)
        return ZRT_OK;
    uintptr_t code;
    if (count == allocated->count) {
        PyGILState_STATE state = PyGILState_Ensure();
        code = zrt_allocated_put(allocated, values, only, (void *)results);
        PyErr_Clear();
        PyGILState_Release(state);
    } else
        code = (uintptr_t)api->CreateStatus(ORT_FAIL, "another number of outputs is bound than was read before");
    zrt_release_values(api, values, count);
    /* It frees memory only, and its status is always NULL. */
    OrtStatus *freed = api->AllocatorFree(allocator, values);
    if (freed != NULL)
        api->ReleaseStatus(freed);
    return code;
}

uintptr_t zrt_lane_read(
    zrt_handle *handle, size_t version, const zrt_allocated *allocated, size_t only, uintptr_t results) {
    zrt_lane *lane = handle->pointer;
    if (zrt_flag_take(&lane->busy))
        return ZRT_BUSY;
    uintptr_t code = ZRT_INCOMPLETE;
    if (lane->version == version)
        code = zrt_bound_read(lane->binding, allocated, only, results);
    zrt_flag_give(&lane->busy);
    return code;
}
