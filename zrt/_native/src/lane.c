#include <stdint.h>
#include <time.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "state.h"

#define RETURN_CODE_IF_FAILED(expression)                                                                              \
    do {                                                                                                               \
        OrtStatus *status_ = (expression);                                                                             \
        if (__builtin_expect(status_ != NULL, 0))                                                                      \
            return (uintptr_t)status_;                                                                                 \
    } while (0)

uint64_t zrt_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uintptr_t run(const zrt_lane *lane, const OrtRunOptions *run_options) {
    const OrtApi *api = lane->api;
    for (size_t i = 0; i < lane->input_count; i++)
        RETURN_CODE_IF_FAILED(api->BindInput(lane->binding, lane->input_names[i], lane->input_values[i]));
    for (size_t i = 0; i < lane->output_count; i++)
        RETURN_CODE_IF_FAILED(api->BindOutputToDevice(lane->binding, lane->output_names[i], lane->output_memories[i]));
    if (lane->synchronize)
        RETURN_CODE_IF_FAILED(api->SynchronizeBoundInputs(lane->binding));
    RETURN_CODE_IF_FAILED(api->RunWithBinding(lane->session, run_options, lane->binding));
    if (lane->synchronize)
        RETURN_CODE_IF_FAILED(api->SynchronizeBoundOutputs(lane->binding));
    return ZRT_OK;
}

uintptr_t zrt_lane_step(const zrt_lane *lane, const OrtRunOptions *run_options) {
    return run(lane, run_options);
}

static int take(int *busy) {
    return __atomic_exchange_n(busy, 1, __ATOMIC_ACQUIRE);
}

static void give(int *busy) {
    __atomic_store_n(busy, 0, __ATOMIC_RELEASE);
}

uintptr_t zrt_lane_run_with(zrt_handle *handle, const OrtRunOptions *run_options) {
    zrt_lane *lane = handle->pointer;
    if (__builtin_expect(take(&lane->busy), 0))
        return ZRT_BUSY;
    uintptr_t result = __builtin_expect(lane->incomplete, 0) ? ZRT_INCOMPLETE : run(lane, run_options);
    give(&lane->busy);
    return result;
}

uintptr_t zrt_lane_run(zrt_handle *handle) {
    const zrt_lane *lane = handle->pointer;
    return zrt_lane_run_with(handle, lane->run_options);
}

int zrt_lane_take(zrt_lane *lane) {
    return take(&lane->busy);
}

void zrt_lane_give(zrt_lane *lane) {
    give(&lane->busy);
}

uintptr_t zrt_lane_move(zrt_handle *handle, zrt_ring *ring, size_t index) {
    zrt_lane *lane = handle->pointer;
    if (take(&lane->busy))
        return ZRT_BUSY;
    OrtValue *value = ring->values[index];
    OrtIoBinding *const *bindings = lane->carry == NULL ? &lane->binding : lane->carry->bindings;
    OrtStatus *status = NULL;
    for (size_t i = 0; i < (lane->carry == NULL ? 1 : 2) && status == NULL; i++)
        status = ring->is_output ? lane->api->BindOutput(bindings[i], ring->name, value)
                                 : lane->api->BindInput(bindings[i], ring->name, value);
    if (status == NULL) {
        ring->current = index;
        if (ring->again)
            lane->input_values[ring->place] = value;
    }
    give(&lane->busy);
    return (uintptr_t)status;
}

int zrt_claim_begin(zrt_claim *claim, int *busy) {
    if (take(busy))
        return 1;
    claim->busy = busy;
    return 0;
}

void zrt_claim_end(zrt_claim *claim) {
    if (claim->busy == NULL)
        return;
    give(claim->busy);
    claim->busy = NULL;
}

uintptr_t zrt_lane_loop(zrt_handle *handle, size_t count, uint64_t *nanoseconds) {
    uint64_t start = zrt_clock();
    uintptr_t result = ZRT_OK;
    for (size_t i = 0; i < count && result == ZRT_OK; i++)
        result = zrt_lane_run(handle);
    *nanoseconds = zrt_clock() - start;
    return result;
}

static uintptr_t plain_run(const zrt_lane *lane) {
    const OrtApi *api = lane->api;
    RETURN_CODE_IF_FAILED(api->SynchronizeBoundInputs(lane->binding));
    RETURN_CODE_IF_FAILED(api->RunWithBinding(lane->session, lane->run_options, lane->binding));
    RETURN_CODE_IF_FAILED(api->SynchronizeBoundOutputs(lane->binding));
    return ZRT_OK;
}

uintptr_t zrt_plain_loop(zrt_handle *handle, size_t count, uint64_t *nanoseconds) {
    zrt_lane *lane = handle->pointer;
    if (take(&lane->busy))
        return ZRT_BUSY;
    uint64_t start = zrt_clock();
    uintptr_t result = ZRT_OK;
    for (size_t i = 0; i < count && result == ZRT_OK; i++)
        result = plain_run(lane);
    *nanoseconds = zrt_clock() - start;
    give(&lane->busy);
    return result;
}

uintptr_t zrt_lane_times(zrt_handle *handle, size_t count, uint64_t *nanoseconds) {
    uintptr_t result = ZRT_OK;
    for (size_t i = 0; i < count && result == ZRT_OK; i++) {
        uint64_t start = zrt_clock();
        result = zrt_lane_run(handle);
        nanoseconds[i] = zrt_clock() - start;
    }
    return result;
}
