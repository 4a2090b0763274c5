/* Callbacks of a set-up into the caller's Python. Python returns 0, or another number where it raised; that becomes a
   status here, so that nothing raises across C. They run in the thread that loads or compiles. */
#pragma once

typedef struct zrt_selector {
    const OrtApi *api;
    /* The first argument of `ask`: cffi's handle on the Python object that keeps an exception of the policy. */
    void *python;
    /* Writes at most `capacity` devices at `chosen` and stores how many in `chosen_count`. */
    int (*ask)(void *python, const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
        const OrtEpDevice **chosen, size_t capacity, size_t *chosen_count);
} zrt_selector;

/* An EpSelectionDelegate, the choice of a session's devices; its state is a zrt_selector, which the caller owns until
   the load ends. */
OrtStatus *zrt_select(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t capacity, size_t *chosen_count, void *selector);

typedef struct zrt_compilation {
    const OrtApi *api;
    /* The first argument of the two functions. */
    void *python;
    int (*write)(void *python, const void *data, size_t size);
    int (*place)(void *python, const char *name, const OrtValue *value, const OrtExternalInitializerInfo *there,
        OrtExternalInitializerInfo **placed);
    int failed;
} zrt_compilation;

/* An OrtWriteBufferFunc, which writes the compiled model in pieces, and an OrtGetInitializerLocationFunc, which chooses
   the initializers' places; their state is a zrt_compilation, which the caller owns until the compilation ends. */
OrtStatus *zrt_compile_write(void *state, const void *data, size_t size);
OrtStatus *zrt_compile_place(void *state, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *there, OrtExternalInitializerInfo **placed);
