struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

struct OrtApi {
    OrtStatus *(*CreateStatus)(OrtErrorCode error_code, const char *message);
    OrtErrorCode (*GetErrorCode)(const OrtStatus *status);
    const char *(*GetErrorMessage)(const OrtStatus *status);
    OrtStatusPtr (*CreateEnv)(OrtLoggingLevel logging_level, const char *id, OrtEnv **out);
    OrtStatusPtr (*CreateEnvWithCustomLogger)(
        OrtLoggingFunction callback, void *user_data, OrtLoggingLevel logging_level, const char *id, OrtEnv **out);
    OrtStatusPtr (*EnableTelemetryEvents)(const OrtEnv *env);
    OrtStatusPtr (*DisableTelemetryEvents)(const OrtEnv *env);
    OrtStatusPtr (*CreateSession)(
        const OrtEnv *env, const char *path, const OrtSessionOptions *options, OrtSession **out);
    OrtStatusPtr (*CreateSessionFromArray)(
        const OrtEnv *env, const void *data, size_t count, const OrtSessionOptions *options, OrtSession **out);
    OrtStatusPtr (*Run)(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
        const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
        OrtValue **outputs);
    OrtStatusPtr (*CreateSessionOptions)(OrtSessionOptions **out);
    OrtStatusPtr (*SetOptimizedModelFilePath)(OrtSessionOptions *options, const char *path);
    OrtStatusPtr (*CloneSessionOptions)(const OrtSessionOptions *options, OrtSessionOptions **out);
    OrtStatusPtr (*SetSessionExecutionMode)(OrtSessionOptions *options, ExecutionMode execution_mode);
    OrtStatusPtr (*EnableProfiling)(OrtSessionOptions *options, const char *path);
    OrtStatusPtr (*DisableProfiling)(OrtSessionOptions *options);
    OrtStatusPtr (*EnableMemPattern)(OrtSessionOptions *options);
    OrtStatusPtr (*DisableMemPattern)(OrtSessionOptions *options);
    OrtStatusPtr (*EnableCpuMemArena)(OrtSessionOptions *options);
    OrtStatusPtr (*DisableCpuMemArena)(OrtSessionOptions *options);
    OrtStatusPtr (*SetSessionLogId)(OrtSessionOptions *options, const char *id);
    OrtStatusPtr (*SetSessionLogVerbosityLevel)(OrtSessionOptions *options, int level);
    OrtStatusPtr (*SetSessionLogSeverityLevel)(OrtSessionOptions *options, int level);
    OrtStatusPtr (*SetSessionGraphOptimizationLevel)(OrtSessionOptions *options, GraphOptimizationLevel level);
    OrtStatusPtr (*SetIntraOpNumThreads)(OrtSessionOptions *options, int number);
    OrtStatusPtr (*SetInterOpNumThreads)(OrtSessionOptions *options, int number);
    OrtStatusPtr (*CreateCustomOpDomain)(const char *domain, OrtCustomOpDomain **out);
    OrtStatusPtr (*CustomOpDomain_Add)(OrtCustomOpDomain *domain, const OrtCustomOp *op);
    OrtStatusPtr (*AddCustomOpDomain)(OrtSessionOptions *options, OrtCustomOpDomain *domain);
    OrtStatusPtr (*RegisterCustomOpsLibrary)(OrtSessionOptions *options, const char *path, void **out);
    OrtStatusPtr (*SessionGetInputCount)(const OrtSession *session, size_t *out);
    OrtStatusPtr (*SessionGetOutputCount)(const OrtSession *session, size_t *out);
    OrtStatusPtr (*SessionGetOverridableInitializerCount)(const OrtSession *session, size_t *out);
    OrtStatusPtr (*SessionGetInputTypeInfo)(const OrtSession *session, size_t index, OrtTypeInfo **out);
    OrtStatusPtr (*SessionGetOutputTypeInfo)(const OrtSession *session, size_t index, OrtTypeInfo **out);
    OrtStatusPtr (*SessionGetOverridableInitializerTypeInfo)(
        const OrtSession *session, size_t index, OrtTypeInfo **out);
    OrtStatusPtr (*SessionGetInputName)(const OrtSession *session, size_t index, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*SessionGetOutputName)(const OrtSession *session, size_t index, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*SessionGetOverridableInitializerName)(
        const OrtSession *session, size_t index, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*CreateRunOptions)(OrtRunOptions **out);
    OrtStatusPtr (*RunOptionsSetRunLogVerbosityLevel)(OrtRunOptions *run_options, int level);
    OrtStatusPtr (*RunOptionsSetRunLogSeverityLevel)(OrtRunOptions *run_options, int level);
    OrtStatusPtr (*RunOptionsSetRunTag)(OrtRunOptions *run_options, const char *tag);
    OrtStatusPtr (*RunOptionsGetRunLogVerbosityLevel)(const OrtRunOptions *run_options, int *out);
    OrtStatusPtr (*RunOptionsGetRunLogSeverityLevel)(const OrtRunOptions *run_options, int *out);
    OrtStatusPtr (*RunOptionsGetRunTag)(const OrtRunOptions *run_options, const char **tags);
    OrtStatusPtr (*RunOptionsSetTerminate)(OrtRunOptions *run_options);
    OrtStatusPtr (*RunOptionsUnsetTerminate)(OrtRunOptions *run_options);
    OrtStatusPtr (*CreateTensorAsOrtValue)(OrtAllocator *allocator, const int64_t *dims, size_t count,
        ONNXTensorElementDataType element_type, OrtValue **out);
    OrtStatusPtr (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *memory, void *data, size_t count1,
        const int64_t *dims, size_t count2, ONNXTensorElementDataType element_type, OrtValue **out);
    OrtStatusPtr (*IsTensor)(const OrtValue *value, int *out);
    OrtStatusPtr (*GetTensorMutableData)(OrtValue *value, void **out);
    OrtStatusPtr (*FillStringTensor)(OrtValue *value, const char *const *texts, size_t count);
    OrtStatusPtr (*GetStringTensorDataLength)(const OrtValue *value, size_t *count);
    OrtStatusPtr (*GetStringTensorContent)(
        const OrtValue *value, void *data, size_t count1, size_t *count2, size_t count3);
    OrtStatusPtr (*CastTypeInfoToTensorInfo)(const OrtTypeInfo *type, const OrtTensorTypeAndShapeInfo **out);
    OrtStatusPtr (*GetOnnxTypeFromTypeInfo)(const OrtTypeInfo *type, ONNXType *out);
    OrtStatusPtr (*CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo **out);
    OrtStatusPtr (*SetTensorElementType)(OrtTensorTypeAndShapeInfo *shape_info, ONNXTensorElementDataType element_type);
    OrtStatusPtr (*SetDimensions)(OrtTensorTypeAndShapeInfo *shape_info, const int64_t *dims, size_t count);
    OrtStatusPtr (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *shape_info, ONNXTensorElementDataType *out);
    OrtStatusPtr (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *shape_info, size_t *out);
    OrtStatusPtr (*GetDimensions)(const OrtTensorTypeAndShapeInfo *shape_info, int64_t *dims, size_t count);
    OrtStatusPtr (*GetSymbolicDimensions)(
        const OrtTensorTypeAndShapeInfo *shape_info, const char **texts, size_t count);
    OrtStatusPtr (*GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo *shape_info, size_t *out);
    OrtStatusPtr (*GetTensorTypeAndShape)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
    OrtStatusPtr (*GetTypeInfo)(const OrtValue *value, OrtTypeInfo **out);
    OrtStatusPtr (*GetValueType)(const OrtValue *value, ONNXType *out);
    OrtStatusPtr (*CreateMemoryInfo)(
        const char *name, OrtAllocatorType allocator_type, int id, OrtMemType mem_type, OrtMemoryInfo **out);
    OrtStatusPtr (*CreateCpuMemoryInfo)(OrtAllocatorType allocator_type, OrtMemType mem_type, OrtMemoryInfo **out);
    OrtStatusPtr (*CompareMemoryInfo)(const OrtMemoryInfo *memory1, const OrtMemoryInfo *memory2, int *out);
    OrtStatusPtr (*MemoryInfoGetName)(const OrtMemoryInfo *memory, const char **out);
    OrtStatusPtr (*MemoryInfoGetId)(const OrtMemoryInfo *memory, int *out);
    OrtStatusPtr (*MemoryInfoGetMemType)(const OrtMemoryInfo *memory, OrtMemType *out);
    OrtStatusPtr (*MemoryInfoGetType)(const OrtMemoryInfo *memory, OrtAllocatorType *out);
    OrtStatusPtr (*AllocatorAlloc)(OrtAllocator *allocator, size_t size, void **out);
    OrtStatusPtr (*AllocatorFree)(OrtAllocator *allocator, void *data);
    OrtStatusPtr (*AllocatorGetInfo)(const OrtAllocator *allocator, const OrtMemoryInfo **out);
    OrtStatusPtr (*GetAllocatorWithDefaultOptions)(OrtAllocator **out);
    OrtStatusPtr (*AddFreeDimensionOverride)(OrtSessionOptions *options, const char *text, int64_t number);
    OrtStatusPtr (*GetValue)(const OrtValue *value, int index, OrtAllocator *allocator, OrtValue **out);
    OrtStatusPtr (*GetValueCount)(const OrtValue *value, size_t *out);
    OrtStatusPtr (*CreateValue)(const OrtValue *const *values, size_t count, ONNXType type, OrtValue **out);
    OrtStatusPtr (*CreateOpaqueValue)(
        const char *domain, const char *name, const void *data, size_t size, OrtValue **out);
    OrtStatusPtr (*GetOpaqueValue)(
        const char *domain, const char *name, const OrtValue *value, void *data, size_t size);
    OrtStatusPtr (*KernelInfoGetAttribute_float)(const OrtKernelInfo *kernel, const char *name, float *out);
    OrtStatusPtr (*KernelInfoGetAttribute_int64)(const OrtKernelInfo *kernel, const char *name, int64_t *out);
    OrtStatusPtr (*KernelInfoGetAttribute_string)(
        const OrtKernelInfo *kernel, const char *name, char *text, size_t *count);
    OrtStatusPtr (*KernelContext_GetInputCount)(const OrtKernelContext *context, size_t *out);
    OrtStatusPtr (*KernelContext_GetOutputCount)(const OrtKernelContext *context, size_t *out);
    OrtStatusPtr (*KernelContext_GetInput)(const OrtKernelContext *context, size_t index, const OrtValue **out);
    OrtStatusPtr (*KernelContext_GetOutput)(
        OrtKernelContext *context, size_t index, const int64_t *dims, size_t count, OrtValue **out);
    void (*ReleaseEnv)(OrtEnv *env);
    void (*ReleaseStatus)(OrtStatus *status);
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *memory);
    void (*ReleaseSession)(OrtSession *session);
    void (*ReleaseValue)(OrtValue *value);
    void (*ReleaseRunOptions)(OrtRunOptions *run_options);
    void (*ReleaseTypeInfo)(OrtTypeInfo *type);
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *shape_info);
    void (*ReleaseSessionOptions)(OrtSessionOptions *options);
    void (*ReleaseCustomOpDomain)(OrtCustomOpDomain *domain);
    OrtStatusPtr (*GetDenotationFromTypeInfo)(const OrtTypeInfo *type, const char **const texts, size_t *count);
    OrtStatusPtr (*CastTypeInfoToMapTypeInfo)(const OrtTypeInfo *type, const OrtMapTypeInfo **out);
    OrtStatusPtr (*CastTypeInfoToSequenceTypeInfo)(const OrtTypeInfo *type, const OrtSequenceTypeInfo **out);
    OrtStatusPtr (*GetMapKeyType)(const OrtMapTypeInfo *map, ONNXTensorElementDataType *out);
    OrtStatusPtr (*GetMapValueType)(const OrtMapTypeInfo *map, OrtTypeInfo **out);
    OrtStatusPtr (*GetSequenceElementType)(const OrtSequenceTypeInfo *sequence, OrtTypeInfo **out);
    void (*ReleaseMapTypeInfo)(OrtMapTypeInfo *map);
    void (*ReleaseSequenceTypeInfo)(OrtSequenceTypeInfo *sequence);
    OrtStatusPtr (*SessionEndProfiling)(OrtSession *session, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*SessionGetModelMetadata)(const OrtSession *session, OrtModelMetadata **out);
    OrtStatusPtr (*ModelMetadataGetProducerName)(const OrtModelMetadata *metadata, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*ModelMetadataGetGraphName)(const OrtModelMetadata *metadata, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*ModelMetadataGetDomain)(const OrtModelMetadata *metadata, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*ModelMetadataGetDescription)(const OrtModelMetadata *metadata, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*ModelMetadataLookupCustomMetadataMap)(
        const OrtModelMetadata *metadata, OrtAllocator *allocator, const char *key, char **out);
    OrtStatusPtr (*ModelMetadataGetVersion)(const OrtModelMetadata *metadata, int64_t *numbers);
    void (*ReleaseModelMetadata)(OrtModelMetadata *metadata);
    OrtStatusPtr (*CreateEnvWithGlobalThreadPools)(
        OrtLoggingLevel logging_level, const char *id, const OrtThreadingOptions *threading, OrtEnv **out);
    OrtStatusPtr (*DisablePerSessionThreads)(OrtSessionOptions *options);
    OrtStatusPtr (*CreateThreadingOptions)(OrtThreadingOptions **out);
    void (*ReleaseThreadingOptions)(OrtThreadingOptions *threading);
    OrtStatusPtr (*ModelMetadataGetCustomMetadataMapKeys)(
        const OrtModelMetadata *metadata, OrtAllocator *allocator, char ***out, int64_t *numbers);
    OrtStatusPtr (*AddFreeDimensionOverrideByName)(OrtSessionOptions *options, const char *name, int64_t number);
    OrtStatusPtr (*GetAvailableProviders)(char ***out1, int *out2);
    OrtStatusPtr (*ReleaseAvailableProviders)(char **out, int id);
    OrtStatusPtr (*GetStringTensorElementLength)(const OrtValue *value, size_t index, size_t *out);
    OrtStatusPtr (*GetStringTensorElement)(const OrtValue *value, size_t count, size_t index, void *data);
    OrtStatusPtr (*FillStringTensorElement)(OrtValue *value, const char *text, size_t index);
    OrtStatusPtr (*AddSessionConfigEntry)(OrtSessionOptions *options, const char *key, const char *text);
    OrtStatusPtr (*CreateAllocator)(const OrtSession *session, const OrtMemoryInfo *memory, OrtAllocator **out);
    void (*ReleaseAllocator)(OrtAllocator *allocator);
    OrtStatusPtr (*RunWithBinding)(OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding);
    OrtStatusPtr (*CreateIoBinding)(OrtSession *session, OrtIoBinding **out);
    void (*ReleaseIoBinding)(OrtIoBinding *binding);
    OrtStatusPtr (*BindInput)(OrtIoBinding *binding, const char *name, const OrtValue *value);
    OrtStatusPtr (*BindOutput)(OrtIoBinding *binding, const char *name, const OrtValue *value);
    OrtStatusPtr (*BindOutputToDevice)(OrtIoBinding *binding, const char *name, const OrtMemoryInfo *memory);
    OrtStatusPtr (*GetBoundOutputNames)(
        const OrtIoBinding *binding, OrtAllocator *allocator, char **out, size_t **count1, size_t *count2);
    OrtStatusPtr (*GetBoundOutputValues)(
        const OrtIoBinding *binding, OrtAllocator *allocator, OrtValue ***out1, size_t *out2);
    void (*ClearBoundInputs)(OrtIoBinding *binding);
    void (*ClearBoundOutputs)(OrtIoBinding *binding);
    OrtStatusPtr (*TensorAt)(OrtValue *value, const int64_t *numbers, size_t count, void **out);
    OrtStatusPtr (*CreateAndRegisterAllocator)(OrtEnv *env, const OrtMemoryInfo *memory, const OrtArenaCfg *arena);
    OrtStatusPtr (*SetLanguageProjection)(const OrtEnv *env, OrtLanguageProjection projection);
    OrtStatusPtr (*SessionGetProfilingStartTimeNs)(const OrtSession *session, uint64_t *out);
    OrtStatusPtr (*SetGlobalIntraOpNumThreads)(OrtThreadingOptions *threading, int number);
    OrtStatusPtr (*SetGlobalInterOpNumThreads)(OrtThreadingOptions *threading, int number);
    OrtStatusPtr (*SetGlobalSpinControl)(OrtThreadingOptions *threading, int number);
    OrtStatusPtr (*AddInitializer)(OrtSessionOptions *options, const char *name, const OrtValue *value);
    OrtStatusPtr (*CreateEnvWithCustomLoggerAndGlobalThreadPools)(OrtLoggingFunction callback, void *user_data,
        OrtLoggingLevel logging_level, const char *id, const OrtThreadingOptions *threading, OrtEnv **out);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_CUDA)(
        OrtSessionOptions *options1, const OrtCUDAProviderOptions *options2);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_ROCM)(
        OrtSessionOptions *options1, const OrtROCMProviderOptions *options2);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_OpenVINO)(
        OrtSessionOptions *options1, const OrtOpenVINOProviderOptions *options2);
    OrtStatusPtr (*SetGlobalDenormalAsZero)(OrtThreadingOptions *threading);
    OrtStatusPtr (*CreateArenaCfg)(size_t count, int number1, int number2, int number3, OrtArenaCfg **out);
    void (*ReleaseArenaCfg)(OrtArenaCfg *arena);
    OrtStatusPtr (*ModelMetadataGetGraphDescription)(
        const OrtModelMetadata *metadata, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_TensorRT)(
        OrtSessionOptions *options1, const OrtTensorRTProviderOptions *options2);
    OrtStatusPtr (*SetCurrentGpuDeviceId)(int id);
    OrtStatusPtr (*GetCurrentGpuDeviceId)(int *out);
    OrtStatusPtr (*KernelInfoGetAttributeArray_float)(
        const OrtKernelInfo *kernel, const char *name, float *numbers, size_t *count);
    OrtStatusPtr (*KernelInfoGetAttributeArray_int64)(
        const OrtKernelInfo *kernel, const char *name, int64_t *numbers, size_t *count);
    OrtStatusPtr (*CreateArenaCfgV2)(const char *const *keys, const size_t *count1, size_t count2, OrtArenaCfg **out);
    OrtStatusPtr (*AddRunConfigEntry)(OrtRunOptions *run_options, const char *key, const char *text);
    OrtStatusPtr (*CreatePrepackedWeightsContainer)(OrtPrepackedWeightsContainer **out);
    void (*ReleasePrepackedWeightsContainer)(OrtPrepackedWeightsContainer *weights);
    OrtStatusPtr (*CreateSessionWithPrepackedWeightsContainer)(const OrtEnv *env, const char *path,
        const OrtSessionOptions *options, OrtPrepackedWeightsContainer *weights, OrtSession **out);
    OrtStatusPtr (*CreateSessionFromArrayWithPrepackedWeightsContainer)(const OrtEnv *env, const void *data,
        size_t count, const OrtSessionOptions *options, OrtPrepackedWeightsContainer *weights, OrtSession **out);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_TensorRT_V2)(
        OrtSessionOptions *options1, const OrtTensorRTProviderOptionsV2 *options2);
    OrtStatusPtr (*CreateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2 **out);
    OrtStatusPtr (*UpdateTensorRTProviderOptions)(
        OrtTensorRTProviderOptionsV2 *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*GetTensorRTProviderOptionsAsString)(
        const OrtTensorRTProviderOptionsV2 *options, OrtAllocator *allocator, char **out);
    void (*ReleaseTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2 *options);
    OrtStatusPtr (*EnableOrtCustomOps)(OrtSessionOptions *options);
    OrtStatusPtr (*RegisterAllocator)(OrtEnv *env, OrtAllocator *allocator);
    OrtStatusPtr (*UnregisterAllocator)(OrtEnv *env, const OrtMemoryInfo *memory);
    OrtStatusPtr (*IsSparseTensor)(const OrtValue *value, int *out);
    OrtStatusPtr (*CreateSparseTensorAsOrtValue)(OrtAllocator *allocator, const int64_t *dims, size_t count,
        ONNXTensorElementDataType element_type, OrtValue **out);
    OrtStatusPtr (*FillSparseTensorCoo)(OrtValue *value, const OrtMemoryInfo *memory, const int64_t *dims,
        size_t count1, const void *data, const int64_t *numbers, size_t count2);
    OrtStatusPtr (*FillSparseTensorCsr)(OrtValue *value, const OrtMemoryInfo *memory, const int64_t *dims,
        size_t count1, const void *data, const int64_t *numbers1, size_t count2, const int64_t *numbers2,
        size_t count3);
    OrtStatusPtr (*FillSparseTensorBlockSparse)(OrtValue *value, const OrtMemoryInfo *memory, const int64_t *dims1,
        size_t count1, const void *data, const int64_t *dims2, size_t count2, const int32_t *out);
    OrtStatusPtr (*CreateSparseTensorWithValuesAsOrtValue)(const OrtMemoryInfo *memory, void *data,
        const int64_t *dims1, size_t count1, const int64_t *dims2, size_t count2,
        ONNXTensorElementDataType element_type, OrtValue **out);
    OrtStatusPtr (*UseCooIndices)(OrtValue *value, int64_t *numbers, size_t count);
    OrtStatusPtr (*UseCsrIndices)(OrtValue *value, int64_t *numbers1, size_t count1, int64_t *numbers2, size_t count2);
    OrtStatusPtr (*UseBlockSparseIndices)(OrtValue *value, const int64_t *dims, size_t count, int32_t *out);
    OrtStatusPtr (*GetSparseTensorFormat)(const OrtValue *value, OrtSparseFormat *out);
    OrtStatusPtr (*GetSparseTensorValuesTypeAndShape)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
    OrtStatusPtr (*GetSparseTensorValues)(const OrtValue *value, const void **out);
    OrtStatusPtr (*GetSparseTensorIndicesTypeShape)(
        const OrtValue *value1, enum OrtSparseIndicesFormat value2, OrtTensorTypeAndShapeInfo **out);
    OrtStatusPtr (*GetSparseTensorIndices)(
        const OrtValue *value1, enum OrtSparseIndicesFormat value2, size_t *count, const void **out);
    OrtStatusPtr (*HasValue)(const OrtValue *value, int *out);
    OrtStatusPtr (*KernelContext_GetGPUComputeStream)(const OrtKernelContext *context, void **out);
    OrtStatusPtr (*GetTensorMemoryInfo)(const OrtValue *value, const OrtMemoryInfo **out);
    OrtStatusPtr (*GetExecutionProviderApi)(const char *name, uint32_t version, const void **out);
    OrtStatusPtr (*SessionOptionsSetCustomCreateThreadFn)(OrtSessionOptions *options, OrtCustomCreateThreadFn callback);
    OrtStatusPtr (*SessionOptionsSetCustomThreadCreationOptions)(OrtSessionOptions *options, void *user_data);
    OrtStatusPtr (*SessionOptionsSetCustomJoinThreadFn)(OrtSessionOptions *options, OrtCustomJoinThreadFn callback);
    OrtStatusPtr (*SetGlobalCustomCreateThreadFn)(OrtThreadingOptions *threading, OrtCustomCreateThreadFn callback);
    OrtStatusPtr (*SetGlobalCustomThreadCreationOptions)(OrtThreadingOptions *threading, void *user_data);
    OrtStatusPtr (*SetGlobalCustomJoinThreadFn)(OrtThreadingOptions *threading, OrtCustomJoinThreadFn callback);
    OrtStatusPtr (*SynchronizeBoundInputs)(OrtIoBinding *binding);
    OrtStatusPtr (*SynchronizeBoundOutputs)(OrtIoBinding *binding);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_CUDA_V2)(
        OrtSessionOptions *options1, const OrtCUDAProviderOptionsV2 *options2);
    OrtStatusPtr (*CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2 **out);
    OrtStatusPtr (*UpdateCUDAProviderOptions)(
        OrtCUDAProviderOptionsV2 *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*GetCUDAProviderOptionsAsString)(
        const OrtCUDAProviderOptionsV2 *options, OrtAllocator *allocator, char **out);
    void (*ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2 *options);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_MIGraphX)(
        OrtSessionOptions *options1, const OrtMIGraphXProviderOptions *options2);
    OrtStatusPtr (*AddExternalInitializers)(
        OrtSessionOptions *options, const char *const *names, const OrtValue *const *values, size_t count);
    OrtStatusPtr (*CreateOpAttr)(
        const char *name, const void *data, int number, OrtOpAttrType op_attr_type, OrtOpAttr **out);
    void (*ReleaseOpAttr)(OrtOpAttr *attribute);
    OrtStatusPtr (*CreateOp)(const OrtKernelInfo *kernel, const char *name, const char *domain, int version,
        const char **names, const ONNXTensorElementDataType *element_type, int number1,
        const OrtOpAttr *const *attributes, int number2, int number3, int number4, OrtOp **out);
    OrtStatusPtr (*InvokeOp)(const OrtKernelContext *context, const OrtOp *op, const OrtValue *const *values,
        int number1, OrtValue *const *out, int number2);
    void (*ReleaseOp)(OrtOp *op);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider)(
        OrtSessionOptions *options, const char *name, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*CopyKernelInfo)(const OrtKernelInfo *kernel, OrtKernelInfo **out);
    void (*ReleaseKernelInfo)(OrtKernelInfo *kernel);
    const OrtTrainingApi *(*GetTrainingApi)(uint32_t version);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_CANN)(
        OrtSessionOptions *options1, const OrtCANNProviderOptions *options2);
    OrtStatusPtr (*CreateCANNProviderOptions)(OrtCANNProviderOptions **out);
    OrtStatusPtr (*UpdateCANNProviderOptions)(
        OrtCANNProviderOptions *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*GetCANNProviderOptionsAsString)(
        const OrtCANNProviderOptions *options, OrtAllocator *allocator, char **out);
    void (*ReleaseCANNProviderOptions)(OrtCANNProviderOptions *options);
    void (*MemoryInfoGetDeviceType)(const OrtMemoryInfo *memory, OrtMemoryInfoDeviceType *out);
    OrtStatusPtr (*UpdateEnvWithCustomLogLevel)(OrtEnv *env, OrtLoggingLevel logging_level);
    OrtStatusPtr (*SetGlobalIntraOpThreadAffinity)(OrtThreadingOptions *threading, const char *text);
    OrtStatusPtr (*RegisterCustomOpsLibrary_V2)(OrtSessionOptions *options, const char *name);
    OrtStatusPtr (*RegisterCustomOpsUsingFunction)(OrtSessionOptions *options, const char *name);
    OrtStatusPtr (*KernelInfo_GetInputCount)(const OrtKernelInfo *kernel, size_t *out);
    OrtStatusPtr (*KernelInfo_GetOutputCount)(const OrtKernelInfo *kernel, size_t *out);
    OrtStatusPtr (*KernelInfo_GetInputName)(const OrtKernelInfo *kernel, size_t index, char *text, size_t *count);
    OrtStatusPtr (*KernelInfo_GetOutputName)(const OrtKernelInfo *kernel, size_t index, char *text, size_t *count);
    OrtStatusPtr (*KernelInfo_GetInputTypeInfo)(const OrtKernelInfo *kernel, size_t index, OrtTypeInfo **out);
    OrtStatusPtr (*KernelInfo_GetOutputTypeInfo)(const OrtKernelInfo *kernel, size_t index, OrtTypeInfo **out);
    OrtStatusPtr (*KernelInfoGetAttribute_tensor)(
        const OrtKernelInfo *kernel, const char *name, OrtAllocator *allocator, OrtValue **out);
    OrtStatusPtr (*HasSessionConfigEntry)(const OrtSessionOptions *options, const char *key, int *out);
    OrtStatusPtr (*GetSessionConfigEntry)(const OrtSessionOptions *options, const char *key, char *text, size_t *count);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_Dnnl)(
        OrtSessionOptions *options1, const OrtDnnlProviderOptions *options2);
    OrtStatusPtr (*CreateDnnlProviderOptions)(OrtDnnlProviderOptions **out);
    OrtStatusPtr (*UpdateDnnlProviderOptions)(
        OrtDnnlProviderOptions *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*GetDnnlProviderOptionsAsString)(
        const OrtDnnlProviderOptions *options, OrtAllocator *allocator, char **out);
    void (*ReleaseDnnlProviderOptions)(OrtDnnlProviderOptions *options);
    OrtStatusPtr (*KernelInfo_GetNodeName)(const OrtKernelInfo *kernel, char *text, size_t *count);
    OrtStatusPtr (*KernelInfo_GetLogger)(const OrtKernelInfo *kernel, const OrtLogger **out);
    OrtStatusPtr (*KernelContext_GetLogger)(const OrtKernelContext *context, const OrtLogger **out);
    OrtStatusPtr (*Logger_LogMessage)(const OrtLogger *logger, OrtLoggingLevel logging_level, const char *message,
        const char *path, int number, const char *name);
    OrtStatusPtr (*Logger_GetLoggingSeverityLevel)(const OrtLogger *logger, OrtLoggingLevel *out);
    OrtStatusPtr (*KernelInfoGetConstantInput_tensor)(
        const OrtKernelInfo *kernel, size_t index, int *numbers, const OrtValue **out);
    OrtStatusPtr (*CastTypeInfoToOptionalTypeInfo)(const OrtTypeInfo *type, const OrtOptionalTypeInfo **out);
    OrtStatusPtr (*GetOptionalContainedTypeInfo)(const OrtOptionalTypeInfo *optional, OrtTypeInfo **out);
    OrtStatusPtr (*GetResizedStringTensorElementBuffer)(OrtValue *value, size_t index, size_t size, char **out);
    OrtStatusPtr (*KernelContext_GetAllocator)(
        const OrtKernelContext *context, const OrtMemoryInfo *memory, OrtAllocator **out);
    const char *(*GetBuildInfoString)(void);
    OrtStatusPtr (*CreateROCMProviderOptions)(OrtROCMProviderOptions **out);
    OrtStatusPtr (*UpdateROCMProviderOptions)(
        OrtROCMProviderOptions *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*GetROCMProviderOptionsAsString)(
        const OrtROCMProviderOptions *options, OrtAllocator *allocator, char **out);
    void (*ReleaseROCMProviderOptions)(OrtROCMProviderOptions *options);
    OrtStatusPtr (*CreateAndRegisterAllocatorV2)(OrtEnv *env, const char *id, const OrtMemoryInfo *memory,
        const OrtArenaCfg *arena, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*RunAsync)(OrtSession *session, const OrtRunOptions *run_options, const char *const *input_names,
        const OrtValue *const *inputs, size_t input_count, const char *const *output_names, size_t output_count,
        OrtValue **outputs, RunAsyncCallbackFn callback, void *user_data);
    OrtStatusPtr (*UpdateTensorRTProviderOptionsWithValue)(
        OrtTensorRTProviderOptionsV2 *options, const char *key, void *data);
    OrtStatusPtr (*GetTensorRTProviderOptionsByName)(
        const OrtTensorRTProviderOptionsV2 *options, const char *key, void **out);
    OrtStatusPtr (*UpdateCUDAProviderOptionsWithValue)(OrtCUDAProviderOptionsV2 *options, const char *key, void *data);
    OrtStatusPtr (*GetCUDAProviderOptionsByName)(const OrtCUDAProviderOptionsV2 *options, const char *key, void **out);
    OrtStatusPtr (*KernelContext_GetResource)(const OrtKernelContext *context, int version, int id, void **out);
    OrtStatusPtr (*SetUserLoggingFunction)(OrtSessionOptions *options, OrtLoggingFunction callback, void *user_data);
    OrtStatusPtr (*ShapeInferContext_GetInputCount)(const OrtShapeInferContext *context, size_t *out);
    OrtStatusPtr (*ShapeInferContext_GetInputTypeShape)(
        const OrtShapeInferContext *context, size_t index, OrtTensorTypeAndShapeInfo **out);
    OrtStatusPtr (*ShapeInferContext_GetAttribute)(
        const OrtShapeInferContext *context, const char *name, const OrtOpAttr **out);
    OrtStatusPtr (*ShapeInferContext_SetOutputTypeShape)(
        const OrtShapeInferContext *context, size_t index, const OrtTensorTypeAndShapeInfo *shape_info);
    OrtStatusPtr (*SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo *shape_info, const char **texts, size_t count);
    OrtStatusPtr (*ReadOpAttr)(
        const OrtOpAttr *attribute, OrtOpAttrType op_attr_type, void *data, size_t count, size_t *out);
    OrtStatusPtr (*SetDeterministicCompute)(OrtSessionOptions *options, bool enable);
    OrtStatusPtr (*KernelContext_ParallelFor)(const OrtKernelContext *context,
        void (*callback)(void *data, size_t count), size_t count1, size_t count2, void *data);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_OpenVINO_V2)(
        OrtSessionOptions *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_VitisAI)(
        OrtSessionOptions *options, const char *const *keys, const char *const *ids, size_t count);
    OrtStatusPtr (*KernelContext_GetScratchBuffer)(
        const OrtKernelContext *context, const OrtMemoryInfo *memory, size_t size, void **out);
    OrtStatusPtr (*KernelInfoGetAllocator)(const OrtKernelInfo *kernel, OrtMemType mem_type, OrtAllocator **out);
    OrtStatusPtr (*AddExternalInitializersFromFilesInMemory)(OrtSessionOptions *options, const char *const *paths1,
        char *const *paths2, const size_t *count1, size_t count2);
    OrtStatusPtr (*CreateLoraAdapter)(const char *path, OrtAllocator *allocator, OrtLoraAdapter **out);
    OrtStatusPtr (*CreateLoraAdapterFromArray)(
        const void *data, size_t size, OrtAllocator *allocator, OrtLoraAdapter **out);
    void (*ReleaseLoraAdapter)(OrtLoraAdapter *adapter);
    OrtStatusPtr (*RunOptionsAddActiveLoraAdapter)(OrtRunOptions *run_options, const OrtLoraAdapter *adapter);
    OrtStatusPtr (*SetEpDynamicOptions)(
        OrtSession *session, const char *const *keys, const char *const *texts, size_t count);
    void (*ReleaseValueInfo)(OrtValueInfo *info);
    void (*ReleaseNode)(OrtNode *node);
    void (*ReleaseGraph)(OrtGraph *graph);
    void (*ReleaseModel)(OrtModel *model);
    OrtStatusPtr (*GetValueInfoName)(const OrtValueInfo *info, const char **names);
    OrtStatusPtr (*GetValueInfoTypeInfo)(const OrtValueInfo *info, const OrtTypeInfo **out);
    const OrtModelEditorApi *(*GetModelEditorApi)(void);
    OrtStatusPtr (*CreateTensorWithDataAndDeleterAsOrtValue)(OrtAllocator *allocator, void *data, size_t count1,
        const int64_t *dims, size_t count2, ONNXTensorElementDataType element_type, OrtValue **out);
    OrtStatusPtr (*SessionOptionsSetLoadCancellationFlag)(OrtSessionOptions *options, bool enable);
    const OrtCompileApi *(*GetCompileApi)(void);
    void (*CreateKeyValuePairs)(OrtKeyValuePairs **out);
    void (*AddKeyValuePair)(OrtKeyValuePairs *pairs, const char *key, const char *text);
    const char *(*GetKeyValue)(const OrtKeyValuePairs *pairs, const char *key);
    void (*GetKeyValuePairs)(
        const OrtKeyValuePairs *pairs, const char *const **keys, const char *const **texts, size_t *count);
    void (*RemoveKeyValuePair)(OrtKeyValuePairs *pairs, const char *key);
    void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *pairs);
    OrtStatusPtr (*RegisterExecutionProviderLibrary)(OrtEnv *env, const char *name, const char *path);
    OrtStatusPtr (*UnregisterExecutionProviderLibrary)(OrtEnv *env, const char *name);
    OrtStatusPtr (*GetEpDevices)(const OrtEnv *env, const OrtEpDevice *const **devices, size_t *count);
    OrtStatusPtr (*SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions *options, OrtEnv *env,
        const OrtEpDevice *const *devices, size_t count1, const char *const *keys, const char *const *texts,
        size_t count2);
    OrtStatusPtr (*SessionOptionsSetEpSelectionPolicy)(
        OrtSessionOptions *options, OrtExecutionProviderDevicePolicy policy);
    OrtStatusPtr (*SessionOptionsSetEpSelectionPolicyDelegate)(
        OrtSessionOptions *options, EpSelectionDelegate value, void *user_data);
    OrtHardwareDeviceType (*HardwareDevice_Type)(const OrtHardwareDevice *hardware);
    uint32_t (*HardwareDevice_VendorId)(const OrtHardwareDevice *hardware);
    const char *(*HardwareDevice_Vendor)(const OrtHardwareDevice *hardware);
    uint32_t (*HardwareDevice_DeviceId)(const OrtHardwareDevice *hardware);
    const OrtKeyValuePairs *(*HardwareDevice_Metadata)(const OrtHardwareDevice *hardware);
    const char *(*EpDevice_EpName)(const OrtEpDevice *device);
    const char *(*EpDevice_EpVendor)(const OrtEpDevice *device);
    const OrtKeyValuePairs *(*EpDevice_EpMetadata)(const OrtEpDevice *device);
    const OrtKeyValuePairs *(*EpDevice_EpOptions)(const OrtEpDevice *device);
    const OrtHardwareDevice *(*EpDevice_Device)(const OrtEpDevice *device);
    const OrtEpApi *(*GetEpApi)(void);
    OrtStatusPtr (*GetTensorSizeInBytes)(const OrtValue *value, size_t *count);
    OrtStatusPtr (*AllocatorGetStats)(const OrtAllocator *allocator, OrtKeyValuePairs **out);
    OrtStatusPtr (*CreateMemoryInfo_V2)(const char *name, OrtMemoryInfoDeviceType type1, uint32_t id1, int32_t id2,
        OrtDeviceMemoryType type2, size_t count, OrtAllocatorType allocator_type, OrtMemoryInfo **out);
    OrtDeviceMemoryType (*MemoryInfoGetDeviceMemType)(const OrtMemoryInfo *memory);
    uint32_t (*MemoryInfoGetVendorId)(const OrtMemoryInfo *memory);
    OrtStatusPtr (*ValueInfo_GetValueProducer)(const OrtValueInfo *info, const OrtNode **nodes, size_t *count);
    OrtStatusPtr (*ValueInfo_GetValueNumConsumers)(const OrtValueInfo *info, size_t *count);
    OrtStatusPtr (*ValueInfo_GetValueConsumers)(
        const OrtValueInfo *info, const OrtNode **nodes, int64_t *numbers, size_t count);
    OrtStatusPtr (*ValueInfo_GetInitializerValue)(const OrtValueInfo *info, const OrtValue **out);
    OrtStatusPtr (*ValueInfo_GetExternalInitializerInfo)(const OrtValueInfo *info, OrtExternalInitializerInfo **out);
    OrtStatusPtr (*ValueInfo_IsRequiredGraphInput)(const OrtValueInfo *info, bool *out);
    OrtStatusPtr (*ValueInfo_IsOptionalGraphInput)(const OrtValueInfo *info, bool *out);
    OrtStatusPtr (*ValueInfo_IsGraphOutput)(const OrtValueInfo *info, bool *out);
    OrtStatusPtr (*ValueInfo_IsConstantInitializer)(const OrtValueInfo *info, bool *out);
    OrtStatusPtr (*ValueInfo_IsFromOuterScope)(const OrtValueInfo *info, bool *out);
    OrtStatusPtr (*Graph_GetName)(const OrtGraph *graph, const char **names);
    OrtStatusPtr (*Graph_GetModelPath)(const OrtGraph *graph, const char **paths);
    OrtStatusPtr (*Graph_GetOnnxIRVersion)(const OrtGraph *graph, int64_t *numbers);
    OrtStatusPtr (*Graph_GetNumOperatorSets)(const OrtGraph *graph, size_t *count);
    OrtStatusPtr (*Graph_GetOperatorSets)(const OrtGraph *graph, const char **domains, int64_t *numbers, size_t count);
    OrtStatusPtr (*Graph_GetNumInputs)(const OrtGraph *graph, size_t *count);
    OrtStatusPtr (*Graph_GetInputs)(const OrtGraph *graph, const OrtValueInfo **infos, size_t count);
    OrtStatusPtr (*Graph_GetNumOutputs)(const OrtGraph *graph, size_t *count);
    OrtStatusPtr (*Graph_GetOutputs)(const OrtGraph *graph, const OrtValueInfo **out, size_t count);
    OrtStatusPtr (*Graph_GetNumInitializers)(const OrtGraph *graph, size_t *count);
    OrtStatusPtr (*Graph_GetInitializers)(const OrtGraph *graph, const OrtValueInfo **infos, size_t count);
    OrtStatusPtr (*Graph_GetNumNodes)(const OrtGraph *graph, size_t *count);
    OrtStatusPtr (*Graph_GetNodes)(const OrtGraph *graph, const OrtNode **nodes, size_t count);
    OrtStatusPtr (*Graph_GetParentNode)(const OrtGraph *graph, const OrtNode **out);
    OrtStatusPtr (*Graph_GetGraphView)(const OrtGraph *graph, const OrtNode **nodes, size_t count, OrtGraph **out);
    OrtStatusPtr (*Node_GetId)(const OrtNode *node, size_t *count);
    OrtStatusPtr (*Node_GetName)(const OrtNode *node, const char **names);
    OrtStatusPtr (*Node_GetOperatorType)(const OrtNode *node, const char **kinds);
    OrtStatusPtr (*Node_GetDomain)(const OrtNode *node, const char **domains);
    OrtStatusPtr (*Node_GetSinceVersion)(const OrtNode *node, int *out);
    OrtStatusPtr (*Node_GetNumInputs)(const OrtNode *node, size_t *count);
    OrtStatusPtr (*Node_GetInputs)(const OrtNode *node, const OrtValueInfo **infos, size_t count);
    OrtStatusPtr (*Node_GetNumOutputs)(const OrtNode *node, size_t *count);
    OrtStatusPtr (*Node_GetOutputs)(const OrtNode *node, const OrtValueInfo **out, size_t count);
    OrtStatusPtr (*Node_GetNumImplicitInputs)(const OrtNode *node, size_t *count);
    OrtStatusPtr (*Node_GetImplicitInputs)(const OrtNode *node, const OrtValueInfo **infos, size_t count);
    OrtStatusPtr (*Node_GetNumAttributes)(const OrtNode *node, size_t *count);
    OrtStatusPtr (*Node_GetAttributes)(const OrtNode *node, const OrtOpAttr **attributes, size_t count);
    OrtStatusPtr (*Node_GetAttributeByName)(const OrtNode *node, const char *name, const OrtOpAttr **out);
    OrtStatusPtr (*OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr *attribute, OrtValue **out);
    OrtStatusPtr (*OpAttr_GetType)(const OrtOpAttr *attribute, OrtOpAttrType *op_attr_type);
    OrtStatusPtr (*OpAttr_GetName)(const OrtOpAttr *attribute, const char **names);
    OrtStatusPtr (*Node_GetNumSubgraphs)(const OrtNode *node, size_t *count);
    OrtStatusPtr (*Node_GetSubgraphs)(const OrtNode *node, const OrtGraph **graphs, size_t count, const char **names);
    OrtStatusPtr (*Node_GetGraph)(const OrtNode *node, const OrtGraph **out);
    OrtStatusPtr (*Node_GetEpName)(const OrtNode *node, const char **out);
    void (*ReleaseExternalInitializerInfo)(OrtExternalInitializerInfo *info);
    const char *(*ExternalInitializerInfo_GetFilePath)(const OrtExternalInitializerInfo *info);
    int64_t (*ExternalInitializerInfo_GetFileOffset)(const OrtExternalInitializerInfo *info);
    size_t (*ExternalInitializerInfo_GetByteSize)(const OrtExternalInitializerInfo *info);
    const char *(*GetRunConfigEntry)(const OrtRunOptions *run_options, const char *key);
    const OrtMemoryInfo *(*EpDevice_MemoryInfo)(const OrtEpDevice *device, OrtDeviceMemoryType type);
    OrtStatusPtr (*CreateSharedAllocator)(OrtEnv *env, const OrtEpDevice *device, OrtDeviceMemoryType type,
        OrtAllocatorType allocator_type, const OrtKeyValuePairs *pairs, OrtAllocator **out);
    OrtStatusPtr (*GetSharedAllocator)(OrtEnv *env, const OrtMemoryInfo *memory, OrtAllocator **out);
    OrtStatusPtr (*ReleaseSharedAllocator)(OrtEnv *env, const OrtEpDevice *device, OrtDeviceMemoryType type);
    OrtStatusPtr (*GetTensorData)(const OrtValue *value, const void **out);
    OrtStatusPtr (*GetSessionOptionsConfigEntries)(const OrtSessionOptions *options, OrtKeyValuePairs **out);
    OrtStatusPtr (*SessionGetMemoryInfoForInputs)(
        const OrtSession *session, const OrtMemoryInfo **memorys, size_t count);
    OrtStatusPtr (*SessionGetMemoryInfoForOutputs)(const OrtSession *session, const OrtMemoryInfo **out, size_t count);
    OrtStatusPtr (*SessionGetEpDeviceForInputs)(const OrtSession *session, const OrtEpDevice **devices, size_t count);
    OrtStatusPtr (*CreateSyncStreamForEpDevice)(
        const OrtEpDevice *device, const OrtKeyValuePairs *pairs, OrtSyncStream **out);
    void *(*SyncStream_GetHandle)(OrtSyncStream *stream);
    void (*ReleaseSyncStream)(OrtSyncStream *stream);
    OrtStatusPtr (*CopyTensors)(const OrtEnv *env, const OrtValue *const *values1, OrtValue *const *values2,
        OrtSyncStream *stream, size_t count);
    OrtStatusPtr (*Graph_GetModelMetadata)(const OrtGraph *graph, OrtModelMetadata **out);
    OrtStatusPtr (*GetModelCompatibilityForEpDevices)(
        const OrtEpDevice *const *devices, size_t count, const char *text, OrtCompiledModelCompatibility *out);
    OrtStatusPtr (*CreateExternalInitializerInfo)(
        const char *path, int64_t number, size_t size, OrtExternalInitializerInfo **out);
    bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *shape_info);
    OrtStatusPtr (*KernelInfo_GetConfigEntries)(const OrtKernelInfo *kernel, OrtKeyValuePairs **out);
    OrtStatusPtr (*KernelInfo_GetOperatorDomain)(const OrtKernelInfo *kernel, char *text, size_t *count);
    OrtStatusPtr (*KernelInfo_GetOperatorType)(const OrtKernelInfo *kernel, char *text, size_t *count);
    OrtStatusPtr (*KernelInfo_GetOperatorSinceVersion)(const OrtKernelInfo *kernel, int *out);
    const OrtInteropApi *(*GetInteropApi)(void);
    OrtStatusPtr (*SessionGetEpDeviceForOutputs)(const OrtSession *session, const OrtEpDevice **out, size_t count);
    OrtStatusPtr (*GetNumHardwareDevices)(const OrtEnv *env, size_t *count);
    OrtStatusPtr (*GetHardwareDevices)(const OrtEnv *env, const OrtHardwareDevice **hardwares, size_t count);
    OrtStatusPtr (*GetHardwareDeviceEpIncompatibilityDetails)(const OrtEnv *env, const char *name,
        const OrtHardwareDevice *hardware, OrtDeviceEpIncompatibilityDetails **out);
    OrtStatusPtr (*DeviceEpIncompatibilityDetails_GetReasonsBitmask)(
        const OrtDeviceEpIncompatibilityDetails *details, uint32_t *out);
    OrtStatusPtr (*DeviceEpIncompatibilityDetails_GetNotes)(
        const OrtDeviceEpIncompatibilityDetails *details, const char **texts);
    OrtStatusPtr (*DeviceEpIncompatibilityDetails_GetErrorCode)(
        const OrtDeviceEpIncompatibilityDetails *details, int32_t *out);
    void (*ReleaseDeviceEpIncompatibilityDetails)(OrtDeviceEpIncompatibilityDetails *details);
    OrtStatusPtr (*GetCompatibilityInfoFromModel)(
        const char *path, const char *kind, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*GetCompatibilityInfoFromModelBytes)(
        const void *data, size_t count, const char *kind, OrtAllocator *allocator, char **out);
    OrtStatusPtr (*CreateEnvWithOptions)(const OrtEnvCreationOptions *options, OrtEnv **out);
    OrtStatusPtr (*Session_GetEpGraphAssignmentInfo)(
        const OrtSession *session, const OrtEpAssignedSubgraph *const **subgraphs, size_t *count);
    OrtStatusPtr (*EpAssignedSubgraph_GetEpName)(const OrtEpAssignedSubgraph *subgraph, const char **out);
    OrtStatusPtr (*EpAssignedSubgraph_GetNodes)(
        const OrtEpAssignedSubgraph *subgraph, const OrtEpAssignedNode *const **nodes, size_t *count);
    OrtStatusPtr (*EpAssignedNode_GetName)(const OrtEpAssignedNode *node, const char **out);
    OrtStatusPtr (*EpAssignedNode_GetDomain)(const OrtEpAssignedNode *node, const char **out);
    OrtStatusPtr (*EpAssignedNode_GetOperatorType)(const OrtEpAssignedNode *node, const char **out);
    void (*RunOptionsSetSyncStream)(OrtRunOptions *run_options, OrtSyncStream *stream);
    OrtStatusPtr (*GetTensorElementTypeAndShapeDataReference)(
        const OrtValue *value, ONNXTensorElementDataType *element_type, const int64_t **dims, size_t *count);
    OrtStatusPtr (*RunOptionsEnableProfiling)(OrtRunOptions *run_options, const char *path);
    OrtStatusPtr (*RunOptionsDisableProfiling)(OrtRunOptions *run_options);
    OrtStatusPtr (*KernelInfoGetAttributeArray_string)(
        const OrtKernelInfo *kernel, const char *name, OrtAllocator *allocator, char ***out, size_t *count);
    OrtStatusPtr (*SetPerSessionThreadPoolCallbacks)(OrtEnv *env, const OrtThreadPoolCallbacksConfig *callback);
    OrtStatusPtr (*GetMemPatternEnabled)(const OrtSessionOptions *options, int *out);
    OrtStatusPtr (*GetSessionExecutionMode)(const OrtSessionOptions *options, ExecutionMode *out);
    OrtStatusPtr (*SessionReleaseCapturedGraph)(OrtSession *session, int id);
};
