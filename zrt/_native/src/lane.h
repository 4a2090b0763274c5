/* The hot path of lanes and bindings: one call runs one bound inference. Nothing here allocates. Further the busy flag
   and the clock, which other files use too. */
#pragma once

struct zrt_carry;
struct zrt_arena;

typedef struct zrt_lane {
    /* As in zrt_call (call.h). */
    const OrtApi *api;
    OrtSession *session;
    OrtIoBinding *binding;
    const OrtRunOptions *run_options;
    /* The host. */
    const OrtMemoryInfo *host;
    int synchronize;
    int busy;
    /* Whether an input or every output may be unbound: then a run returns ZRT_INCOMPLETE. Guarded by `busy`. */
    int incomplete;
    /* How often an input or output was bound anew. Guarded by `busy`. */
    size_t version;
    /* Inputs to bind again before each run: binding copies them to a device. */
    size_t input_count;
    const char *const *input_names;
    OrtValue **input_values;
    /* Outputs to bind to a device again before each run: else ORT takes the last run's tensor for the caller's memory.
     */
    size_t output_count;
    const char *const *output_names;
    const OrtMemoryInfo *const *output_memories;
    /* NULL for a lane without state (state.h). With it, `binding` is that of the last run. */
    struct zrt_carry *carry;
    /* As in zrt_call (call.h). */
    struct zrt_arena *arena;
    size_t input_bytes;
} zrt_lane;

/* The steps of one run. The caller holds `busy`. */
uintptr_t zrt_lane_step(const zrt_lane *lane, const OrtRunOptions *run_options);

/* `lane` is a handle on a zrt_lane. */
uintptr_t zrt_lane_run(zrt_handle *lane);

/* Takes a flag `busy`: returns 0 if it was free. Gives it back. */
int zrt_flag_take(int *busy);
void zrt_flag_give(int *busy);

/* An input or output with several values over memory of the caller's, of which one is bound. */
typedef struct zrt_ring {
    const char *name;
    OrtValue *const *values;
    size_t current;
    int is_output;
    /* Whether the lane binds it again before each run, and its place among those inputs. */
    int again;
    size_t place;
} zrt_ring;

/* Binds another of the values; the caller keeps them alive. After an error the former one is bound, unless binding it
   again fails too. */
uintptr_t zrt_lane_move(zrt_handle *lane, zrt_ring *ring, size_t index);

/* A claim of Python on the object that a busy flag guards. An interrupt may come between any two calls in Python, so
   the claim itself knows whether it holds the flag: ending it is always correct, also before it began, and twice. */
typedef struct zrt_claim {
    int *busy;
} zrt_claim;

/* Returns 0 if the flag was free. */
int zrt_claim_begin(zrt_claim *claim, int *busy);
void zrt_claim_end(zrt_claim *claim);

/* The monotonic clock, in nanoseconds. */
uint64_t zrt_clock(void);
