/* The hot path: one call runs one bound inference. Nothing here allocates. */
#pragma once

typedef struct zrt_lane {
    const OrtApi *api;
    OrtSession *session;
    OrtIoBinding *binding;
    const OrtRunOptions *run_options;
    int synchronize;
    int busy;
    /* Inputs to bind anew before each run: ORT copied them to a device when they were bound. */
    size_t input_count;
    const char *const *input_names;
    OrtValue *const *input_values;
    /* Outputs to hand back to ORT before each run: it would take the last run's tensor for the caller's. */
    size_t output_count;
    const char *const *output_names;
    const OrtMemoryInfo *const *output_memories;
} zrt_lane;

/* `lane` is a handle on a zrt_lane. */
uintptr_t zrt_lane_run(zrt_handle *lane);

/* The same with other run options than the lane's own. */
uintptr_t zrt_lane_run_with(zrt_handle *lane, const OrtRunOptions *run_options);

/* Keeps others out of what a busy flag guards while Python works on it. An interrupt may come between any two calls
   there, so the claim itself knows whether it holds: ending it is always right, before it began and twice too. */
typedef struct zrt_claim {
    int *busy;
} zrt_claim;

/* 0 if the flag was free. */
int zrt_claim_begin(zrt_claim *claim, int *busy);
void zrt_claim_end(zrt_claim *claim);

/* Runs `count` times and stores the nanoseconds that the batch took. */
uintptr_t zrt_lane_loop(zrt_handle *lane, size_t count, uint64_t *nanoseconds);

/* The yardstick: a C program's loop over synchronize, RunWithBinding, synchronize. */
uintptr_t zrt_plain_loop(zrt_handle *lane, size_t count, uint64_t *nanoseconds);

/* Runs `count` times and stores the nanoseconds of each. */
uintptr_t zrt_lane_times(zrt_handle *lane, size_t count, uint64_t *nanoseconds);

/* The monotonic clock, in nanoseconds. */
uint64_t zrt_clock(void);
