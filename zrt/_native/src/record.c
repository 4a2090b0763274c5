#define _GNU_SOURCE
#include <Python.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "lane.h"
#include "record.h"

/* Runs before a median is believed. */
#define SETTLED 100
/* In the place of a number while the record is written. */
#define WRITING UINT64_MAX

/* A recorder by its session. Entries stay, and later recorders use them again: so runs read them without a lock. */
typedef struct entry {
    OrtSession *session;
    zrt_recorder *recorder;
    struct entry *next;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;

/* The functions below ours: ONNX Runtime's or those of the budget. */
static OrtStatus *(*run_below)(OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *,
    size_t, const char *const *, size_t, OrtValue **);
static OrtStatus *(*bound_run_below)(OrtSession *, const OrtRunOptions *, const OrtIoBinding *);

/* A Python function. */
extern int zrt_run_noted(void *python, const zrt_noted_run *noted);

static zrt_recorder *recorder_of(const OrtSession *session) {
    for (entry *each = __atomic_load_n(&entries, __ATOMIC_ACQUIRE); each != NULL; each = each->next)
        if (__atomic_load_n(&each->session, __ATOMIC_ACQUIRE) == session)
            return each->recorder;
    return NULL;
}

static size_t least(size_t one, size_t other) {
    return one < other ? one : other;
}

static void take_input(const OrtApi *api, zrt_recorded_input *input, const char *name, const OrtValue *value) {
    strncpy(input->name, name, ZRT_RECORDED_NAME - 1);
    input->name[ZRT_RECORDED_NAME - 1] = '\0';
    input->rank = 0;
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const int64_t *dims = NULL;
    OrtStatus *status = api->GetValueType(value, &kind);
    if (status == NULL && kind == ONNX_TYPE_TENSOR)
        status = api->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &input->rank);
    input->type = (int)type;
    if (status != NULL)
        api->ReleaseStatus(status);
    else if (input->rank != 0)
        memcpy(input->dims, dims, least(input->rank, ZRT_RECORDED_DIMS) * sizeof *dims);
}

/* Moves a guess towards the median, by a step for each run. Two threads may do it at once: it stays a guess. */
static uint64_t guess_median(zrt_recorder *recorder, uint64_t took) {
    uint64_t guess = __atomic_load_n(&recorder->median, __ATOMIC_RELAXED);
    uint64_t step = guess / 32 + 1;
    uint64_t next = guess == 0 ? took : took > guess ? guess + step : took < guess ? guess - step : guess;
    __atomic_store_n(&recorder->median, next, __ATOMIC_RELAXED);
    return guess;
}

/* Puts a record into its place of the ring, unless another thread writes there or wrote a later one. */
static void publish(zrt_recorder *recorder, const zrt_recorded_run *run) {
    zrt_recorded_run *place = &recorder->runs[(run->number - 1) % recorder->size];
    uint64_t before = __atomic_load_n(&place->number, __ATOMIC_RELAXED);
    do {
        if (before >= run->number)
            return;
    } while (!__atomic_compare_exchange_n(&place->number, &before, WRITING, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(
        (char *)place + sizeof place->number, (const char *)run + sizeof run->number, sizeof *run - sizeof run->number);
    __atomic_store_n(&place->number, run->number, __ATOMIC_RELEASE);
}

static void keep(zrt_recorder *recorder, uint64_t begun, const OrtStatus *status, const char *const *names,
    const OrtValue *const *inputs, size_t count) {
    zrt_recorded_run run;
    run.took = zrt_clock() - begun;
    run.number = __atomic_add_fetch(&recorder->count, 1, __ATOMIC_RELAXED);
    run.begun = begun;
    run.thread = PyThread_get_thread_ident();
    run.failed = status != NULL;
    run.input_count = least(count, ZRT_RECORDED_INPUTS);
    for (size_t index = 0; index < run.input_count; index++)
        take_input(recorder->api, &run.inputs[index], names[index], inputs[index]);
    publish(recorder, &run);
    uint64_t median = guess_median(recorder, run.took);
    if (recorder->python == NULL)
        return;
    int slow = recorder->slowest != 0 && run.took > recorder->slowest;
    slow |= recorder->times != 0 && run.number > SETTLED && run.took / recorder->times > median;
    if (status == NULL && !slow)
        return;
    zrt_noted_run noted = {&run, status, count, names, inputs, median};
    zrt_run_noted(recorder->python, &noted);
}

static OrtStatus *run(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
    const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
    OrtValue **outputs) {
    zrt_recorder *recorder = recorder_of(session);
    uint64_t begun = zrt_clock();
    OrtStatus *status =
        run_below(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
    if (recorder != NULL)
        keep(recorder, begun, status, input_names, inputs, input_count);
    return status;
}

static OrtStatus *bound_run(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
    zrt_recorder *recorder = recorder_of(session);
    uint64_t begun = zrt_clock();
    OrtStatus *status = bound_run_below(session, options, binding);
    if (recorder != NULL)
        keep(recorder, begun, status, NULL, NULL, 0);
    return status;
}

void zrt_record_install(OrtApi *table) {
    run_below = table->Run;
    bound_run_below = table->RunWithBinding;
    table->Run = run;
    table->RunWithBinding = bound_run;
}

int zrt_record_begin(zrt_recorder *recorder) {
    recorder->runs = calloc(recorder->size, sizeof *recorder->runs);
    if (recorder->runs == NULL)
        return -1;
    pthread_mutex_lock(&lock);
    entry *place = entries;
    while (place != NULL && place->session != NULL)
        place = place->next;
    if (place == NULL && (place = calloc(1, sizeof *place)) != NULL) {
        place->next = entries;
        __atomic_store_n(&entries, place, __ATOMIC_RELEASE);
    }
    if (place != NULL) {
        place->recorder = recorder;
        __atomic_store_n(&place->session, recorder->session, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return place == NULL ? -1 : 0;
}

void zrt_record_end(zrt_recorder *recorder) {
    pthread_mutex_lock(&lock);
    for (entry *each = entries; each != NULL; each = each->next)
        if (each->session != NULL && each->recorder == recorder)
            __atomic_store_n(&each->session, NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    free(recorder->runs);
    recorder->runs = NULL;
}

int zrt_record_read(const zrt_recorder *recorder, size_t index, zrt_recorded_run *copy) {
    const zrt_recorded_run *run = &recorder->runs[index];
    uint64_t number = __atomic_load_n(&run->number, __ATOMIC_ACQUIRE);
    *copy = *run;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    copy->number = number;
    return number != 0 && number != WRITING && __atomic_load_n(&run->number, __ATOMIC_RELAXED) == number;
}
