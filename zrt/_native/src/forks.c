#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "code.h"
#include "forks.h"

/* The callers hand the result on as a code. */
#define REFUSED ((OrtStatus *)(uintptr_t)ZRT_FORKED)

static OrtStatus *run(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
    const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
    OrtValue **outputs) {
    (void)session, (void)run_options, (void)input_names, (void)inputs, (void)input_count;
    (void)output_names, (void)output_count, (void)outputs;
    return REFUSED;
}

static OrtStatus *run_with_binding(OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding) {
    (void)session, (void)run_options, (void)binding;
    return REFUSED;
}

static OrtStatus *bind(OrtIoBinding *binding, const char *name, const OrtValue *value) {
    (void)binding, (void)name, (void)value;
    return REFUSED;
}

static OrtStatus *bind_to_device(OrtIoBinding *binding, const char *name, const OrtMemoryInfo *memory) {
    (void)binding, (void)name, (void)memory;
    return REFUSED;
}

static OrtStatus *synchronize(OrtIoBinding *binding) {
    (void)binding;
    return REFUSED;
}

OrtApi *zrt_forks_table(const OrtApi *table) {
    OrtApi *copy = calloc(1, sizeof *copy);
    if (copy != NULL) {
        /* Of a newer header's OrtApi, an older library has the first slots only. */
        memcpy(copy, table, offsetof(OrtApi, SessionReleaseCapturedGraph) + sizeof(void *));
    }
    return copy;
}

void zrt_forks_refuse(OrtApi *table) {
    table->Run = run;
    table->RunWithBinding = run_with_binding;
    table->BindInput = table->BindOutput = bind;
    table->BindOutputToDevice = bind_to_device;
    table->SynchronizeBoundInputs = table->SynchronizeBoundOutputs = synchronize;
}
