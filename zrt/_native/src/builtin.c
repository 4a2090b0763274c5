#include "python.h"
#include <stdint.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "allocated.h"
#include "call.h"
#include "builtin.h"

typedef struct builtin {
    PyMethodDef definition;
    PyObject *member;
    /* Reads `member` of an object, after a check of its type. */
    descrgetfunc get;
    PyObject *function;
} builtin;

static PyObject *call_function(
    const builtin *builtin, PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_Size(keywords);
    PyObject *all = PyTuple_New(count + 1), *by_name = PyDict_New(), *result = NULL;
    int failed = all == NULL || by_name == NULL;
    for (Py_ssize_t i = -1; i < count && !failed; i++) {
        PyObject *argument = i < 0 ? self : arguments[i];
        Py_IncRef(argument);
        failed = PyTuple_SetItem(all, i + 1, argument) != 0;
    }
    for (Py_ssize_t i = 0; i < named && !failed; i++)
        failed = PyDict_SetItem(by_name, PyTuple_GetItem(keywords, i), arguments[count + i]) != 0;
    if (!failed)
        result = PyObject_Call(builtin->function, all, by_name);
    Py_XDECREF(all);
    Py_XDECREF(by_name);
    return result;
}

static builtin builtins[ZRT_BUILTINS];

static PyObject *call(
    const builtin *builtin, PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    if (count != 0 || keywords != NULL)
        return call_function(builtin, self, arguments, count, keywords);
    /* It keeps the handle alive during the run: another thread may close the object. */
    PyObject *opened = builtin->get(builtin->member, self, NULL);
    zrt_handle *handle = NULL;
    if (opened != NULL && PyTuple_Check(opened))
        handle = PyLong_AsVoidPtr(PyTuple_GetItem(opened, 0));
    if (handle == NULL) {
        PyErr_Clear();
        Py_XDECREF(opened);
        return call_function(builtin, self, arguments, count, keywords);
    }
    if (builtin == &builtins[ZRT_PREPARED_RUN]) {
        PyObject *results = zrt_call_prepared(opened);
        if (results != NULL && !PyList_CheckExact(results))
            return PyObject_CallMethod(self, "_complete", "NN", results, opened);
        Py_DecRef(opened);
        return results;
    }
    PyThreadState *state = PyEval_SaveThread();
    uintptr_t code = zrt_lane_run(handle);
    PyEval_RestoreThread(state);
    Py_DecRef(opened);
    if (code != ZRT_OK)
        return PyObject_CallMethod(self, "_run_failed", "K", (unsigned long long)code);
    Py_IncRef(Py_None);
    return Py_None;
}

static PyObject *lane_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    return call(&builtins[ZRT_LANE_RUN], self, arguments, count, keywords);
}

static PyObject *binding_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    return call(&builtins[ZRT_BINDING_RUN], self, arguments, count, keywords);
}

static PyObject *prepared_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    return call(&builtins[ZRT_PREPARED_RUN], self, arguments, count, keywords);
}

static builtin builtins[ZRT_BUILTINS] = {
    [ZRT_LANE_RUN] = {.definition = {.ml_name = "run", .ml_meth = (PyCFunction)(void (*)(void))lane_run}},
    [ZRT_BINDING_RUN] = {.definition = {.ml_name = "run", .ml_meth = (PyCFunction)(void (*)(void))binding_run}},
    [ZRT_PREPARED_RUN] = {.definition = {.ml_name = "run", .ml_meth = (PyCFunction)(void (*)(void))prepared_run}},
};

static PyMethodDef functions[] = {
    {"find_call", (PyCFunction)(void (*)(void))zrt_find_call, METH_FASTCALL, NULL},
    {"run_feeds", (PyCFunction)(void (*)(void))zrt_run_feeds, METH_FASTCALL, NULL},
    {"run_values", (PyCFunction)(void (*)(void))zrt_run_values, METH_FASTCALL, NULL},
    {"bind_array", (PyCFunction)(void (*)(void))zrt_bind_array, METH_FASTCALL, NULL},
};

int zrt_builtin_open(uintptr_t ndarray, uintptr_t empty, uintptr_t list) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type = zrt_allocated_open((PyObject *)ndarray);
    int failed = type == NULL || PyList_Append((PyObject *)list, type) != 0 || zrt_call_open((PyObject *)empty) != 0;
    Py_XDECREF(type);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && !failed; i++) {
        PyObject *function = PyCFunction_NewEx(&functions[i], NULL, NULL);
        failed = function == NULL || PyList_Append((PyObject *)list, function) != 0;
        Py_XDECREF(function);
    }
    PyErr_Clear();
    PyGILState_Release(state);
    return failed;
}

int zrt_builtin_set(int index, uintptr_t type, uintptr_t member, uintptr_t function, const char *doc) {
    PyGILState_STATE state = PyGILState_Ensure();
    builtin *builtin = &builtins[index];
    builtin->definition.ml_flags = METH_FASTCALL | METH_KEYWORDS;
    builtin->definition.ml_doc = strdup(doc);
    builtin->member = (PyObject *)member;
    builtin->function = (PyObject *)function;
    Py_IncRef(builtin->member);
    Py_IncRef(builtin->function);
    builtin->get = (descrgetfunc)PyType_GetSlot(Py_TYPE(builtin->member), Py_tp_descr_get);
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)type, &builtin->definition);
    int failed = method == NULL || PyObject_SetAttrString((PyObject *)type, builtin->definition.ml_name, method) != 0;
    Py_XDECREF(method);
    PyErr_Clear();
    PyGILState_Release(state);
    return failed;
}
