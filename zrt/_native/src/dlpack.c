#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "handle.h"
#include "dlpack.h"

/* Before Python 3.13, and in the stable ABI, the GIL is enough. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

static const char PLAIN[] = "dltensor", VERSIONED[] = "dltensor_versioned";
static const char PLAIN_TAKEN[] = "used_dltensor", VERSIONED_TAKEN[] = "used_dltensor_versioned";

/* Any thread may call a deleter, with or without the GIL, also after Python's end: zrt_handle_unref allows all that. */
static void delete_plain(zrt_dl_plain *self) {
    zrt_handle_unref(self->context);
}

static void delete_versioned(zrt_dl_versioned *self) {
    zrt_handle_unref(self->context);
}

/* A consumer renames the capsule: one that is freed under its first name has no consumer. */
static void drop_capsule(PyObject *capsule) {
    void *plain = PyCapsule_IsValid(capsule, PLAIN) ? PyCapsule_GetPointer(capsule, PLAIN) : NULL;
    void *versioned = PyCapsule_IsValid(capsule, VERSIONED) ? PyCapsule_GetPointer(capsule, VERSIONED) : NULL;
    /* As in free_memory of allocated.c. */
    PyThreadState *state = PyEval_SaveThread();
    if (plain != NULL)
        delete_plain(plain);
    if (versioned != NULL)
        delete_versioned(versioned);
    PyEval_RestoreThread(state);
}

int zrt_dlpack_export(
    uintptr_t box, zrt_handle *owner, const zrt_dl_tensor *tensor, uint32_t major, uint32_t minor, uint64_t flags) {
    struct {
        union {
            zrt_dl_plain plain;
            zrt_dl_versioned versioned;
        };
        int64_t dims[];
    } *made;
    size_t dims = (size_t)tensor->ndim * sizeof *tensor->shape;
    zrt_handle *handle = zrt_handle_block(sizeof *made + 2 * dims, &owner, 1);
    if (handle == NULL)
        return -1;
    made = handle->pointer;
    zrt_dl_tensor *copy = major ? &made->versioned.tensor : &made->plain.tensor;
    *copy = *tensor;
    copy->shape = made->dims;
    copy->strides = made->dims + tensor->ndim;
    memcpy(copy->shape, tensor->shape, dims);
    memcpy(copy->strides, tensor->strides, dims);
    if (major) {
        made->versioned.major = major;
        made->versioned.minor = minor;
        made->versioned.context = handle;
        made->versioned.deleter = delete_versioned;
        made->versioned.flags = flags;
    } else {
        made->plain.context = handle;
        made->plain.deleter = delete_plain;
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *capsule = PyCapsule_New(made, major ? VERSIONED : PLAIN, drop_capsule);
    int failed = capsule == NULL || PyList_Append((PyObject *)box, capsule);
    PyErr_Clear();
    if (capsule == NULL)
        zrt_handle_unref(handle);
    else
        Py_DecRef(capsule);
    PyGILState_Release(gil);
    return failed ? -1 : 0;
}

/* Another library's deleter may need the GIL without taking it. After Python's end, that library is gone. */
static int enter(PyGILState_STATE *gil) {
    if (!Py_IsInitialized())
        return 0;
    *gil = PyGILState_Ensure();
    return 1;
}

static void give_back_plain(void *tensor) {
    zrt_dl_plain *plain = tensor;
    PyGILState_STATE gil;
    if (plain->deleter == NULL || !enter(&gil))
        return;
    plain->deleter(plain);
    PyGILState_Release(gil);
}

void zrt_dlpack_give_back(void *tensor) {
    zrt_dl_versioned *versioned = tensor;
    PyGILState_STATE gil;
    if (versioned->deleter == NULL || !enter(&gil))
        return;
    versioned->deleter(versioned);
    PyGILState_Release(gil);
}

int zrt_dlpack_take(uintptr_t capsule, zrt_handle *handle) {
    PyObject *object = (PyObject *)capsule;
    PyGILState_STATE gil = PyGILState_Ensure();
    int kind = 0;
    /* Two threads with one capsule: only one may take it. */
    Py_BEGIN_CRITICAL_SECTION(object);
    if (PyCapsule_IsValid(object, VERSIONED)) {
        kind = ZRT_DL_VERSIONED;
        handle->release = zrt_dlpack_give_back;
        handle->pointer = PyCapsule_GetPointer(object, VERSIONED);
        PyCapsule_SetName(object, VERSIONED_TAKEN);
    } else if (PyCapsule_IsValid(object, PLAIN)) {
        kind = ZRT_DL_PLAIN;
        handle->release = give_back_plain;
        handle->pointer = PyCapsule_GetPointer(object, PLAIN);
        PyCapsule_SetName(object, PLAIN_TAKEN);
    }
    Py_END_CRITICAL_SECTION();
    PyGILState_Release(gil);
    return kind;
}

int zrt_dlpack_look(uintptr_t capsule, zrt_dl_tensor *tensor) {
    PyObject *object = (PyObject *)capsule;
    PyGILState_STATE gil = PyGILState_Ensure();
    int found = -1;
    Py_BEGIN_CRITICAL_SECTION(object);
    if (PyCapsule_IsValid(object, VERSIONED)) {
        *tensor = ((zrt_dl_versioned *)PyCapsule_GetPointer(object, VERSIONED))->tensor;
        found = 0;
    } else if (PyCapsule_IsValid(object, PLAIN)) {
        *tensor = ((zrt_dl_plain *)PyCapsule_GetPointer(object, PLAIN))->tensor;
        found = 0;
    }
    Py_END_CRITICAL_SECTION();
    PyGILState_Release(gil);
    return found;
}
