/* The choice of devices at load, by a Python callable that answers in the loading thread. */
#pragma once

typedef struct zrt_selector {
    const OrtApi *api;
    /* A callable, borrowed: ask(devices, count, model, chosen, room), the pointers as integers. It writes at `chosen`
       and returns how many it chose. What it raises becomes its attribute `failure`. */
    void *ask;
} zrt_selector;

/* An EpSelectionDelegate whose state is a zrt_selector. */
OrtStatus *zrt_select(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t room, size_t *chosen_count, void *selector);
