#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "allocated.h"
#include "call.h"
#include "watch.h"
#include "state.h"

static uint64_t last_id;

OrtStatus *zrt_state_new(const zrt_layout *layout, zrt_state **result) {
    size_t rank = 1;
    for (size_t i = 0; i < layout->count; i++)
        if (layout->pairs[i].rank > rank)
            rank = layout->pairs[i].rank;
    size_t sides = 2 * layout->count;
    zrt_state *state = calloc(1, sizeof *state + (layout->rows + rank) * sizeof(int64_t) + 2 * sides * sizeof(void *));
    if (state == NULL)
        return layout->api->CreateStatus(ORT_FAIL, "no memory for a state");
    state->layout = layout;
    state->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    state->positions = (int64_t *)(state + 1);
    state->dims = state->positions + layout->rows;
    state->data = (void **)(state->dims + rank);
    state->values = (OrtValue **)(state->data + sides);
    *result = state;
    return NULL;
}

static void drop(const zrt_state *state, size_t side) {
    state->layout->api->ReleaseValue(state->values[side]);
    state->values[side] = NULL;
}

void zrt_state_free(void *pointer) {
    zrt_state *state = pointer;
    for (size_t side = 0; side < 2 * state->layout->count; side++)
        drop(state, side);
    free(state);
}

/* Makes the value of a side; `steps` is its size along the axis of a pair that grows. */
static OrtStatus *wrap(const zrt_state *state, size_t side, int64_t steps) {
    const zrt_pair *pair = &state->layout->pairs[side / 2];
    size_t bytes = pair->bytes;
    memcpy(state->dims, pair->dims, pair->rank * sizeof *pair->dims);
    if (pair->kind == ZRT_PAIR_GROWING || pair->kind == ZRT_PAIR_MASK) {
        state->dims[pair->axis] = steps;
        bytes = pair->blocks * (size_t)steps * pair->step_bytes;
    }
    drop(state, side);
    return state->layout->api->CreateTensorWithDataAsOrtValue(
        pair->memory, state->data[side], bytes, state->dims, pair->rank, pair->type, &state->values[side]);
}

OrtStatus *zrt_state_wrap(zrt_state *state) {
    for (size_t i = 0; i < state->layout->count; i++) {
        int kind = state->layout->pairs[i].kind;
        if (kind == ZRT_PAIR_FIXED || kind == ZRT_PAIR_IN_PLACE)
            RETURN_IF_FAILED(wrap(state, 2 * i, 0));
        if (kind == ZRT_PAIR_FIXED || kind == ZRT_PAIR_IN_PLACE || kind == ZRT_PAIR_ONCE)
            RETURN_IF_FAILED(wrap(state, 2 * i + 1, 0));
    }
    return NULL;
}

/* Whether the mask counts a step in a row. A follower may have more rows and columns than the mask. */
static int counts(const zrt_state *state, size_t row, int64_t column) {
    const zrt_layout *layout = state->layout;
    if (layout->mask == layout->count || row >= layout->rows || column >= layout->capacity)
        return 1;
    const zrt_pair *pair = &layout->pairs[layout->mask];
    const char *element = (const char *)state->data[2 * layout->mask] +
                          (row * (size_t)layout->capacity + (size_t)column) * pair->step_bytes;
    for (size_t i = 0; i < pair->step_bytes; i++)
        if (element[i] != 0)
            return 1;
    return 0;
}

void zrt_state_restart(zrt_state *state, int64_t steps, int forget) {
    const zrt_layout *layout = state->layout;
    for (size_t i = 0; i < layout->count; i++) {
        int kind = layout->pairs[i].kind;
        if (kind == ZRT_PAIR_GROWING || kind == ZRT_PAIR_MASK || (kind == ZRT_PAIR_ONCE && forget))
            drop(state, 2 * i);
        if (kind == ZRT_PAIR_GROWING)
            drop(state, 2 * i + 1);
    }
    state->steps = state->seen = steps;
    for (size_t row = 0; row < layout->rows; row++) {
        state->positions[row] = 0;
        for (int64_t column = 0; column < steps; column++)
            state->positions[row] += counts(state, row, column);
    }
}

OrtStatus *zrt_state_once(
    zrt_state *state, size_t index, OrtAllocator *allocator, const int64_t *dims, size_t rank, void **data) {
    const OrtApi *api = state->layout->api;
    OrtValue *value = NULL;
    RETURN_IF_FAILED(api->CreateTensorAsOrtValue(allocator, dims, rank, state->layout->pairs[index].type, &value));
    OrtStatus *status = api->GetTensorMutableData(value, data);
    if (status != NULL) {
        api->ReleaseValue(value);
        return status;
    }
    drop(state, 2 * index);
    state->values[2 * index] = value;
    return NULL;
}

/* Drops the oldest steps: the others move to the front of the buffers that the next run reads. */
static void slide(zrt_state *state, int64_t count) {
    const zrt_layout *layout = state->layout;
    size_t dropped = (size_t)count, kept = (size_t)(state->steps - count);
    for (size_t i = 0; i < layout->count; i++) {
        const zrt_pair *pair = &layout->pairs[i];
        size_t unit = pair->step_bytes;
        if (pair->kind == ZRT_PAIR_MASK) {
            size_t row = (size_t)layout->capacity * unit;
            for (size_t block = 0; block < pair->blocks; block++) {
                char *start = (char *)state->data[2 * i] + block * row;
                memmove(start, start + dropped * unit, row - dropped * unit);
                for (size_t at = row - dropped * unit; at < row; at += unit)
                    memcpy(start + at, pair->one, unit);
            }
        } else if (pair->kind == ZRT_PAIR_GROWING || pair->kind == ZRT_PAIR_IN_PLACE) {
            int grows = pair->kind == ZRT_PAIR_GROWING;
            size_t side = 2 * i + (grows ? (size_t)state->turn : 0);
            size_t from = (grows ? (size_t)state->steps : (size_t)layout->capacity) * unit;
            size_t to = grows ? kept * unit : from;
            char *data = state->data[side];
            for (size_t block = 0; block < pair->blocks; block++)
                memmove(data + block * to, data + block * from + dropped * unit, kept * unit);
            if (grows)
                drop(state, side);
        }
    }
    state->steps -= count;
}

/* Drops steps until those of a run fit. Returns whether they do. */
static int make_capacity(zrt_state *state, int64_t step) {
    const zrt_layout *layout = state->layout;
    int64_t over = state->steps + step - layout->capacity;
    if (over <= 0)
        return 1;
    if (layout->window == 0 || step > layout->capacity)
        return 0;
    int64_t count = (over + layout->window - 1) / layout->window * layout->window;
    slide(state, count < state->steps ? count : state->steps);
    return 1;
}

static void store(const zrt_follower *follower, size_t index, int64_t number) {
    char *place = (char *)follower->data + index * follower->width;
    int32_t narrow = (int32_t)number;
    int8_t flag = (int8_t)(number != 0);
    if (follower->width == sizeof number)
        memcpy(place, &number, sizeof number);
    else if (follower->width == sizeof narrow)
        memcpy(place, &narrow, sizeof narrow);
    else
        memcpy(place, &flag, sizeof flag);
}

static void follow(const zrt_follower *follower, const zrt_state *state, int64_t step) {
    for (size_t row = 0; row < follower->rows; row++) {
        size_t rows = state->layout->rows, known = row < rows ? row : rows - 1;
        /* A follower may have several planes of the mask's rows. */
        if (rows != 0 && follower->rows % rows == 0)
            known = row % rows;
        int64_t position = rows == 0 ? state->seen : state->positions[known];
        for (size_t column = 0; column < follower->columns; column++) {
            int64_t number = position;
            if (follower->kind == ZRT_FOLLOW_STEPS)
                number = state->seen + (int64_t)column;
            else if (follower->kind == ZRT_FOLLOW_PAST)
                number = state->steps > 0;
            else if (follower->kind == ZRT_FOLLOW_TOTAL)
                number = state->steps + step;
            else if (follower->kind == ZRT_FOLLOW_LAST)
                number = state->steps + step - 1;
            else
                position += counts(state, known, state->steps + (int64_t)column);
            store(follower, row * follower->columns + column, number);
        }
    }
}

/* The tensor of a mask is contiguous: one of several rows is packed into the second buffer. */
static OrtStatus *wrap_mask(const zrt_state *state, size_t i, int64_t total) {
    const zrt_pair *pair = &state->layout->pairs[i];
    if (pair->blocks == 1)
        return wrap(state, 2 * i, total);
    size_t row = (size_t)state->layout->capacity * pair->step_bytes, used = (size_t)total * pair->step_bytes;
    for (size_t block = 0; block < pair->blocks; block++)
        memcpy((char *)state->data[2 * i + 1] + block * used, (const char *)state->data[2 * i] + block * row, used);
    return wrap(state, 2 * i + 1, total);
}

/* Binds the values of a state for its next run by the lane's table `api`, which may be recorded (record.h); with `same`
   those of fixed pairs are bound already. */
static OrtStatus *bind(const OrtApi *api, const zrt_state *state, OrtIoBinding *binding, int same, int64_t total) {
    const zrt_layout *layout = state->layout;
    for (size_t i = 0; i < layout->count; i++) {
        const zrt_pair *pair = &layout->pairs[i];
        size_t reads = 2 * i + (size_t)state->turn, writes = 2 * i + 1 - (size_t)state->turn;
        switch (pair->kind) {
        case ZRT_PAIR_GROWING:
            if (state->values[reads] == NULL)
                RETURN_IF_FAILED(wrap(state, reads, state->steps));
            RETURN_IF_FAILED(wrap(state, writes, total));
            break;
        case ZRT_PAIR_ONCE:
            reads = state->values[2 * i] != NULL ? 2 * i : 2 * i + 1;
            RETURN_IF_FAILED(api->BindInput(binding, pair->input, state->values[reads]));
            if (pair->output != NULL)
                RETURN_IF_FAILED(api->BindOutputToDevice(binding, pair->output, pair->memory));
            continue;
        case ZRT_PAIR_MASK:
            RETURN_IF_FAILED(wrap_mask(state, i, total));
            RETURN_IF_FAILED(api->BindInput(binding, pair->input, state->values[2 * i + (pair->blocks != 1)]));
            continue;
        default:
            if (same)
                continue;
        }
        RETURN_IF_FAILED(api->BindInput(binding, pair->input, state->values[reads]));
        RETURN_IF_FAILED(api->BindOutput(binding, pair->output, state->values[writes]));
    }
    return NULL;
}

/* Takes the values that the first run made. */
static OrtStatus *keep_once(const struct zrt_carry *carry, const zrt_state *state, const OrtIoBinding *binding) {
    const zrt_layout *layout = state->layout;
    const OrtApi *api = layout->api;
    size_t wanted = 0;
    for (size_t i = 0; i < layout->count; i++)
        wanted += layout->pairs[i].kind == ZRT_PAIR_ONCE && layout->pairs[i].output && !state->values[2 * i];
    if (wanted == 0)
        return NULL;
    OrtAllocator *allocator;
    RETURN_IF_FAILED(api->GetAllocatorWithDefaultOptions(&allocator));
    OrtValue **values = NULL;
    size_t count = 0;
    RETURN_IF_FAILED(api->GetBoundOutputValues(binding, allocator, &values, &count));
    size_t index = carry->own_outputs;
    for (size_t i = 0; i < layout->count; i++) {
        const zrt_pair *pair = &layout->pairs[i];
        if (pair->output == NULL)
            continue;
        if (pair->kind == ZRT_PAIR_ONCE && !state->values[2 * i] && index < count) {
            state->values[2 * i] = values[index];
            values[index] = NULL;
        }
        index++;
    }
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL)
            api->ReleaseValue(values[i]);
    return values != NULL ? api->AllocatorFree(allocator, values) : NULL;
}

static void advance(zrt_state *state, int64_t step) {
    const zrt_layout *layout = state->layout;
    for (size_t i = 0; i < layout->count; i++)
        if (layout->pairs[i].kind == ZRT_PAIR_GROWING)
            drop(state, 2 * i + (size_t)state->turn);
    state->turn ^= 1;
    if (layout->capacity == 0)
        return;
    for (size_t row = 0; row < layout->rows; row++)
        for (int64_t column = state->steps; column < state->steps + step; column++)
            state->positions[row] += counts(state, row, column);
    state->steps += step;
    state->seen += step;
}

static uintptr_t run_on(zrt_lane *lane, zrt_state *state, const OrtRunOptions *run_options) {
    struct zrt_carry *carry = lane->carry;
    if (state->layout != carry->layout)
        return ZRT_STATE_FOREIGN;
    if (state->layout->capacity != 0 && !make_capacity(state, carry->step))
        return ZRT_STATE_FULL;
    int turn = state->turn;
    int same = carry->bound[turn] == state->id;
    OrtIoBinding *binding = carry->bindings[turn];
    carry->bound[turn] = 0;
    OrtStatus *status = bind(lane->api, state, binding, same, state->steps + carry->step);
    if (status != NULL)
        return (uintptr_t)status;
    carry->bound[turn] = state->id;
    for (size_t i = 0; i < carry->follower_count; i++)
        follow(&carry->followers[i], state, carry->step);
    lane->binding = binding;
    uintptr_t result = zrt_lane_step(lane, run_options);
    if (result == ZRT_OK)
        result = (uintptr_t)keep_once(carry, state, binding);
    if (result == ZRT_OK)
        advance(state, carry->step);
    return result;
}

static uintptr_t run(zrt_lane *lane, zrt_state *state, const OrtRunOptions *run_options) {
    if (zrt_flag_take(&lane->busy))
        return ZRT_BUSY;
    uintptr_t code = ZRT_STATE_BUSY;
    if (state == NULL) {
        code = lane->incomplete ? ZRT_INCOMPLETE : zrt_lane_step(lane, run_options);
    } else if (!zrt_flag_take(&state->busy)) {
        code = run_on(lane, state, run_options);
        zrt_flag_give(&state->busy);
    }
    zrt_flag_give(&lane->busy);
    return code;
}

uintptr_t zrt_lane_run_with(
    zrt_handle *lane_handle, zrt_handle *state_handle, OrtRunOptions *run_options, uint64_t end) {
    zrt_lane *lane = lane_handle->pointer;
    zrt_state *state = state_handle == NULL ? NULL : state_handle->pointer;
    if (end == 0)
        return run(lane, state, run_options != NULL ? run_options : lane->run_options);
    zrt_watch watch;
    uintptr_t code = zrt_watch_begin(&watch, lane->api, run_options, end);
    if (code == ZRT_OK)
        code = run(lane, state, watch.run_options);
    return zrt_watch_end(&watch, code);
}
