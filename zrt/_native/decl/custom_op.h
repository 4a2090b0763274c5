typedef enum OrtCustomOpInputOutputCharacteristic {
    INPUT_OUTPUT_REQUIRED = 0,
    INPUT_OUTPUT_OPTIONAL = 1,
    INPUT_OUTPUT_VARIADIC = 2
} OrtCustomOpInputOutputCharacteristic;

struct OrtCustomOp {
    uint32_t version;
    void *(*CreateKernel)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *kernel);
    const char *(*GetName)(const OrtCustomOp *op);
    const char *(*GetExecutionProviderType)(const OrtCustomOp *op);
    ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetInputTypeCount)(const OrtCustomOp *op);
    ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetOutputTypeCount)(const OrtCustomOp *op);
    void (*KernelCompute)(void *data, OrtKernelContext *context);
    void (*KernelDestroy)(void *data);
    OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp *op, size_t index);
    OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp *op, size_t index);
    OrtMemType (*GetInputMemoryType)(const OrtCustomOp *op, size_t index);
    int (*GetVariadicInputMinArity)(const OrtCustomOp *op);
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp *op);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp *op);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp *op);
    OrtStatusPtr (*CreateKernelV2)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *kernel, void **out);
    OrtStatusPtr (*KernelComputeV2)(void *data, OrtKernelContext *context);
    OrtStatusPtr (*InferOutputShapeFn)(const OrtCustomOp *op, OrtShapeInferContext *context);
    int (*GetStartVersion)(const OrtCustomOp *op);
    int (*GetEndVersion)(const OrtCustomOp *op);
    size_t (*GetMayInplace)(int **numbers, int **out);
    void (*ReleaseMayInplace)(int *numbers, int *out);
    size_t (*GetAliasMap)(int **numbers, int **out);
    void (*ReleaseAliasMap)(int *numbers, int *out);
};
