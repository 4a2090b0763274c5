/* An ONNX Runtime that passes each call on to the real one, but for the calls that are to fail. The tables of functions
   follow this text: tests/support/faulty_library.py writes them. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct {
    void *(*get)(uint32_t version);
    const char *(*version)(void);
} Base;

static const Base *real_base;
static void **real_OrtApi;
static atomic_long calls, first, last;
static char failed[100];
/* How many objects of each kind were created and not released; the first kind is the status. */
static atomic_long alive[KINDS];

/* Makes the tables around the real one, and returns the first. */
static void **wrap(void);

/* The calls from number `from` to number `to` of those that follow fail; none with `from` 0. */
EXPORT void faults_arm(long from, long to) {
    failed[0] = 0;
    calls = 0;
    last = to;
    first = from;
}

EXPORT long faults_calls(void) {
    return calls;
}

/* The function that failed first; empty if none did. */
EXPORT const char *faults_failed(void) {
    return failed;
}

EXPORT long faults_alive(int kind) {
    return alive[kind];
}

static void *fault(const char *name) {
    long number = ++calls;
    if (first == 0 || number < first || number > last)
        return NULL;
    if (failed[0] == 0)
        snprintf(failed, sizeof failed, "%s", name);
    /* ORT_RUNTIME_EXCEPTION, as for an exception of C++ such as that of no memory. */
    return ((void *(*)(int, const char *))real_OrtApi[0])(6, MESSAGE);
}

static void *counted(void *status) {
    alive[0] += status != NULL;
    return status;
}

static void *get(uint32_t version) {
    real_OrtApi = real_base->get(version);
    return real_OrtApi == NULL ? NULL : wrap();
}

EXPORT const Base *OrtGetApiBase(void) {
    static Base base;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return NULL;
    real_base = ((const Base *(*)(void))dlsym(library, "OrtGetApiBase"))();
    base = (Base){get, real_base->version};
    return &base;
}
