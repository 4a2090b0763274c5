/* The functions that ONNX Runtime appended to its tables after API version ZRT_API_VERSION. The table of a library ends
   with the functions of its own version: zrt/_native/later.py checks that version before it reads one of these. */
#pragma once

/* `OrtApi`; its first slots are those that decl/api.h declares. */
typedef struct zrt_later_api {
    void *declared[422];

    /* 1.28 */
    void *GetExperimentalFunction;
    void *KernelContext_GetSyncStream;

    /* 1.29 */
    OrtStatus *(*SessionOptionsSetWeightlessSourceModelBuffer)(
        OrtSessionOptions *options, const void *model, size_t size);

    /* 1.30 */
    void *KernelContext_GetPreallocatedOutput;

    /* 1.31 */
    void *SessionOptions_SetEpContextDataReadFunc;
    void *GetModelPackageApi;
} zrt_later_api;

/* `OrtCompileApi`. */
typedef struct zrt_later_compile_api {
    void *declared[15];

    /* 1.29 */
    OrtStatus *(*ModelCompilationOptions_SetWeightlessEnabled)(OrtModelCompilationOptions *options, bool weightless);

    /* 1.31 */
    void *ModelCompilationOptions_SetEpContextDataWriteFunc;
    void *ModelCompilationOptions_SetOutputModelExternalInitializersBuffer;
    OrtStatus *(*ModelCompilationOptions_SetOutputModelExternalInitializersAlignment)(
        OrtModelCompilationOptions *options, size_t alignment, size_t minimum_size);
} zrt_later_compile_api;
