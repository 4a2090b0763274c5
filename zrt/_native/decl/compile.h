typedef enum OrtCompileApiFlags {
    OrtCompileApiFlags_NONE = 0,
    OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED = 1,
    OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS = 2
} OrtCompileApiFlags;

struct OrtCompileApi {
    void (*ReleaseModelCompilationOptions)(OrtModelCompilationOptions *options);
    OrtStatusPtr (*CreateModelCompilationOptionsFromSessionOptions)(
        const OrtEnv *env, const OrtSessionOptions *options, OrtModelCompilationOptions **out);
    OrtStatusPtr (*ModelCompilationOptions_SetInputModelPath)(OrtModelCompilationOptions *options, const char *path);
    OrtStatusPtr (*ModelCompilationOptions_SetInputModelFromBuffer)(
        OrtModelCompilationOptions *options, const void *data, size_t size);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelPath)(OrtModelCompilationOptions *options, const char *path);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelExternalInitializersFile)(
        OrtModelCompilationOptions *options, const char *path, size_t size);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelBuffer)(
        OrtModelCompilationOptions *options, OrtAllocator *allocator, void **out1, size_t *out2);
    OrtStatusPtr (*ModelCompilationOptions_SetEpContextEmbedMode)(OrtModelCompilationOptions *options, bool enable);
    OrtStatusPtr (*CompileModel)(const OrtEnv *env, const OrtModelCompilationOptions *options);
    OrtStatusPtr (*ModelCompilationOptions_SetFlags)(OrtModelCompilationOptions *options, uint32_t flags);
    OrtStatusPtr (*ModelCompilationOptions_SetEpContextBinaryInformation)(
        OrtModelCompilationOptions *options, const char *folder, const char *name);
    OrtStatusPtr (*ModelCompilationOptions_SetGraphOptimizationLevel)(
        OrtModelCompilationOptions *options, GraphOptimizationLevel level);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelWriteFunc)(
        OrtModelCompilationOptions *options, OrtWriteBufferFunc callback, void *user_data);
    OrtStatusPtr (*ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc)(
        OrtModelCompilationOptions *options, OrtGetInitializerLocationFunc callback, void *user_data);
    OrtStatusPtr (*ModelCompilationOptions_SetInputModel)(OrtModelCompilationOptions *options, const OrtModel *model);
};
