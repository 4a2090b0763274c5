#include "python.h"
#include <stddef.h>
#include <stdint.h>

#include "ort.h"
#include "questions.h"

OrtStatus *zrt_select(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t capacity, size_t *chosen_count, void *state) {
    const zrt_selector *selector = state;
    /* ONNX Runtime, up to 1.32, leaves it empty. */
    (void)runtime;
    *chosen_count = 0;
    int failed = 1;
    IN_PYTHON(failed = selector->ask(selector->python, devices, count, model, chosen, capacity, chosen_count));
    if (!failed)
        return NULL;
    *chosen_count = 0;
    return selector->api->CreateStatus(ORT_FAIL, "the policy raised an exception");
}

/* Remembers the failure: ONNX Runtime flushes its stream once more when it gives up, and Python must not be called
   again. */
static OrtStatus *fail(zrt_compilation *compilation) {
    compilation->failed = 1;
    return compilation->api->CreateStatus(ORT_FAIL, "a function of the caller's raised an exception");
}

OrtStatus *zrt_compile_write(void *state, const void *data, size_t size) {
    zrt_compilation *compilation = state;
    int failed = compilation->failed;
    if (!failed)
        IN_PYTHON(failed = compilation->write(compilation->python, data, size));
    return failed ? fail(compilation) : NULL;
}

OrtStatus *zrt_compile_place(void *state, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *there, OrtExternalInitializerInfo **placed) {
    zrt_compilation *compilation = state;
    *placed = NULL;
    int failed = compilation->failed;
    if (!failed)
        IN_PYTHON(failed = compilation->place(compilation->python, name, value, there, placed));
    return failed ? fail(compilation) : NULL;
}
