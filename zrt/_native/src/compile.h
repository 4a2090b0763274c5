/* Callbacks of a compilation into the caller's Python: they write the model in pieces and choose the initializers'
   places. */
#pragma once

typedef struct zrt_compilation {
    const OrtApi *api;
    /* The first argument of the two functions, which return 0, or another number where Python raised. */
    void *python;
    int (*write)(void *python, const void *data, size_t size);
    int (*place)(void *python, const char *name, const OrtValue *value, const OrtExternalInitializerInfo *there,
        OrtExternalInitializerInfo **placed);
    int failed;
} zrt_compilation;

/* An OrtWriteBufferFunc and an OrtGetInitializerLocationFunc; their state is a zrt_compilation, which the caller owns
   until the compilation ends. They run in the thread that compiles. */
OrtStatus *zrt_compile_write(void *state, const void *data, size_t size);
OrtStatus *zrt_compile_place(void *state, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *there, OrtExternalInitializerInfo **placed);
