#include "python.h"
#include <stdint.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "made.h"
#include "text.h"
#include "arrays.h"

/* Memory of a value, as a Python buffer that owns the value. */
typedef struct owned_memory {
    PyObject_HEAD zrt_handle *owner;
    void *data;
    size_t size;
} owned_memory;

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    owned_memory *memory = (owned_memory *)self;
    return PyBuffer_FillInfo(view, self, memory->data, (Py_ssize_t)memory->size, 0, flags);
}

static void free_memory(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    zrt_handle *owner = ((owned_memory *)self)->owner;
    if (owner != NULL) {
        /* It may release a session, which waits for threads; and these may wait for the GIL. */
        PyThreadState *state = PyEval_SaveThread();
        zrt_handle_unref(owner);
        PyEval_RestoreThread(state);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DecRef((PyObject *)type);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, free_memory},
    {Py_bf_getbuffer, get_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "zrt._native.OwnedMemory",
    .basicsize = sizeof(owned_memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyObject *memory_type, *array_type, *empty_function, *dtype_name;

int zrt_is_array(void *object, const void *dtype) {
    if (Py_TYPE(object) != (PyTypeObject *)array_type)
        return 0;
    if (dtype == NULL)
        return 1;
    PyObject *own = PyObject_GetAttr(object, dtype_name);
    Py_XDECREF(own);
    return own == dtype;
}

void *zrt_fresh_array(void *arguments) {
    return PyObject_Call(empty_function, arguments, NULL);
}

int zrt_arrays_open(uintptr_t ndarray, uintptr_t empty) {
    PyGILState_STATE state = PyGILState_Ensure();
    memory_type = PyType_FromSpec(&spec);
    if (memory_type == NULL)
        PyErr_Clear();
    array_type = (PyObject *)ndarray;
    Py_IncRef(array_type);
    empty_function = (PyObject *)empty;
    Py_IncRef(empty_function);
    dtype_name = PyUnicode_InternFromString("dtype");
    PyGILState_Release(state);
    return memory_type == NULL || dtype_name == NULL ? -1 : 0;
}

/* A new reference to a tuple of the sizes; NULL with an exception. */
static PyObject *shape_of(const zrt_description *seen) {
    PyObject *shape = PyTuple_New((Py_ssize_t)seen->rank);
    for (size_t i = 0; shape != NULL && i < seen->rank; i++) {
        PyObject *size = PyLong_FromLongLong(seen->dims[i]);
        if (size == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, size) != 0) {
            Py_DecRef(shape);
            return NULL;
        }
    }
    return shape;
}

/* A new reference to a buffer of the row's memory, whose owner is to get the value; NULL with an exception. */
static owned_memory *memory_of(const zrt_made *made, const zrt_made_row *row) {
    owned_memory *memory = PyObject_New(owned_memory, (PyTypeObject *)memory_type);
    if (memory == NULL)
        return NULL;
    memory->data = row->seen.data;
    memory->owner = zrt_handle_new(NULL, (zrt_release)made->api->ReleaseValue, made->parents, made->parent_count);
    OrtStatus *status = made->api->GetTensorSizeInBytes(row->value, &memory->size);
    if (status != NULL)
        made->api->ReleaseStatus(status);
    if (status != NULL || memory->owner == NULL) {
        Py_DecRef((PyObject *)memory);
        PyErr_NoMemory();
        return NULL;
    }
    return memory;
}

/* A new reference to the array of a plain output; NULL with an exception, and the row still owns the value. */
static PyObject *array_of(const zrt_made *made, zrt_made_row *row) {
    PyObject *shape = shape_of(&row->seen), *array = NULL;
    owned_memory *memory = shape == NULL ? NULL : memory_of(made, row);
    if (memory != NULL)
        array = PyObject_CallFunctionObjArgs(array_type, shape, (PyObject *)row->dtype, (PyObject *)memory, NULL);
    if (array != NULL && row->shared) {
        PyObject *copy = PyObject_CallMethod(array, "copy", NULL);
        Py_DecRef(array);
        array = copy;
    }
    if (array != NULL) {
        memory->owner->pointer = row->value;
        row->value = NULL;
    }
    Py_DecRef(shape);
    Py_DecRef((PyObject *)memory);
    return array;
}

/* A new reference to an array of the strings, as array_of. */
static PyObject *texts_of(const zrt_made *made, zrt_made_row *row) {
    PyObject *shape = shape_of(&row->seen), *array = NULL;
    if (shape != NULL)
        array = PyObject_CallFunctionObjArgs(array_type, shape, (PyObject *)row->dtype, NULL);
    Py_DecRef(shape);
    uintptr_t code = array == NULL ? ZRT_NO_TEXT : zrt_text_read(made->api, row->value, (uintptr_t)array);
    if (code > ZRT_LAST)
        made->api->ReleaseStatus((OrtStatus *)code);
    if (code != ZRT_OK) {
        Py_DecRef(array);
        return NULL;
    }
    made->api->ReleaseValue(row->value);
    row->value = NULL;
    return array;
}

size_t zrt_made_arrays(zrt_made *made, uintptr_t results) {
    PyGILState_STATE state = PyGILState_Ensure();
    size_t waiting = 0;
    for (size_t i = 0; i < made->count; i++) {
        zrt_made_row *row = &made->rows[i];
        if (row->value == NULL)
            continue;
        PyObject *array = NULL;
        int is_right = row->dtype != NULL && row->seen.type == row->type;
        if (is_right && row->seen.plain)
            array = array_of(made, row);
        else if (is_right && row->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
            array = texts_of(made, row);
        if (array != NULL) {
            PyList_SetItem((PyObject *)results, (Py_ssize_t)i, array);
            continue;
        }
        /* Python tries again in another way, and raises the error. */
        PyErr_Clear();
        waiting++;
    }
    PyGILState_Release(state);
    return waiting;
}

uintptr_t zrt_lane_outputs(zrt_handle *handle, zrt_made *made, uintptr_t results) {
    zrt_lane *lane = handle->pointer;
    zrt_claim claim;
    if (zrt_claim_begin(&claim, &lane->busy) != 0)
        return ZRT_BUSY;
    OrtStatus *status = zrt_made_fill_bound(made, lane->binding);
    zrt_claim_end(&claim);
    if (status != NULL)
        return (uintptr_t)status;
    return zrt_made_arrays(made, results) > 0 ? ZRT_LEFT : ZRT_OK;
}
