typedef enum OrtCompileApiFlags {
    OrtCompileApiFlags_NONE = 0,
    OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED = 1,
    OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS = 2
} OrtCompileApiFlags;

struct OrtCompileApi {
    void (*ReleaseModelCompilationOptions)(OrtModelCompilationOptions *);
    OrtStatusPtr (*CreateModelCompilationOptionsFromSessionOptions)(
        const OrtEnv *, const OrtSessionOptions *, OrtModelCompilationOptions **);
    OrtStatusPtr (*ModelCompilationOptions_SetInputModelPath)(OrtModelCompilationOptions *, const char *);
    OrtStatusPtr (*ModelCompilationOptions_SetInputModelFromBuffer)(OrtModelCompilationOptions *, const void *, size_t);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelPath)(OrtModelCompilationOptions *, const char *);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelExternalInitializersFile)(
        OrtModelCompilationOptions *, const char *, size_t);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelBuffer)(
        OrtModelCompilationOptions *, OrtAllocator *, void **, size_t *);
    OrtStatusPtr (*ModelCompilationOptions_SetEpContextEmbedMode)(OrtModelCompilationOptions *, bool);
    OrtStatusPtr (*CompileModel)(const OrtEnv *, const OrtModelCompilationOptions *);
    OrtStatusPtr (*ModelCompilationOptions_SetFlags)(OrtModelCompilationOptions *, uint32_t);
    OrtStatusPtr (*ModelCompilationOptions_SetEpContextBinaryInformation)(
        OrtModelCompilationOptions *, const char *, const char *);
    OrtStatusPtr (*ModelCompilationOptions_SetGraphOptimizationLevel)(
        OrtModelCompilationOptions *, GraphOptimizationLevel);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelWriteFunc)(
        OrtModelCompilationOptions *, OrtWriteBufferFunc, void *);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc)(
        OrtModelCompilationOptions *, OrtGetInitializerLocationFunc, void *);
    OrtStatusPtr (*ModelCompilationOptions_SetInputModel)(OrtModelCompilationOptions *, const OrtModel *);
};
