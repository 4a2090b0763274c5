#define _GNU_SOURCE
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "budget.h"
#include "describe.h"
#include "record.h"

/* Runs before a median is believed. */
#define SETTLED 100
/* Inputs of a record are copied in whole words. */
_Static_assert(sizeof(zrt_recorded_input) % sizeof(uint64_t) == 0, "a part of a word");
/* In the place of a number while the record is written. */
#define WRITING UINT64_MAX

/* In the place of a session while a thread takes or frees the recorder; no session has this address. */
#define CLAIMED ((OrtSession *)1)

static zrt_recorder *recorders;

/* The inputs of a binding of a session whose runs are recorded: ONNX Runtime does not tell what is bound. Like
   recorders these are never freed, and whoever may change the binding may use its entry. */
typedef struct bound_inputs {
    /* NULL for one that is free. */
    const OrtIoBinding *binding;
    struct bound_inputs *next;
    size_t count;
    zrt_recorded_input inputs[ZRT_RECORDED_INPUTS];
    /* Of the values as they were bound. They live until others are bound: the binding has references of its own, and
       its owner in Python keeps those that the binding copied to a device. */
    zrt_description values[ZRT_RECORDED_INPUTS];
} bound_inputs;

static bound_inputs *bindings;

/* The functions below ours: ONNX Runtime's or those of the budget. */
static OrtStatus *(*run_below)(OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *,
    size_t, const char *const *, size_t, OrtValue **);
static OrtStatus *(*bound_run_below)(OrtSession *, const OrtRunOptions *, const OrtIoBinding *);
static OrtStatus *(*create_below)(OrtSession *, OrtIoBinding **);
static OrtStatus *(*bind_below)(OrtIoBinding *, const char *, const OrtValue *);
static void (*clear_below)(OrtIoBinding *);
static void (*release_below)(OrtIoBinding *);
static const OrtApi *below;

/* A Python function. It returns ZRT_INTERRUPTED for an interrupt. */
extern int zrt_run_noted(size_t key, const zrt_noted_run *noted);

static zrt_recorder *recorder_of(const OrtSession *session) {
    zrt_recorder *each = __atomic_load_n(&recorders, __ATOMIC_ACQUIRE);
    while (each != NULL && __atomic_load_n(&each->session, __ATOMIC_ACQUIRE) != session)
        each = each->next;
    return each;
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

typedef uint64_t __attribute__((may_alias)) zrt_word;

/* Copies part of a record while another thread may write or read it. */
static void copy_words(zrt_recorded_run *to, const zrt_recorded_run *from, size_t start, size_t end) {
    zrt_word *target = (zrt_word *)to;
    const zrt_word *source = (const zrt_word *)from;
    for (size_t word = start / sizeof *source; word < end / sizeof *source; word++)
        __atomic_store_n(&target[word], __atomic_load_n(&source[word], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
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
    copy_words(
        place, run, sizeof run->number, offsetof(zrt_recorded_run, inputs) + run->input_count * sizeof *run->inputs);
    __atomic_store_n(&place->number, run->number, __ATOMIC_RELEASE);
}

static bound_inputs *inputs_of(const OrtIoBinding *binding) {
    bound_inputs *each = __atomic_load_n(&bindings, __ATOMIC_ACQUIRE);
    while (each != NULL && __atomic_load_n(&each->binding, __ATOMIC_RELAXED) != binding)
        each = each->next;
    return each;
}

/* `binding` is NULL for a run by names and values. */
static void keep(zrt_recorder *recorder, uint64_t begun, uint64_t took, const OrtStatus *status,
    const char *const *names, const OrtValue *const *inputs, size_t count, const OrtIoBinding *binding) {
    zrt_recorded_run run;
    run.number = __atomic_add_fetch(&recorder->count, 1, __ATOMIC_RELAXED);
    run.begun = begun;
    run.took = took;
    run.waited = zrt_budget_waited();
    run.thread = PyThread_get_thread_ident();
    run.failed = status != NULL;
    const bound_inputs *bound = binding == NULL ? NULL : inputs_of(binding);
    run.input_count = bound != NULL ? bound->count : least(count, ZRT_RECORDED_INPUTS);
    if (bound != NULL)
        memcpy(run.inputs, bound->inputs, run.input_count * sizeof *run.inputs);
    else
        for (size_t index = 0; index < run.input_count; index++)
            take_input(recorder->api, &run.inputs[index], names[index], inputs[index]);
    publish(recorder, &run);
    uint64_t median = guess_median(recorder, took);
    const zrt_recording *wanted = &recorder->recording;
    if (wanted->key == 0)
        return;
    int slow = wanted->slowest != 0 && took > wanted->slowest;
    slow |= wanted->times != 0 && run.number > SETTLED && took / wanted->times > median;
    if (status == NULL && !slow)
        return;
    zrt_noted_run noted = {recorder, &run, status, count, names, inputs, bound == NULL ? NULL : bound->values, median};
    if (zrt_run_noted(wanted->key, &noted) == ZRT_INTERRUPTED)
        PyErr_SetInterrupt();
}

/* Keeps a run that has ended, if its session is recorded. */
static void record(const OrtSession *session, uint64_t begun, const OrtStatus *status, const char *const *names,
    const OrtValue *const *inputs, size_t count, const OrtIoBinding *binding) {
    uint64_t took = zrt_clock() - begun;
    zrt_recorder *recorder = recorder_of(session);
    if (recorder == NULL)
        return;
    /* Nobody takes or frees a recorder with users, and one that was stopped before has another session now. */
    __atomic_add_fetch(&recorder->users, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&recorder->session, __ATOMIC_SEQ_CST) == session)
        keep(recorder, begun, took, status, names, inputs, count, binding);
    __atomic_sub_fetch(&recorder->users, 1, __ATOMIC_SEQ_CST);
}

static OrtStatus *run(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
    const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
    OrtValue **outputs) {
    uint64_t begun = zrt_clock();
    OrtStatus *status =
        run_below(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
    record(session, begun, status, input_names, inputs, input_count, NULL);
    return status;
}

/* Without memory for its entry, the runs of a binding are recorded without their inputs. */
static OrtStatus *create(OrtSession *session, OrtIoBinding **binding) {
    OrtStatus *status = create_below(session, binding);
    if (status != NULL)
        return status;
    bound_inputs *each = __atomic_load_n(&bindings, __ATOMIC_ACQUIRE);
    for (; each != NULL; each = each->next) {
        const OrtIoBinding *nobody = NULL;
        if (__atomic_compare_exchange_n(&each->binding, &nobody, *binding, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return NULL;
    }
    if ((each = calloc(1, sizeof *each)) == NULL)
        return NULL;
    each->binding = *binding;
    each->next = __atomic_load_n(&bindings, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&bindings, &each->next, each, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return NULL;
}

static OrtStatus *bind(OrtIoBinding *binding, const char *name, const OrtValue *value) {
    OrtStatus *status = bind_below(binding, name, value);
    bound_inputs *entry = status == NULL ? inputs_of(binding) : NULL;
    if (entry == NULL)
        return status;
    size_t index = 0;
    while (index < entry->count && strncmp(entry->inputs[index].name, name, ZRT_RECORDED_NAME - 1) != 0)
        index++;
    if (index < ZRT_RECORDED_INPUTS) {
        take_input(below, &entry->inputs[index], name, value);
        if ((status = zrt_describe(below, value, &entry->values[index])) != NULL) {
            below->ReleaseStatus(status);
            entry->values[index].plain = 0;
        }
        entry->count = index < entry->count ? entry->count : index + 1;
    }
    return NULL;
}

static void clear(OrtIoBinding *binding) {
    clear_below(binding);
    bound_inputs *entry = inputs_of(binding);
    if (entry != NULL)
        entry->count = 0;
}

static void release(OrtIoBinding *binding) {
    /* First: another binding may have its address next. */
    bound_inputs *entry = inputs_of(binding);
    if (entry != NULL) {
        entry->count = 0;
        __atomic_store_n(&entry->binding, NULL, __ATOMIC_RELEASE);
    }
    release_below(binding);
}

static OrtStatus *bound_run(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *binding) {
    uint64_t begun = zrt_clock();
    OrtStatus *status = bound_run_below(session, options, binding);
    record(session, begun, status, NULL, NULL, 0, binding);
    return status;
}

void zrt_record_install(OrtApi *table) {
    run_below = table->Run;
    bound_run_below = table->RunWithBinding;
    create_below = table->CreateIoBinding;
    bind_below = table->BindInput;
    clear_below = table->ClearBoundInputs;
    release_below = table->ReleaseIoBinding;
    below = table;
    table->Run = run;
    table->RunWithBinding = bound_run;
    table->CreateIoBinding = create;
    table->BindInput = bind;
    table->ClearBoundInputs = clear;
    table->ReleaseIoBinding = release;
}

int zrt_record_has(const OrtSession *session) {
    return recorder_of(session) != NULL;
}

/* Takes a free recorder, and frees its ring. Returns whether that succeeded; nobody else changes it then. */
static int claim(zrt_recorder *recorder) {
    OrtSession *nobody = NULL;
    if (!__atomic_compare_exchange_n(&recorder->session, &nobody, CLAIMED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return 0;
    if (__atomic_load_n(&recorder->users, __ATOMIC_SEQ_CST) == 0) {
        free(recorder->runs);
        recorder->runs = NULL;
        return 1;
    }
    __atomic_store_n(&recorder->session, NULL, __ATOMIC_SEQ_CST);
    return 0;
}

static zrt_recorder *claim_any(void) {
    zrt_recorder *each = __atomic_load_n(&recorders, __ATOMIC_ACQUIRE);
    while (each != NULL && !claim(each))
        each = each->next;
    if (each != NULL || (each = calloc(1, sizeof *each)) == NULL)
        return each;
    each->session = CLAIMED;
    each->next = __atomic_load_n(&recorders, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&recorders, &each->next, each, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return each;
}

uintptr_t zrt_record_begin(
    const OrtApi *api, OrtSession *session, size_t size, const zrt_recording *recording, zrt_recorder **place) {
    zrt_recorder *recorder = claim_any();
    if (recorder == NULL)
        return ZRT_NO_MEMORY;
    recorder->runs = calloc(size, sizeof *recorder->runs);
    if (recorder->runs == NULL) {
        __atomic_store_n(&recorder->session, NULL, __ATOMIC_SEQ_CST);
        return ZRT_NO_MEMORY;
    }
    recorder->api = api;
    recorder->recording = *recording;
    recorder->size = size;
    recorder->count = recorder->median = 0;
    *place = recorder;
    __atomic_store_n(&recorder->session, session, __ATOMIC_SEQ_CST);
    return ZRT_OK;
}

void zrt_record_stop(zrt_recorder *recorder) {
    __atomic_store_n(&recorder->session, NULL, __ATOMIC_SEQ_CST);
    /* The ring goes now, or with the next use if a run is writing. */
    if (claim(recorder))
        __atomic_store_n(&recorder->session, NULL, __ATOMIC_SEQ_CST);
}

int zrt_record_read(const zrt_recorder *recorder, size_t index, zrt_recorded_run *copy) {
    const zrt_recorded_run *run = &recorder->runs[index];
    uint64_t number = __atomic_load_n(&run->number, __ATOMIC_ACQUIRE);
    copy_words(copy, run, sizeof number, sizeof *run);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    copy->number = number;
    return number != 0 && number != WRITING && __atomic_load_n(&run->number, __ATOMIC_RELAXED) == number;
}
