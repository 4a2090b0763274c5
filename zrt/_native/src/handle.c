#include "python.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"

/* How many forks separate this process from the one that loaded zrt. */
static unsigned generation;

/* Whether this thread is releasing handles, and the list of those that it releases next. */
static _Thread_local int releasing;
static _Thread_local zrt_handle *dying;

zrt_handle *zrt_handle_ref(zrt_handle *handle) {
    __atomic_fetch_add(&handle->references, 1, __ATOMIC_RELAXED);
    return handle;
}

zrt_handle *zrt_handle_new(void *pointer, zrt_release release, zrt_handle *const *parents, size_t count) {
    zrt_handle *handle = malloc(sizeof *handle + count * sizeof *parents);
    if (handle == NULL)
        return NULL;
    handle->pointer = pointer;
    handle->release = release;
    handle->references = 1;
    handle->generation = generation;
    handle->parent_count = count;
    handle->parents = (zrt_handle **)(handle + 1);
    for (size_t i = 0; i < count; i++)
        handle->parents[i] = zrt_handle_ref(parents[i]);
    return handle;
}

zrt_handle *zrt_handle_block(size_t size, zrt_handle *const *parents, size_t count) {
    void *block = calloc(1, size ? size : 1);
    zrt_handle *handle = block ? zrt_handle_new(block, free, parents, count) : NULL;
    if (handle == NULL)
        free(block);
    return handle;
}

static void release_object(void *object) {
    /* After the interpreter's end the object no longer exists. */
    if (!Py_IsInitialized())
        return;
    /* A kernel of an operator keeps such a handle, and ONNX Runtime destroys the kernels of a load that fails. */
    IN_PYTHON({
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DecRef(object);
        PyGILState_Release(state);
    });
}

zrt_handle *zrt_handle_object(uintptr_t object) {
    zrt_handle *handle = zrt_handle_new((void *)object, release_object, NULL, 0);
    if (handle != NULL) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_IncRef((void *)object);
        PyGILState_Release(state);
    }
    return handle;
}

int zrt_handle_is_own(const zrt_handle *handle) {
    return handle->generation == generation;
}

static void release_one(zrt_handle *handle) {
    if (zrt_handle_is_own(handle)) {
        if (handle->pointer != NULL)
            handle->release(handle->pointer);
        for (size_t i = 0; i < handle->parent_count; i++)
            zrt_handle_unref(handle->parents[i]);
    }
    free(handle);
}

void zrt_handle_unref(zrt_handle *handle) {
    if (__atomic_sub_fetch(&handle->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    /* A list in place of recursion: a chain of parents, or of Python objects with handles, may be too long for the
       stack. */
    handle->next = dying;
    dying = handle;
    if (releasing)
        return;
    releasing = 1;
    while (dying != NULL) {
        handle = dying;
        dying = handle->next;
        release_one(handle);
    }
    releasing = 0;
}

void zrt_handle_unref_kept(void *kept, zrt_handle *handle) {
    (void)kept;
    zrt_handle_unref(handle);
}

static void in_child(void) {
    generation++;
}

int zrt_handle_watch_forks(void) {
    return pthread_atfork(NULL, NULL, in_child);
}
