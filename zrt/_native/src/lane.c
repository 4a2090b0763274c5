#include <stdint.h>
#include <time.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "state.h"
#include "arena.h"

uint64_t zrt_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uintptr_t zrt_lane_step(const zrt_lane *lane, const OrtRunOptions *run_options) {
    const OrtApi *api = lane->api;
    if (lane->arena != NULL)
        zrt_arena_expect(lane->arena, lane->input_bytes);
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

int zrt_flag_take(int *busy) {
    return __atomic_exchange_n(busy, 1, __ATOMIC_ACQUIRE);
}

void zrt_flag_give(int *busy) {
    __atomic_store_n(busy, 0, __ATOMIC_RELEASE);
}

uintptr_t zrt_lane_run(zrt_handle *handle) {
    zrt_lane *lane = handle->pointer;
    if (__builtin_expect(zrt_flag_take(&lane->busy), 0))
        return ZRT_BUSY;
    uintptr_t code = __builtin_expect(lane->incomplete, 0) ? ZRT_INCOMPLETE : zrt_lane_step(lane, lane->run_options);
    zrt_flag_give(&lane->busy);
    return code;
}

uintptr_t zrt_lane_move(zrt_handle *handle, zrt_ring *ring, size_t index) {
    zrt_lane *lane = handle->pointer;
    if (zrt_flag_take(&lane->busy))
        return ZRT_BUSY;
    const OrtApi *api = lane->api;
    OrtStatus *(*bind)(OrtIoBinding *, const char *, const OrtValue *) =
        ring->is_output ? api->BindOutput : api->BindInput;
    OrtValue *value = ring->values[index];
    OrtIoBinding *const *bindings = lane->carry == NULL ? &lane->binding : lane->carry->bindings;
    OrtStatus *status = bind(bindings[0], ring->name, value);
    if (status == NULL && lane->carry != NULL) {
        status = bind(bindings[1], ring->name, value);
        if (status != NULL)
            api->ReleaseStatus(bind(bindings[0], ring->name, ring->values[ring->current]));
    }
    if (status == NULL) {
        ring->current = index;
        if (ring->again)
            lane->input_values[ring->place] = value;
    }
    zrt_flag_give(&lane->busy);
    return (uintptr_t)status;
}

int zrt_claim_begin(zrt_claim *claim, int *busy) {
    if (zrt_flag_take(busy))
        return 1;
    claim->busy = busy;
    return 0;
}

void zrt_claim_end(zrt_claim *claim) {
    if (claim->busy == NULL)
        return;
    zrt_flag_give(claim->busy);
    claim->busy = NULL;
}
