/* What a compilation hands to the caller's Python: the model in pieces, and initializers to find a place for. */
#pragma once

typedef struct zrt_compilation {
    const OrtApi *api;
    /* For the two functions below, which return 0, or anything else where they raised. */
    void *python;
    int (*write)(void *python, const void *data, size_t size);
    int (*place)(void *python, const char *name, const OrtValue *value, const OrtExternalInitializerInfo *there,
        OrtExternalInitializerInfo **placed);
    int failed;
} zrt_compilation;

/* An OrtWriteBufferFunc and an OrtGetInitializerLocationFunc whose state is a zrt_compilation. */
OrtStatus *zrt_compile_write(void *state, const void *data, size_t size);
OrtStatus *zrt_compile_place(void *state, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *there, OrtExternalInitializerInfo **placed);
