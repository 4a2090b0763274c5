struct OrtAllocator {
    uint32_t version;
    void *(*Alloc)(OrtAllocator *, size_t);
    void (*Free)(OrtAllocator *, void *);
    const OrtMemoryInfo *(*Info)(const OrtAllocator *);
    void *(*Reserve)(OrtAllocator *, size_t);
    OrtStatusPtr (*GetStats)(const OrtAllocator *, OrtKeyValuePairs **);
    void *(*AllocOnStream)(OrtAllocator *, size_t, OrtSyncStream *);
    OrtStatusPtr (*Shrink)(OrtAllocator *);
};

typedef void (*OrtLoggingFunction)(void *user_data, OrtLoggingLevel logging_level, const char *category, const char *id,
    const char *location, const char *message);

typedef OrtStatus *(*EpSelectionDelegate)(const OrtEpDevice **devices, size_t count, const OrtKeyValuePairs *model,
    const OrtKeyValuePairs *runtime, const OrtEpDevice **chosen, size_t room, size_t *chosen_count, void *user_data);

typedef OrtStatus *(*OrtWriteBufferFunc)(void *user_data, const void *data, size_t size);

typedef OrtStatus *(*OrtGetInitializerLocationFunc)(void *user_data, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *info, OrtExternalInitializerInfo **out);

typedef void (*OrtThreadWorkerFn)(void *user_data);

typedef const struct OrtCustomHandleType {
    char __place_holder;
} *OrtCustomThreadHandle;

typedef OrtCustomThreadHandle (*OrtCustomCreateThreadFn)(void *user_data, OrtThreadWorkerFn worker, void *worker_data);

typedef void (*OrtCustomJoinThreadFn)(OrtCustomThreadHandle handle);

typedef OrtStatus *(*RegisterCustomOpsFn)(OrtSessionOptions *options, const OrtApiBase *api_base);

typedef void (*RunAsyncCallbackFn)(void *user_data, OrtValue **out, size_t count, OrtStatusPtr status);

typedef struct OrtEnvCreationOptions {
    uint32_t version;
    int32_t logging_severity_level;
    const char *log_id;
    OrtLoggingFunction custom_logging_function;
    void *custom_logging_param;
    const OrtThreadingOptions *threading_options;
    const OrtKeyValuePairs *config_entries;
} OrtEnvCreationOptions;
