/* Runs of a lane that carry a state: outputs of one run are inputs of the next one. */
#pragma once

/* How an input gets the value of its output. */
enum {
    /* Both have one shape. Two buffers take turns: a run reads one and writes the other. */
    ZRT_PAIR_FIXED = 0,
    /* The output is the input and the steps of the run behind it, along one axis. Two buffers take turns. */
    ZRT_PAIR_GROWING = 1,
    /* The model writes the steps of a run into the input's own buffer. */
    ZRT_PAIR_IN_PLACE = 2,
    /* The first run makes the value, or the caller gives it; later runs read it. */
    ZRT_PAIR_ONCE = 3,
    /* An input without an output: one column for each step so far and each step of the run. */
    ZRT_PAIR_MASK = 4
};

typedef struct zrt_pair {
    int kind;
    const char *input;
    /* NULL where no output gives the value. */
    const char *output;
    const OrtMemoryInfo *memory;
    ONNXTensorElementDataType type;
    size_t rank;
    /* The shape; where it grows, at capacity along `axis`. */
    const int64_t *dims;
    size_t axis;
    /* How many blocks of steps lie one behind the other, and the bytes of one step in a block. */
    size_t blocks;
    size_t step_bytes;
    size_t bytes;
    /* The element of a mask for a step that counts. */
    const void *one;
} zrt_pair;

/* The part that is the same for all states that fit the same lanes. */
typedef struct zrt_layout {
    const OrtApi *api;
    size_t count;
    const zrt_pair *pairs;
    /* The most steps; 0 where nothing counts steps. */
    int64_t capacity;
    /* The steps to drop at a time where the capacity is reached; 0 refuses the run. */
    int64_t window;
    /* The mask among the pairs, or `count`; and the rows that have positions of their own. */
    size_t mask;
    size_t rows;
} zrt_layout;

typedef struct zrt_state {
    const zrt_layout *layout;
    int busy;
    /* The buffer of each pair that the next run reads. */
    int turn;
    /* No other state of the process has it. */
    uint64_t id;
    /* The steps that it holds, and all that it has seen. */
    int64_t steps;
    int64_t seen;
    /* For each row the position of the next step: masked steps do not count. */
    int64_t *positions;
    /* For pair i: the buffers data[2 * i] and data[2 * i + 1], and values over them. A growing pair has a value for the
       steps so far at the side that the next run reads. A pair of kind ONCE has its value first, and then an empty one
       for runs before it is made. */
    void **data;
    OrtValue **values;
    int64_t *dims;
} zrt_state;

/* The content of an input that follows the steps. */
enum {
    /* The position of each step of the run, in each row. */
    ZRT_FOLLOW_POSITIONS = 0,
    /* The number of each step of the run since the start. */
    ZRT_FOLLOW_STEPS = 1,
    /* Whether there are steps before those of the run. */
    ZRT_FOLLOW_PAST = 2,
    /* The steps with those of the run. */
    ZRT_FOLLOW_TOTAL = 3,
    /* The index of the last step. */
    ZRT_FOLLOW_LAST = 4
};

typedef struct zrt_follower {
    int kind;
    /* Integers of this many bytes. */
    size_t width;
    size_t rows;
    size_t columns;
    void *data;
} zrt_follower;

/* The part of a lane that carries states. A run reads the side `turn` of a state through bindings[turn]. */
struct zrt_carry {
    const zrt_layout *layout;
    OrtIoBinding *bindings[2];
    /* The ids of the states whose fixed pairs are bound; 0 for none. */
    uint64_t bound[2];
    /* The steps of a run. */
    int64_t step;
    /* The outputs that are bound before those of the pairs. */
    size_t own_outputs;
    size_t follower_count;
    const zrt_follower *followers;
};

/* Makes a state without memory: the caller stores `data`, and then calls zrt_state_wrap. The caller owns the result. */
OrtStatus *zrt_state_new(const zrt_layout *layout, zrt_state **result);

/* Makes the values over `data` that do not change with the steps. */
OrtStatus *zrt_state_wrap(zrt_state *state);

/* A zrt_release. */
void zrt_state_free(void *state);

/* Makes the state one of so many steps, and with `forget` drops the values that the first run makes. The caller holds
   `busy`. */
void zrt_state_restart(zrt_state *state, int64_t steps, int forget);

/* Allocates the value of a pair of kind ONCE, and stores the address of its elements. The caller holds `busy`. */
OrtStatus *zrt_state_once(
    zrt_state *state, size_t index, OrtAllocator *allocator, const int64_t *dims, size_t rank, void **data);

/* A run of a lane in all its forms. `state` is a handle on a zrt_state, for a lane with `carry`, and NULL for others:
   the run moves it on if it succeeds. Without `run_options` the run has those of the lane. It ends at the time `end` on
   zrt_clock, 0 for never; with it only this run may use `run_options`. */
uintptr_t zrt_lane_run_with(zrt_handle *lane, zrt_handle *state, OrtRunOptions *run_options, uint64_t end);
