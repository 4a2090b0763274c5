#include <stddef.h>
#include <stdint.h>

#include "ort.h"
#include "compile.h"

/* Remembers the failure: ONNX Runtime flushes its stream once more when it gives up, and Python must not be called
   again. */
static OrtStatus *fail(zrt_compilation *compilation) {
    compilation->failed = 1;
    return compilation->api->CreateStatus(ORT_FAIL, "a function of the caller's raised an exception");
}

OrtStatus *zrt_compile_write(void *state, const void *data, size_t size) {
    zrt_compilation *compilation = state;
    if (compilation->failed || compilation->write(compilation->python, data, size))
        return fail(compilation);
    return NULL;
}

OrtStatus *zrt_compile_place(void *state, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *there, OrtExternalInitializerInfo **placed) {
    zrt_compilation *compilation = state;
    *placed = NULL;
    if (compilation->failed || compilation->place(compilation->python, name, value, there, placed))
        return fail(compilation);
    return NULL;
}
