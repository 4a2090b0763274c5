#include <stdint.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "bench.h"

static OrtStatus *plain_run(const zrt_lane *lane) {
    const OrtApi *api = lane->api;
    RETURN_IF_FAILED(api->SynchronizeBoundInputs(lane->binding));
    RETURN_IF_FAILED(api->RunWithBinding(lane->session, lane->run_options, lane->binding));
    return api->SynchronizeBoundOutputs(lane->binding);
}

uintptr_t zrt_plain_loop(zrt_handle *handle, size_t count, uint64_t *nanoseconds) {
    zrt_lane *lane = handle->pointer;
    if (zrt_flag_take(&lane->busy))
        return ZRT_BUSY;
    uint64_t start = zrt_clock();
    OrtStatus *status = NULL;
    for (size_t i = 0; i < count && status == NULL; i++)
        status = plain_run(lane);
    *nanoseconds = zrt_clock() - start;
    zrt_flag_give(&lane->busy);
    return (uintptr_t)status;
}
