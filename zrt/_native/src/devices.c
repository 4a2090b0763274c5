#include <Python.h>
#include <stdint.h>

#include "ort.h"
#include "devices.h"

OrtStatus *zrt_select(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t room, size_t *chosen_count, void *state) {
    const zrt_selector *selector = state;
    /* Empty in 1.27. */
    (void)runtime;
    *chosen_count = 0;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *answer =
        PyObject_CallFunction(selector->ask, "KnKKn", (unsigned long long)(uintptr_t)devices, (Py_ssize_t)count,
            (unsigned long long)(uintptr_t)model, (unsigned long long)(uintptr_t)chosen, (Py_ssize_t)room);
    Py_ssize_t given = answer != NULL ? PyNumber_AsSsize_t(answer, NULL) : -1;
    Py_XDECREF(answer);
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    if (type != NULL) {
        /* Nothing is raised across C. Kept here, where no interrupt comes between. */
        PyErr_NormalizeException(&type, &error, &trace);
        if (trace != NULL)
            PyException_SetTraceback(error, trace);
        PyObject_SetAttrString(selector->ask, "failure", error);
        PyErr_Clear();
        given = -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    PyGILState_Release(gil);
    if (given < 0)
        return selector->api->CreateStatus(ORT_FAIL, "the policy raised an exception");
    *chosen_count = (size_t)given;
    return NULL;
}
