/* The choice of a session's devices by the caller's Python function, which ONNX Runtime asks during a load. */
#pragma once

typedef struct zrt_selector {
    const OrtApi *api;
    /* The first argument of `ask`: cffi's handle on the Python object that keeps an exception of the policy. */
    void *python;
    /* Writes at most `room` devices at `chosen` and stores how many in `chosen_count`. Returns 0, or another number
       where Python raised. */
    int (*ask)(void *python, const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
        const OrtEpDevice **chosen, size_t room, size_t *chosen_count);
} zrt_selector;

/* An EpSelectionDelegate; its state is a zrt_selector, which the caller owns until the load ends. */
OrtStatus *zrt_select(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t room, size_t *chosen_count, void *selector);
