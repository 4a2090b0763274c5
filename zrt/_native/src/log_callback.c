#include "python.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "log.h"
#include "log_callback.h"

/* The GIL alone does not protect the reference where Python is free-threaded. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PyObject *callback;
static _Thread_local int within;

static PyObject *exchange(PyObject *callable) {
    pthread_mutex_lock(&lock);
    PyObject *old = callback;
    __atomic_store_n(&callback, callable, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return old;
}

void zrt_log_set_callback(uintptr_t callable) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XINCREF((PyObject *)callable);
    Py_XDECREF(exchange((PyObject *)callable));
    PyGILState_Release(state);
}

int zrt_log_has_callback(void) {
    /* Without the lock, which a thread without the GIL could hold while the process forks. */
    return __atomic_load_n(&callback, __ATOMIC_RELAXED) != NULL;
}

static PyObject *string(const char *text) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* Calls it with a line; false if there is none or if it raises. */
static int call(int severity, const char *category, const char *id, const char *location, const char *text) {
    PyGILState_STATE state = PyGILState_Ensure();
    pthread_mutex_lock(&lock);
    PyObject *callable = callback;
    Py_XINCREF(callable);
    pthread_mutex_unlock(&lock);
    if (callable == NULL) {
        PyGILState_Release(state);
        return 0;
    }
    /* The thread may have an exception already. */
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *result = PyObject_CallFunction(
        callable, "iNNNN", severity, string(category), string(id), string(location), string(text));
    if (result == NULL)
        PyErr_WriteUnraisable(callable);
    int taken = result != NULL;
    Py_XDECREF(result);
    Py_DECREF(callable);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
    return taken;
}

void zrt_log_call(void *unused, OrtLoggingLevel severity, const char *category, const char *id, const char *location,
    const char *text) {
    (void)unused;
    if (!within && Py_IsInitialized() && PyGILState_GetThisThreadState() != NULL) {
        within = 1;
        int taken = 0;
        IN_PYTHON(taken = call(severity, category, id, location, text));
        within = 0;
        if (taken)
            return;
    }
    zrt_log *log = zrt_log_record(severity, category, id, location, text);
    if (log != NULL)
        zrt_log_print(log);
    free(log);
}
