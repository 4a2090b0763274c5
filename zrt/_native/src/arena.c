#include <stdint.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "lane.h"
#include "budget.h"
#include "arena.h"

/* One run with a 24th of the largest one's feeds, or 36 with a quarter: random sizes rarely come so. */
#define WASTE (24 * 24)
/* A larger ratio counts as this one: its square must not overflow the sum. */
#define MOST_RATIO ((uint64_t)1 << 20)

/* The time between two returns, in times that one took. To map and clear the pages again takes some seven times as
   long: all of it stays below 4 % of a program's time. */
#define PAUSE 200
/* So many returns may come at once, before the pauses. */
#define AT_ONCE 4
/* So many bytes may stay after a return: small results that a caller holds. */
#define SMALL (32u << 20)

static uint64_t number(const OrtApi *api, const OrtKeyValuePairs *stats, const char *name) {
    const char *text = api->GetKeyValue(stats, name);
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

uintptr_t zrt_arena_shrink(zrt_arena *arena) {
    OrtValue *output = arena->output;
    OrtKeyValuePairs *stats = NULL;
    /* Part of a run or of a load: it needs no place of its own, and no deadline would end its wait. */
    int mark = zrt_budget_mark(1);
    OrtStatus *status = arena->api->Run(arena->shrinker, arena->shrinking, arena->input_names,
        (const OrtValue *const *)&arena->input, 1, arena->output_names, 1, &output);
    zrt_budget_mark(mark);
    RETURN_CODE_IF_FAILED(status);
    RETURN_CODE_IF_FAILED(arena->api->AllocatorGetStats(arena->allocator, &stats));
    arena->returned = number(arena->api, stats, "NumArenaShrinkages");
    arena->held = number(arena->api, stats, "TotalAllocated");
    arena->api->ReleaseKeyValuePairs(stats);
    return ZRT_OK;
}

static void give_back(zrt_arena *arena, size_t bytes, uint64_t largest) {
    uint64_t start = zrt_clock();
    if (arena->paid > start + arena->credit)
        return;
    uint64_t returned = arena->returned;
    uintptr_t code = zrt_arena_shrink(arena);
    if (code > ZRT_LAST)
        arena->api->ReleaseStatus((OrtStatus *)code);
    if (returned != arena->returned) {
#ifdef __GLIBC__
        /* Smaller regions lie in the heap, which keeps them. */
        malloc_trim(0);
#endif
        /* Another run, or results that are alive, may hold much: then a later small run tries again. And a large run
           may have begun meanwhile. */
        if (arena->held <= arena->base + SMALL)
            __atomic_compare_exchange_n(&arena->largest, &largest, bytes, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&arena->waste, 0, __ATOMIC_RELAXED);
    uint64_t pause = PAUSE * (zrt_clock() - start);
    arena->credit = (AT_ONCE - 1) * pause;
    arena->paid = (arena->paid > start ? arena->paid : start) + pause;
}

void zrt_arena_expect(zrt_arena *arena, size_t bytes) {
    uint64_t largest = __atomic_load_n(&arena->largest, __ATOMIC_RELAXED);
    if (bytes == 0)
        return;
    if (bytes > largest / 2) {
        if (bytes > largest)
            __atomic_store_n(&arena->largest, bytes, __ATOMIC_RELAXED);
        if (__atomic_load_n(&arena->waste, __ATOMIC_RELAXED) != 0)
            __atomic_store_n(&arena->waste, 0, __ATOMIC_RELAXED);
        return;
    }
    uint64_t ratio = largest / bytes < MOST_RATIO ? largest / bytes : MOST_RATIO;
    if (__atomic_add_fetch(&arena->waste, ratio * ratio, __ATOMIC_RELAXED) < WASTE)
        return;
    if (zrt_flag_take(&arena->busy))
        return;
    give_back(arena, bytes, largest);
    zrt_flag_give(&arena->busy);
}
