#include "python.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "made.h"
#include "arrays.h"
#include "call.h"
#include "text.h"
#include "feed.h"

/* Up to this many inputs and outputs go on the stack, more on the heap. */
#define ON_STACK 16

/* The memory of one run's feeds and the values over it. */
typedef struct run {
    const zrt_call *call;
    Py_buffer *feeds;
    OrtValue **inputs;
    OrtValue **outputs;
    /* How many feeds have a buffer. */
    size_t held;
} run;

/* A new reference to the feed of an input; NULL if there is none. */
static PyObject *feed_of(PyObject *feeds, const zrt_call *call, size_t index) {
    PyObject *feed = NULL;
#ifdef Py_GIL_DISABLED
    if (PyDict_CheckExact(feeds))
        PyDict_GetItemRef(feeds, call->names[index], &feed);
    else
        feed = PySequence_GetItem(feeds, (Py_ssize_t)index);
    return feed;
#else
    if (PyDict_CheckExact(feeds))
        feed = PyDict_GetItemWithError(feeds, call->names[index]);
    else
        feed = PyList_CheckExact(feeds) ? PyList_GetItem(feeds, (Py_ssize_t)index)
                                        : PyTuple_GetItem(feeds, (Py_ssize_t)index);
    Py_XINCREF(feed);
    return feed;
#endif
}

/* Whether there are as many feeds as inputs, in a form that feed_of reads. */
static int fits(PyObject *feeds, const zrt_call *call) {
    if (call->names == NULL)
        return 0;
    Py_ssize_t count = -1;
    if (PyDict_CheckExact(feeds))
        count = PyDict_Size(feeds);
    else if (call->positional && PyList_CheckExact(feeds))
        count = PyList_Size(feeds);
    else if (call->positional && PyTuple_CheckExact(feeds))
        count = PyTuple_Size(feeds);
    return count == (Py_ssize_t)call->input_count;
}

static int has_shape(const Py_buffer *view, const zrt_tensor *tensor) {
    if ((size_t)view->ndim != tensor->rank)
        return 0;
    for (size_t i = 0; i < tensor->rank; i++)
        if (view->shape[i] != tensor->dims[i])
            return 0;
    return 1;
}

/* Stores the buffer of an array, or of a contiguous and aligned copy. Returns 0 without one. */
static int hold(PyObject *array, const zrt_tensor *tensor, Py_buffer *view) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS) == 0) {
        if (((uintptr_t)view->buf & (tensor->alignment - 1)) == 0)
            return 1;
        PyBuffer_Release(view);
    }
    PyErr_Clear();
    PyObject *copy = PyObject_CallMethod(array, "copy", NULL);
    int held = copy != NULL && PyObject_GetBuffer(copy, view, PyBUF_C_CONTIGUOUS) == 0;
    Py_XDECREF(copy);
    return held;
}

/* A value over the memory of a feed, or of strings with a copy of them. */
static uintptr_t wrap(const zrt_call *call, const zrt_tensor *tensor, const Py_buffer *view, OrtValue **value) {
    if (tensor->type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
        return (uintptr_t)call->api->CreateTensorWithDataAsOrtValue(
            call->memory, view->buf, tensor->bytes, tensor->dims, tensor->rank, tensor->type, value);
    OrtAllocator *allocator;
    OrtStatus *status = call->api->GetAllocatorWithDefaultOptions(&allocator);
    if (status == NULL)
        status = call->api->CreateTensorAsOrtValue(allocator, tensor->dims, tensor->rank, tensor->type, value);
    if (status != NULL)
        return (uintptr_t)status;
    uintptr_t code = zrt_text_write(call->api, *value, (uintptr_t)view->obj);
    return code == ZRT_NO_TEXT ? ZRT_OTHER : code;
}

static uintptr_t wrap_inputs(run *run, PyObject *feeds) {
    const zrt_call *call = run->call;
    for (size_t i = 0; i < call->input_count; i++) {
        const zrt_tensor *tensor = &call->inputs[i];
        PyObject *array = feed_of(feeds, call, i);
        int fitting = array != NULL && zrt_is_array(array, call->dtypes[i]) && hold(array, tensor, &run->feeds[i]);
        Py_XDECREF(array);
        if (!fitting)
            return ZRT_OTHER;
        run->held++;
        if (!has_shape(&run->feeds[i], tensor))
            return ZRT_OTHER;
        uintptr_t code = wrap(call, tensor, &run->feeds[i], &run->inputs[i]);
        if (code != ZRT_OK)
            return code;
    }
    return ZRT_OK;
}

/* Appends a fresh array for each output to the results, and None where ONNX Runtime makes the output. */
static uintptr_t wrap_outputs(run *run, const zrt_made *made, PyObject *results) {
    const zrt_call *call = run->call;
    for (size_t i = 0; i < call->output_count; i++) {
        int left = made != NULL && made->rows[i].left;
        PyObject *array = left ? Py_None : call->fresh[i] == NULL ? NULL : zrt_fresh_array(call->fresh[i]);
        if (array == NULL)
            return ZRT_OTHER;
        int appended = PyList_Append(results, array) == 0;
        /* The list owns the array. */
        if (!left)
            Py_DECREF(array);
        if (!appended)
            return ZRT_OTHER;
        if (left)
            continue;
        Py_buffer view;
        if (PyObject_GetBuffer(array, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0)
            return ZRT_OTHER;
        void *memory = view.buf;
        PyBuffer_Release(&view);
        const zrt_tensor *tensor = &call->outputs[i];
        OrtStatus *status = call->api->CreateTensorWithDataAsOrtValue(
            call->memory, memory, tensor->bytes, tensor->dims, tensor->rank, tensor->type, &run->outputs[i]);
        if (status != NULL)
            return (uintptr_t)status;
    }
    return ZRT_OK;
}

static uintptr_t run_all(run *run, PyObject *request, zrt_made *made) {
    const zrt_call *call = run->call;
    PyObject *feeds = PyTuple_GetItem(request, 0), *results = PyTuple_GetItem(request, 1);
    uintptr_t code = wrap_inputs(run, feeds);
    if (code == ZRT_OK)
        code = wrap_outputs(run, made, results);
    if (code != ZRT_OK)
        return code;
    PyThreadState *state = PyEval_SaveThread();
    code = (uintptr_t)call->api->Run(call->session, call->run_options, call->input_names,
        (const OrtValue *const *)run->inputs, call->input_count, call->output_names, call->output_count, run->outputs);
    if (code == ZRT_OK && made != NULL)
        code = (uintptr_t)zrt_made_fill(made, run->outputs);
    PyEval_RestoreThread(state);
    if (code == ZRT_OK && made != NULL && zrt_made_arrays(made, (uintptr_t)results) > 0)
        code = ZRT_LEFT;
    return code;
}

static void release(const run *run) {
    const zrt_call *call = run->call;
    for (size_t i = 0; i < call->input_count; i++)
        if (run->inputs[i] != NULL)
            call->api->ReleaseValue(run->inputs[i]);
    for (size_t i = 0; i < call->output_count; i++)
        if (run->outputs[i] != NULL)
            call->api->ReleaseValue(run->outputs[i]);
    for (size_t i = 0; i < run->held; i++)
        PyBuffer_Release(&run->feeds[i]);
}

uintptr_t zrt_feed_run(zrt_handle *handle, uintptr_t request, zrt_made *made) {
    const zrt_call *call = handle->pointer;
    PyGILState_STATE state = PyGILState_Ensure();
    uintptr_t code = ZRT_OTHER;
    if (fits(PyTuple_GetItem((PyObject *)request, 0), call)) {
        size_t values = call->input_count + call->output_count;
        Py_buffer few_feeds[ON_STACK], *feeds = few_feeds;
        OrtValue *few_values[2 * ON_STACK], **all = few_values;
        int many = call->input_count > ON_STACK || call->output_count > ON_STACK;
        if (many) {
            feeds = malloc(call->input_count * sizeof *feeds + values * sizeof *all);
            all = (OrtValue **)(feeds + call->input_count);
        }
        if (feeds != NULL) {
            memset(all, 0, values * sizeof *all);
            run run = {call, feeds, all, all + call->input_count, 0};
            code = run_all(&run, (PyObject *)request, made);
            release(&run);
        }
        if (many)
            free(feeds);
    }
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}
