/* A shared library of custom operators for ONNX Runtime, with one operator: y = -x. */
#include <stdlib.h>
#include <string.h>

#ifdef OFFICIAL
#include <onnxruntime_c_api.h>
#else
#include "ort.h"
#endif

static const OrtApi *api;

static const char *name(const OrtCustomOp *op) {
    return "Negate";
}
static const char *provider(const OrtCustomOp *op) {
    return "CPUExecutionProvider";
}
static ONNXTensorElementDataType type(const OrtCustomOp *op, size_t i) {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static size_t one(const OrtCustomOp *op) {
    return 1;
}
static OrtCustomOpInputOutputCharacteristic required(const OrtCustomOp *op, size_t i) {
    return INPUT_OUTPUT_REQUIRED;
}
static OrtMemType memory(const OrtCustomOp *op, size_t i) {
    return OrtMemTypeDefault;
}
static int version(const OrtCustomOp *op) {
    return 1;
}

static OrtStatusPtr create(const OrtCustomOp *op, const OrtApi *table, const OrtKernelInfo *info, void **kernel) {
    *kernel = malloc(1);
    return NULL;
}

static OrtStatusPtr compute(void *kernel, OrtKernelContext *context) {
    const OrtValue *x;
    OrtValue *y;
    OrtTensorTypeAndShapeInfo *info;
    int64_t shape[8];
    size_t rank, count;
    void *from, *to;
    OrtStatusPtr status;
    if ((status = api->KernelContext_GetInput(context, 0, &x)) || (status = api->GetTensorTypeAndShape(x, &info)) ||
        (status = api->GetDimensionsCount(info, &rank)) || (status = api->GetDimensions(info, shape, rank)) ||
        (status = api->GetTensorShapeElementCount(info, &count)) ||
        (status = api->KernelContext_GetOutput(context, 0, shape, rank, &y)) ||
        (status = api->GetTensorMutableData((OrtValue *)x, &from)) || (status = api->GetTensorMutableData(y, &to)))
        return status;
    api->ReleaseTensorTypeAndShapeInfo(info);
    for (size_t i = 0; i < count; i++)
        ((float *)to)[i] = -((float *)from)[i];
    return NULL;
}

static OrtCustomOp negate;

OrtStatusPtr RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    OrtCustomOpDomain *domain;
    OrtStatusPtr status;
    api = base->GetApi(27);
    memset(&negate, 0, sizeof negate);
    negate.version = 27;
    negate.GetName = name;
    negate.GetExecutionProviderType = provider;
    negate.GetInputType = negate.GetOutputType = type;
    negate.GetInputTypeCount = negate.GetOutputTypeCount = one;
    negate.GetInputCharacteristic = negate.GetOutputCharacteristic = required;
    negate.GetInputMemoryType = memory;
    negate.GetStartVersion = version;
    negate.CreateKernelV2 = create;
    negate.KernelComputeV2 = compute;
    negate.KernelDestroy = free;
    if ((status = api->CreateCustomOpDomain("test.library", &domain)) ||
        (status = api->CustomOpDomain_Add(domain, &negate)))
        return status;
    return api->AddCustomOpDomain(options, domain);
}
