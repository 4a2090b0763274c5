#include "python.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "allocated.h"
#include "text.h"
#include "watch.h"
#include "arena.h"
#include "call.h"

/* Up to this many feeds, inputs or outputs go on the stack, more on the heap: a thread's stack may be small. */
#define ON_STACK 16

static PyObject *empty_function, *dtype_name;

/* `count` zeroed elements: those on the stack, or others on the heap for `give`; NULL without memory. */
static void *take(void *stack, size_t count, size_t width) {
    if (count > ON_STACK)
        return calloc(count, width);
    return memset(stack, 0, count * width);
}

static void give(void *stack, void *taken) {
    if (taken != stack)
        free(taken);
}

/* Stores a tensor over an array's memory. */
static OrtStatus *wrap(const zrt_call *call, const zrt_tensor *tensor, const Py_buffer *view, OrtValue **value) {
    return call->api->CreateTensorWithDataAsOrtValue(call->memory, view->buf, (size_t)view->len,
        (const int64_t *)view->shape, (size_t)view->ndim, tensor->type, value);
}

/* A new reference to a fresh array for an output; NULL with an exception. `sizes` are those of a general call. */
static PyObject *fresh_array(const zrt_call *call, size_t index, const int64_t *sizes) {
    if (!call->general)
        return PyObject_Call(empty_function, call->fresh[index], NULL);
    const zrt_tensor *output = &call->outputs[index];
    PyObject *shape = zrt_shape_tuple(output->dims, output->rank, sizes), *array = NULL;
    if (shape != NULL)
        array = PyObject_CallFunctionObjArgs(empty_function, shape, (PyObject *)call->fresh[index], NULL);
    Py_XDECREF(shape);
    return array;
}

/* Appends a fresh array for each output to a list, and stores a value over its memory; where ONNX Runtime allocates the
   output, it appends None and stores nothing. Returns a code. */
static uintptr_t make_outputs(
    const zrt_call *call, const zrt_allocated *allocated, const int64_t *sizes, OrtValue **values, void *list) {
    for (size_t i = 0; i < call->output_count; i++) {
        if (allocated != NULL && allocated->outputs[i].allocated) {
            if (PyList_Append(list, Py_None) != 0)
                return ZRT_NO_MEMORY;
            continue;
        }
        PyObject *array = fresh_array(call, i, sizes);
        Py_buffer view;
        uintptr_t code = ZRT_NO_MEMORY;
        if (array != NULL && PyObject_GetBuffer(array, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) == 0) {
            if (PyList_Append(list, array) == 0)
                code = (uintptr_t)wrap(call, &call->outputs[i], &view, &values[i]);
            PyBuffer_Release(&view);
        }
        Py_XDECREF(array);
        if (code != ZRT_OK)
            return code;
    }
    return ZRT_OK;
}

/* Options of one run; `end` is 0 for a run without a deadline. */
typedef struct limits {
    OrtRunOptions *options;
    uint64_t end;
} limits;

/* The values of one run, the bytes of their memory, or 0 if they are not known, and the sizes of a general call. */
typedef struct given {
    OrtValue *const *values;
    size_t bytes;
    const int64_t *sizes;
} given;

static uintptr_t run_session(const zrt_call *call, const given *inputs, OrtValue **outputs, const limits *limits) {
    const OrtRunOptions *options = limits->options != NULL ? limits->options : call->run_options;
    zrt_watch watch;
    uintptr_t code = ZRT_OK;
    if (limits->end) {
        code = zrt_watch_begin(&watch, call->api, limits->options, limits->end);
        options = watch.run_options;
    }
    if (call->arena != NULL)
        zrt_arena_expect(call->arena, inputs->bytes);
    if (code == ZRT_OK)
        code = (uintptr_t)call->api->Run(call->session, options, call->input_names,
            (const OrtValue *const *)inputs->values, call->input_count, call->output_names, call->output_count,
            outputs);
    return limits->end ? zrt_watch_end(&watch, code) : code;
}

/* Runs over values, and puts the results into an empty list. The GIL is free while ONNX Runtime computes. */
static uintptr_t run(const zrt_call *call, const given *inputs, const limits *limits, PyObject *results) {
    const zrt_allocated *allocated = __atomic_load_n(&call->allocated, __ATOMIC_ACQUIRE);
    OrtValue *stack[ON_STACK], **outputs = take(stack, call->output_count, sizeof *stack);
    if (outputs == NULL)
        return ZRT_NO_MEMORY;
    uintptr_t code = make_outputs(call, allocated, inputs->sizes, outputs, results);
    if (code == ZRT_OK) {
        PyThreadState *state = PyEval_SaveThread();
        code = run_session(call, inputs, outputs, limits);
        PyEval_RestoreThread(state);
        if (code == ZRT_OK && allocated != NULL)
            code = zrt_allocated_put(allocated, outputs, ZRT_EVERY, results);
    }
    zrt_release_values(call->api, outputs, call->output_count);
    give(stack, outputs);
    return code;
}

/* An array of the caller's. */
typedef struct feed {
    Py_buffer view;
    PyObject *dtype;
} feed;

/* The caller's feeds, and those that were read so far, in the order of the inputs of the call `reader`. `held` of them
   were read: reading stops at the first that is missing or no array. `arrays` is NULL for another kind of feeds than
   feed_of reads, and without memory: no call is for these. In a general call, `sizes` has the size that the number
   ZRT_ANY_SIZE - 1 - i stands for at index i; -1 where no feed has given it yet. */
typedef struct reading {
    PyObject *feeds;
    size_t count;
    const zrt_call *reader;
    feed *arrays;
    size_t held;
    int64_t sizes[ZRT_MOST_SIZES];
} reading;

/* How many feeds there are; SIZE_MAX where they are of another kind than feed_of reads. */
static size_t count_of(PyObject *feeds) {
    if (PyDict_CheckExact(feeds))
        return (size_t)PyDict_Size(feeds);
    if (PyList_CheckExact(feeds))
        return (size_t)PyList_Size(feeds);
    return PyTuple_CheckExact(feeds) ? (size_t)PyTuple_Size(feeds) : SIZE_MAX;
}

/* A new reference to the feed of an input; NULL if there is none. */
static PyObject *feed_of(PyObject *feeds, const zrt_call *call, size_t index) {
    PyObject *feed = NULL;
    if (!PyDict_CheckExact(feeds))
        return PySequence_GetItem(feeds, (Py_ssize_t)index);
#ifdef Py_GIL_DISABLED
    PyDict_GetItemRef(feeds, call->names[index], &feed);
#else
    feed = PyDict_GetItemWithError(feeds, call->names[index]);
    Py_XINCREF(feed);
#endif
    return feed;
}

static void drop_feeds(reading *reading) {
    for (size_t i = 0; i < reading->held; i++) {
        PyBuffer_Release(&reading->arrays[i].view);
        Py_DECREF(reading->arrays[i].dtype);
    }
    reading->held = 0;
}

static void read_feeds(reading *reading, const zrt_call *call) {
    drop_feeds(reading);
    reading->reader = call;
    for (size_t i = 0; i < reading->count; i++) {
        feed *feed = &reading->arrays[i];
        PyObject *array = feed_of(reading->feeds, call, i);
        int held = array != NULL && zrt_is_array(array) && PyObject_GetBuffer(array, &feed->view, PyBUF_STRIDES) == 0;
        if (held) {
            feed->dtype = PyObject_GetAttr(array, dtype_name);
            held = feed->dtype != NULL;
            if (!held)
                PyBuffer_Release(&feed->view);
        }
        Py_XDECREF(array);
        if (!held)
            break;
        reading->held++;
    }
    PyErr_Clear();
}

/* Whether a size of an array is the wanted one. A number for a size gets this size in `sizes` if it has none yet. */
static int has_size(int64_t size, int64_t wanted, int64_t *sizes) {
    if (wanted >= ZRT_ANY_SIZE)
        return wanted == ZRT_ANY_SIZE || size == wanted;
    int64_t *told = &sizes[ZRT_ANY_SIZE - 1 - wanted];
    if (*told < 0)
        *told = size;
    return *told == size;
}

static int has_shape(const Py_buffer *view, const zrt_tensor *tensor, int64_t *sizes) {
    if (tensor->dims == NULL)
        return 1;
    if ((size_t)view->ndim != tensor->rank)
        return 0;
    for (size_t i = 0; i < tensor->rank; i++)
        if (!has_size(view->shape[i], tensor->dims[i], sizes))
            return 0;
    return 1;
}

/* Whether the call has the inputs of these feeds, of their types and shapes; stores the sizes of a general call. */
static int is_for_feeds(const zrt_call *call, reading *reading) {
    if (call->names == NULL || call->input_count != reading->count)
        return 0;
    if (!call->positional && !PyDict_CheckExact(reading->feeds))
        return 0;
    /* All calls of a session have the same objects as names, so their addresses are compared. */
    if (reading->reader == NULL ||
        memcmp(reading->reader->names, call->names, reading->count * sizeof *call->names) != 0)
        read_feeds(reading, call);
    if (reading->held != reading->count)
        return 0;
    if (call->general)
        memset(reading->sizes, 0xFF, sizeof reading->sizes);
    for (size_t i = 0; i < reading->count; i++) {
        const feed *feed = &reading->arrays[i];
        if (call->dtypes[i] != NULL && feed->dtype != call->dtypes[i])
            return 0;
        if (!has_shape(&feed->view, &call->inputs[i], reading->sizes))
            return 0;
    }
    return 1;
}

/* Whether the call computes the outputs of these names, which may be any object. */
static int is_for_outputs(const zrt_call *call, PyObject *outputs) {
    PyObject *wanted = call->wanted;
    if (wanted == NULL || outputs == Py_None)
        return wanted == NULL && outputs == Py_None;
    Py_ssize_t count = PyTuple_Size(wanted);
    if (!(PyList_CheckExact(outputs) && PyList_Size(outputs) == count) &&
        !(PyTuple_CheckExact(outputs) && PyTuple_Size(outputs) == count))
        return 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PySequence_GetItem(outputs, i), *own = PyTuple_GetItem(wanted, i);
        int same = name == own || (name != NULL && PyUnicode_CheckExact(name) && PyUnicode_Compare(name, own) == 0);
        Py_XDECREF(name);
        if (!same) {
            PyErr_Clear();
            return 0;
        }
    }
    return 1;
}

/* Replaces the feed by a contiguous and aligned copy. */
static int copy_feed(feed *feed) {
    PyObject *copy = PyObject_CallMethod(feed->view.obj, "copy", NULL);
    Py_buffer view;
    int held = copy != NULL && PyObject_GetBuffer(copy, &view, PyBUF_C_CONTIGUOUS) == 0;
    Py_XDECREF(copy);
    if (held) {
        PyBuffer_Release(&feed->view);
        feed->view = view;
    }
    return held;
}

/* A tensor with a copy of an array's strings. */
static uintptr_t copy_text(const zrt_call *call, const zrt_tensor *tensor, const feed *feed, OrtValue **value) {
    OrtAllocator *allocator;
    RETURN_CODE_IF_FAILED(call->api->GetAllocatorWithDefaultOptions(&allocator));
    RETURN_CODE_IF_FAILED(call->api->CreateTensorAsOrtValue(
        allocator, (const int64_t *)feed->view.shape, (size_t)feed->view.ndim, tensor->type, value));
    uintptr_t code = zrt_text_write(call->api, *value, (uintptr_t)feed->view.obj);
    return code == ZRT_NO_TEXT || code == ZRT_NO_MEMORY ? ZRT_UNREADABLE : code;
}

static uintptr_t wrap_feeds(const zrt_call *call, feed *feeds, OrtValue **values) {
    for (size_t i = 0; i < call->input_count; i++) {
        const zrt_tensor *tensor = &call->inputs[i];
        const Py_buffer *view = &feeds[i].view;
        if ((!PyBuffer_IsContiguous(view, 'C') || ((uintptr_t)view->buf & (tensor->alignment - 1))) &&
            !copy_feed(&feeds[i]))
            return ZRT_UNREADABLE;
        uintptr_t code = tensor->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING
                             ? copy_text(call, tensor, &feeds[i], &values[i])
                             : (uintptr_t)wrap(call, tensor, view, &values[i]);
        if (code != ZRT_OK)
            return code;
    }
    return ZRT_OK;
}

/* Runs over the caller's arrays, which the call is for, and puts the results into an empty list. */
static uintptr_t run_over(const zrt_call *call, reading *reading, const limits *limits, PyObject *results) {
    OrtValue *stack[ON_STACK], **inputs = take(stack, call->input_count, sizeof *stack);
    if (inputs == NULL)
        return ZRT_UNREADABLE;
    given given = {inputs, 0, reading->sizes};
    for (size_t i = 0; i < call->input_count; i++)
        if (call->inputs[i].type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
            given.bytes += (size_t)reading->arrays[i].view.len;
    uintptr_t code = wrap_feeds(call, reading->arrays, inputs);
    if (code == ZRT_OK)
        code = run(call, &given, limits, results);
    zrt_release_values(call->api, inputs, call->input_count);
    give(stack, inputs);
    return code;
}

/* The call at a place of the tuple `calls` (see call.h). */
static const zrt_call *call_at(PyObject *calls, Py_ssize_t place) {
    const zrt_handle *handle = PyLong_AsVoidPtr(PyTuple_GetItem(calls, place));
    return handle->pointer;
}

/* The result of a builtin; takes over `results`. `place` is that of the call. */
static PyObject *answer(uintptr_t code, PyObject *results, PyObject *calls, Py_ssize_t place) {
    if (code == ZRT_OK)
        return results;
    PyErr_Clear();
    if (code == ZRT_UNREADABLE) {
        Py_DECREF(results);
        Py_INCREF(Py_None);
        return Py_None;
    }
    PyObject *failure = Py_BuildValue("KNO", (unsigned long long)code, results, PyTuple_GetItem(calls, place + 1));
    if (failure == NULL && code > ZRT_LAST)
        call_at(calls, place)->api->ReleaseStatus((OrtStatus *)code);
    return failure;
}

/* The arguments `options` and `end`, which may be missing. */
static limits limits_of(PyObject *const *arguments, Py_ssize_t count) {
    limits limits = {NULL, 0};
    if (count > 0)
        limits.options = PyLong_AsVoidPtr(arguments[0]);
    if (count > 1)
        limits.end = PyLong_AsUnsignedLongLong(arguments[1]);
    return limits;
}

/* The place of the first call for these feeds and outputs, -1 where there is none. */
static Py_ssize_t place_of(PyObject *calls, reading *reading, PyObject *outputs) {
    Py_ssize_t count = reading->arrays == NULL ? 0 : PyTuple_Size(calls);
    for (Py_ssize_t place = 0; place < count; place += 2) {
        const zrt_call *call = call_at(calls, place);
        if (is_for_outputs(call, outputs) && is_for_feeds(call, reading))
            return place;
    }
    return -1;
}

/* run_feeds under `limits`, which may set none; find_call if it is NULL. */
static PyObject *find_and_run(PyObject *const *arguments, const limits *limits) {
    PyObject *calls = arguments[0], *answered = NULL;
    feed stack[ON_STACK];
    reading reading;
    reading.feeds = arguments[1];
    reading.count = count_of(arguments[1]);
    reading.reader = NULL;
    reading.held = 0;
    reading.arrays = reading.count == SIZE_MAX ? NULL : take(stack, reading.count, sizeof *stack);
    Py_ssize_t place = place_of(calls, &reading, arguments[2]);
    if (place < 0) {
        answered = Py_None;
        Py_INCREF(answered);
    } else if (limits == NULL) {
        answered = PyTuple_GetItem(calls, place + 1);
        Py_INCREF(answered);
    } else {
        PyObject *results = PyList_New(0);
        if (results != NULL)
            answered = answer(run_over(call_at(calls, place), &reading, limits, results), results, calls, place);
    }
    drop_feeds(&reading);
    give(stack, reading.arrays);
    return answered;
}

PyObject *zrt_find_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    (void)count;
    return find_and_run(arguments, NULL);
}

PyObject *zrt_run_feeds(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    limits limits = limits_of(arguments + 3, count - 3);
    return find_and_run(arguments, &limits);
}

static PyObject *run_first(PyObject *calls, PyObject *values, const limits *limits) {
    PyObject *results = PyList_New(0);
    if (results == NULL)
        return NULL;
    const zrt_call *call = call_at(calls, 0);
    const given given = {PyLong_AsVoidPtr(values), call->input_bytes, NULL};
    return answer(run(call, &given, limits, results), results, calls, 0);
}

PyObject *zrt_run_values(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)self;
    limits limits = limits_of(arguments + 2, count - 2);
    return run_first(arguments[0], arguments[1], &limits);
}

void *zrt_call_prepared(void *prepared) {
    return run_first(prepared, PyTuple_GetItem(prepared, 2), &(limits){NULL, 0});
}

int zrt_call_open(void *empty) {
    empty_function = empty;
    Py_IncRef(empty_function);
    dtype_name = PyUnicode_InternFromString("dtype");
    return dtype_name == NULL ? -1 : 0;
}
