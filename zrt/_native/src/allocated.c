#include "python.h"
#include <stdint.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "describe.h"
#include "text.h"
#include "allocated.h"

/* A value, and for a plain tensor its memory as a Python buffer. */
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

static PyObject *memory_type, *array_type;

void *zrt_allocated_open(void *ndarray) {
    array_type = ndarray;
    Py_IncRef(array_type);
    memory_type = PyType_FromSpec(&spec);
    Py_XINCREF(memory_type);
    return memory_type;
}

int zrt_is_array(void *object) {
    return Py_TYPE(object) == (PyTypeObject *)array_type;
}

void *zrt_shape_tuple(const int64_t *dims, size_t rank, const int64_t *sizes) {
    PyObject *shape = PyTuple_New((Py_ssize_t)rank);
    for (size_t i = 0; shape != NULL && i < rank; i++) {
        PyObject *size = PyLong_FromLongLong(dims[i] < 0 ? sizes[ZRT_ANY_SIZE - 1 - dims[i]] : dims[i]);
        if (size == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, size) != 0) {
            Py_DecRef(shape);
            return NULL;
        }
    }
    return shape;
}

void zrt_release_values(const OrtApi *api, OrtValue **values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL)
            api->ReleaseValue(values[i]);
}

/* A new reference to an object that is to own the value: its owner has no pointer yet. NULL with an exception. */
static owned_memory *new_memory(const zrt_allocated *allocated) {
    owned_memory *memory = PyObject_New(owned_memory, (PyTypeObject *)memory_type);
    if (memory == NULL)
        return NULL;
    memory->data = NULL;
    memory->size = 0;
    memory->owner =
        zrt_handle_new(NULL, (zrt_release)allocated->api->ReleaseValue, allocated->parents, allocated->parent_count);
    if (memory->owner == NULL) {
        Py_DecRef((PyObject *)memory);
        PyErr_NoMemory();
        return NULL;
    }
    return memory;
}

/* A new reference to the array of a plain output, which owns the value then; NULL, maybe with an exception. */
static PyObject *array_of(
    const zrt_allocated *allocated, const zrt_output *output, const zrt_description *seen, OrtValue **value) {
    PyObject *shape = zrt_shape_tuple(seen->dims, seen->rank, NULL), *array = NULL;
    owned_memory *memory = shape == NULL ? NULL : new_memory(allocated);
    OrtStatus *status = memory == NULL ? NULL : allocated->api->GetTensorSizeInBytes(*value, &memory->size);
    if (status != NULL)
        allocated->api->ReleaseStatus(status);
    else if (memory != NULL) {
        memory->data = seen->data;
        array = PyObject_CallFunctionObjArgs(array_type, shape, (PyObject *)output->dtype, (PyObject *)memory, NULL);
    }
    if (array != NULL) {
        memory->owner->pointer = *value;
        *value = NULL;
    }
    Py_DecRef(shape);
    Py_DecRef((PyObject *)memory);
    return array;
}

/* A new reference to an array with memory of its own; NULL with an exception. */
static PyObject *new_array(const zrt_output *output, const zrt_description *seen) {
    PyObject *shape = zrt_shape_tuple(seen->dims, seen->rank, NULL), *array = NULL;
    if (shape != NULL)
        array = PyObject_CallFunctionObjArgs(array_type, shape, (PyObject *)output->dtype, NULL);
    Py_DecRef(shape);
    return array;
}

/* A new reference to a copy of a plain output; NULL with an exception. */
static PyObject *copy_of(const zrt_output *output, const zrt_description *seen) {
    PyObject *array = new_array(output, seen);
    Py_buffer view;
    if (array == NULL || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE) != 0) {
        Py_DecRef(array);
        return NULL;
    }
    if (view.len != 0)
        memcpy(view.buf, seen->data, (size_t)view.len);
    PyBuffer_Release(&view);
    return array;
}

/* A new reference to an array of the strings; NULL, maybe with an exception. */
static PyObject *texts_of(
    const zrt_allocated *allocated, const zrt_output *output, const zrt_description *seen, const OrtValue *value) {
    PyObject *array = new_array(output, seen);
    uintptr_t code = array == NULL ? ZRT_NO_TEXT : zrt_text_read(allocated->api, value, (uintptr_t)array);
    if (code > ZRT_LAST)
        allocated->api->ReleaseStatus((OrtStatus *)code);
    if (code != ZRT_OK) {
        Py_DecRef(array);
        return NULL;
    }
    return array;
}

/* Puts the object of one output into the list. */
static uintptr_t put(const zrt_allocated *allocated, size_t index, OrtValue **value, PyObject *list) {
    const zrt_output *output = &allocated->outputs[index];
    int there = 0;
    RETURN_CODE_IF_FAILED(allocated->api->HasValue(*value, &there));
    /* Reading an absent optional crashes. */
    if (!there)
        return ZRT_OK;
    zrt_description seen;
    RETURN_CODE_IF_FAILED(zrt_describe(allocated->api, *value, &seen));
    int is_right = output->dtype != NULL && seen.type == output->type;
    PyObject *object = NULL;
    if (is_right && seen.plain)
        object = output->copied ? copy_of(output, &seen) : array_of(allocated, output, &seen, value);
    else if (is_right && seen.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
        object = texts_of(allocated, output, &seen, *value);
    uintptr_t code = ZRT_OK;
    if (object == NULL) {
        /* Python tries again in another way, and raises the error. */
        PyErr_Clear();
        owned_memory *memory = new_memory(allocated);
        if (memory == NULL)
            return ZRT_NO_MEMORY;
        memory->owner->pointer = *value;
        *value = NULL;
        object = (PyObject *)memory;
        code = ZRT_VALUES;
    }
    return PyList_SetItem(list, (Py_ssize_t)index, object) == 0 ? code : ZRT_NO_MEMORY;
}

uintptr_t zrt_allocated_put(const zrt_allocated *allocated, OrtValue **values, size_t only, void *list) {
    uintptr_t code = ZRT_OK;
    for (size_t i = 0; i < allocated->count; i++) {
        if (!allocated->outputs[i].allocated || (only != ZRT_EVERY && only != i))
            continue;
        uintptr_t one = put(allocated, i, &values[i], list);
        if (one == ZRT_VALUES)
            code = one;
        else if (one != ZRT_OK)
            return one;
    }
    return code;
}

void zrt_owned_move(uintptr_t object, zrt_handle *handle) {
    zrt_handle *owner = ((owned_memory *)object)->owner;
    handle->pointer = owner->pointer;
    owner->pointer = NULL;
}
