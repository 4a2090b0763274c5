/* The arena of one session, whose unused memory goes back to the system after large runs. */
#pragma once

typedef struct zrt_arena {
    const OrtApi *api;
    /* A session of one copied element over the same arena. A run of it with these options shrinks the arena: ONNX
       Runtime has no other way. */
    OrtSession *shrinker;
    const OrtRunOptions *shrinking;
    const char *const *input_names;
    const char *const *output_names;
    OrtValue *input;
    OrtValue *output;
    OrtAllocator *allocator;
    /* How many regions were returned, and the bytes that stayed then; and those that stayed after the load. */
    uint64_t returned;
    uint64_t held;
    uint64_t base;
    int busy;
    /* The bytes of the feeds of the largest run since the arena was empty. */
    uint64_t largest;
    /* How far the runs since the last large one stayed below it: the sum of the squares of largest / own bytes. */
    uint64_t waste;
    /* On zrt_clock: until when the returns so far are paid for, and by how much the next one may come earlier. */
    uint64_t paid;
    uint64_t credit;
} zrt_arena;

/* Call it before each run, with the bytes of its feeds or 0 where they are not known. It returns the memory if the runs
   have become much smaller than an earlier one. Before the run none of its results is in the way. */
void zrt_arena_expect(zrt_arena *arena, size_t bytes);

/* Returns the regions of the arena that no value uses to the system, and counts. Returns a code (code.h). */
uintptr_t zrt_arena_shrink(zrt_arena *arena);
