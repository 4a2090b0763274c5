#include <stddef.h>
#include <stdint.h>

#include "ort.h"
#include "devices.h"

OrtStatus *zrt_select(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t room, size_t *chosen_count, void *state) {
    const zrt_selector *selector = state;
    /* ONNX Runtime 1.27 leaves it empty. */
    (void)runtime;
    *chosen_count = 0;
    if (selector->ask(selector->python, devices, count, model, chosen, room, chosen_count) == 0)
        return NULL;
    *chosen_count = 0;
    return selector->api->CreateStatus(ORT_FAIL, "the policy raised an exception");
}
