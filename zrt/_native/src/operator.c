#include "python.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "library.h"
#include "budget.h"
#include "operator.h"

/* cffi defines these; they take the GIL. They return 0 for success, else `status` may have the reason. */
extern int zrt_python_create(void *op, const OrtKernelInfo *info, zrt_kernel *kernel, OrtStatus **status);
extern int zrt_python_compute(void *kernel, OrtKernelContext *context, const zrt_op_tensor *inputs, size_t input_count,
    size_t output_count, OrtStatus **status);
extern int zrt_python_destroy(void *kernel);
extern int zrt_python_infer(void *op, OrtShapeInferContext *context);
extern int zrt_python_turn(void *job, size_t index);

static int ended;

static int has_ended(void) {
    return __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
}

void zrt_ops_end(void) {
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
}

static OrtStatus *failed(const zrt_op *op, const char *what) {
    char message[256];
    snprintf(message, sizeof message, "operator %s: %s", op->name, what);
    return op->api->CreateStatus(ORT_FAIL, message);
}

static OrtStatus *outcome(const zrt_op *op, int code, OrtStatus *status) {
    if (code == 0)
        return NULL;
    return status ? status : failed(op, "its Python code failed");
}

/* A function of the table that returns a field of the operator. */
#define FIELD(type, function, field)                                                                                   \
    static type function(const OrtCustomOp *table) {                                                                   \
        return ((const zrt_op *)table)->field;                                                                         \
    }

FIELD(const char *, get_name, name)
FIELD(const char *, get_provider, provider)
FIELD(size_t, get_input_count, input_count)
FIELD(size_t, get_output_count, output_count)
FIELD(int, get_least_inputs, input_arity.least)
FIELD(int, get_least_outputs, output_arity.least)
FIELD(int, get_homogeneous_inputs, input_arity.homogeneous)
FIELD(int, get_homogeneous_outputs, output_arity.homogeneous)
FIELD(int, get_first_version, first_version)
FIELD(int, get_last_version, last_version)

/* A function of the table that returns a field of one input or output. */
#define PORT_FIELD(type, function, ports, field)                                                                       \
    static type function(const OrtCustomOp *table, size_t index) {                                                     \
        return ((const zrt_op *)table)->ports[index].field;                                                            \
    }

PORT_FIELD(ONNXTensorElementDataType, get_input_type, inputs, element_type)
PORT_FIELD(ONNXTensorElementDataType, get_output_type, outputs, element_type)
PORT_FIELD(OrtCustomOpInputOutputCharacteristic, get_input_characteristic, inputs, characteristic)
PORT_FIELD(OrtCustomOpInputOutputCharacteristic, get_output_characteristic, outputs, characteristic)
PORT_FIELD(OrtMemType, get_input_memory, inputs, memory)

static OrtStatusPtr create_kernel(const OrtCustomOp *table, const OrtApi *api, const OrtKernelInfo *info, void **out) {
    const zrt_op *op = (const zrt_op *)table;
    (void)api;
    zrt_kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return failed(op, "no memory for a kernel");
    kernel->op = op;
    /* A kernel in C has no state in Python. */
    if (op->compute == NULL) {
        OrtStatus *status = NULL;
        int code = 1;
        if (!has_ended())
            IN_PYTHON(code = zrt_python_create(op->python, info, kernel, &status));
        if (code != 0) {
            if (kernel->kept != NULL)
                zrt_handle_unref(kernel->kept);
            free(kernel);
            return outcome(op, code, status);
        }
    }
    *out = kernel;
    return NULL;
}

static void destroy_kernel(void *data) {
    zrt_kernel *kernel = data;
    if (kernel->kept != NULL) {
        int code = ZRT_OK;
        if (!has_ended())
            IN_PYTHON(code = zrt_python_destroy(kernel->python));
        if (code == ZRT_INTERRUPTED)
            PyErr_SetInterrupt();
        zrt_handle_unref(kernel->kept);
    }
    free(kernel);
}

OrtStatus *zrt_op_describe(const OrtApi *api, OrtValue *value, zrt_op_tensor *tensor) {
    ONNXTensorElementDataType element_type;
    *tensor = (zrt_op_tensor){0};
    if (value == NULL)
        return NULL;
    RETURN_IF_FAILED(
        api->GetTensorElementTypeAndShapeDataReference(value, &element_type, &tensor->shape, &tensor->rank));
    tensor->element_type = (int)element_type;
    tensor->count = 1;
    for (size_t i = 0; i < tensor->rank; i++)
        tensor->count *= (size_t)tensor->shape[i];
    return api->GetTensorMutableData(value, &tensor->data);
}

/* Describes the kernel's `count` inputs in `tensors`. */
static OrtStatus *describe_inputs(
    const OrtApi *api, const OrtKernelContext *context, zrt_op_tensor *tensors, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const OrtValue *value = NULL;
        RETURN_IF_FAILED(api->KernelContext_GetInput(context, i, &value));
        RETURN_IF_FAILED(zrt_op_describe(api, (OrtValue *)value, &tensors[i]));
    }
    return NULL;
}

uintptr_t zrt_op_output(const OrtApi *api, OrtKernelContext *context, size_t index, const int64_t *shape, size_t rank,
    zrt_op_tensor *tensor) {
    OrtValue *value = NULL;
    RETURN_CODE_IF_FAILED(api->KernelContext_GetOutput(context, index, shape, rank, &value));
    return (uintptr_t)zrt_op_describe(api, value, tensor);
}

/* Whether the node leaves an output out, which is then described as absent. Otherwise the run must fail. */
static int is_absent(const zrt_op *op, OrtKernelContext *context, size_t index, zrt_op_tensor *output) {
    const int64_t none = 0;
    OrtStatus *status = (OrtStatus *)zrt_op_output(op->api, context, index, &none, 1, output);
    if (status != NULL)
        op->api->ReleaseStatus(status);
    return status == NULL && output->element_type == 0;
}

static OrtStatus *compute_in_c(
    const zrt_op *op, OrtKernelContext *context, zrt_op_tensor *tensors, size_t input_count, size_t output_count) {
    zrt_op_tensor *outputs = tensors + input_count;
    for (size_t i = 0; i < output_count; i++) {
        int64_t sizes[ZRT_MOST_DIMENSIONS];
        const int64_t *shape = sizes;
        size_t rank = 0;
        if (op->shape != NULL) {
            if (op->shape(tensors, input_count, i, sizes, &rank, op->user_data) != 0 || rank > ZRT_MOST_DIMENSIONS)
                return failed(op, "its function for the shapes failed");
            for (size_t d = 0; d < rank; d++)
                if (sizes[d] < 0)
                    return failed(op, "its function for the shapes gave a negative size");
        } else {
            /* All tensors of a variadic output, which is the last one, have the shape of one input. */
            size_t described = i < op->output_count ? i : op->output_count - 1;
            size_t like = op->shaped_like[described];
            if (like >= input_count || tensors[like].element_type == 0) {
                if (is_absent(op, context, i, &outputs[i]))
                    continue;
                return failed(op, "the input that an output has its shape of is absent");
            }
            shape = tensors[like].shape;
            rank = tensors[like].rank;
        }
        RETURN_IF_FAILED((OrtStatus *)zrt_op_output(op->api, context, i, shape, rank, &outputs[i]));
    }
    int code = op->compute(tensors, input_count, outputs, output_count, op->user_data);
    if (code != 0) {
        char message[64];
        snprintf(message, sizeof message, "its function returned %d", code);
        return failed(op, message);
    }
    return NULL;
}

static OrtStatus *compute_in_python(const zrt_kernel *kernel, OrtKernelContext *context, const zrt_op_tensor *tensors,
    size_t input_count, size_t output_count) {
    OrtStatus *status = NULL;
    if (has_ended())
        return failed(kernel->op, "the interpreter has ended");
    int code = 1;
    IN_PYTHON(code = zrt_python_compute(kernel->python, context, tensors, input_count, output_count, &status));
    return outcome(kernel->op, code, status);
}

enum { FEW = 16 };

static OrtStatusPtr compute(void *data, OrtKernelContext *context) {
    const zrt_kernel *kernel = data;
    const zrt_op *op = kernel->op;
    size_t input_count = 0, output_count = 0;
    RETURN_IF_FAILED(op->api->KernelContext_GetInputCount(context, &input_count));
    RETURN_IF_FAILED(op->api->KernelContext_GetOutputCount(context, &output_count));
    zrt_op_tensor few[FEW];
    zrt_op_tensor *tensors = few;
    if (input_count + output_count > FEW) {
        tensors = malloc((input_count + output_count) * sizeof *tensors);
        if (tensors == NULL)
            return failed(op, "no memory for its tensors");
    }
    OrtStatus *status = describe_inputs(op->api, context, tensors, input_count);
    int mark = zrt_budget_mark(1);
    if (status == NULL && op->compute == NULL)
        status = compute_in_python(kernel, context, tensors, input_count, output_count);
    else if (status == NULL) {
        /* The operator may fork, and has another lock in the child. */
        pthread_mutex_t *lock = op->lock;
        if (lock != NULL)
            pthread_mutex_lock(lock);
        status = compute_in_c(op, context, tensors, input_count, output_count);
        if (lock != NULL)
            pthread_mutex_unlock(lock);
    }
    zrt_budget_mark(mark);
    if (tensors != few)
        free(tensors);
    return status;
}

static OrtStatusPtr infer(const OrtCustomOp *table, OrtShapeInferContext *context) {
    /* ORT drops the status of this function: Python keeps the exception for the load. */
    if (!has_ended())
        IN_PYTHON(zrt_python_infer(((const zrt_op *)table)->python, context));
    return NULL;
}

/* ORT passes no operator to the functions for pairs. It calls them right after the operator's GetExecutionProviderType,
   in the same thread, so that function remembers the operator. */
static _Thread_local const zrt_op *asked;

static const char *get_provider_and_remember(const OrtCustomOp *table) {
    asked = (const zrt_op *)table;
    return get_provider(table);
}

static size_t get_pairs(const zrt_pairs *pairs, int **inputs, int **outputs) {
    *inputs = pairs->inputs;
    *outputs = pairs->outputs;
    return pairs->count;
}

static size_t get_inplace(int **inputs, int **outputs) {
    return asked ? get_pairs(&asked->inplace, inputs, outputs) : 0;
}

static size_t get_aliases(int **inputs, int **outputs) {
    return asked ? get_pairs(&asked->aliases, inputs, outputs) : 0;
}

static void keep_pairs(int *inputs, int *outputs) {
    /* The operator owns the pairs. */
    (void)inputs;
    (void)outputs;
}

int zrt_op_complete(zrt_op *op) {
    if (op->serialize) {
        pthread_mutex_t *lock = malloc(sizeof *lock);
        if (lock == NULL)
            return -1;
        /* Recursive: a session that the operator runs may use the operator again. */
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(lock, &kind);
        pthread_mutexattr_destroy(&kind);
        op->lock = lock;
    }
    op->table = (OrtCustomOp){
        .version = ZRT_API_VERSION,
        .GetName = get_name,
        .GetExecutionProviderType = get_provider_and_remember,
        .GetInputType = get_input_type,
        .GetInputTypeCount = get_input_count,
        .GetOutputType = get_output_type,
        .GetOutputTypeCount = get_output_count,
        .KernelDestroy = destroy_kernel,
        .GetInputCharacteristic = get_input_characteristic,
        .GetOutputCharacteristic = get_output_characteristic,
        .GetInputMemoryType = get_input_memory,
        .GetVariadicInputMinArity = get_least_inputs,
        .GetVariadicInputHomogeneity = get_homogeneous_inputs,
        .GetVariadicOutputMinArity = get_least_outputs,
        .GetVariadicOutputHomogeneity = get_homogeneous_outputs,
        .CreateKernelV2 = create_kernel,
        .KernelComputeV2 = compute,
        .InferOutputShapeFn = op->infers ? infer : NULL,
        .GetStartVersion = get_first_version,
        .GetEndVersion = get_last_version,
        .GetMayInplace = get_inplace,
        .ReleaseMayInplace = keep_pairs,
        .GetAliasMap = get_aliases,
        .ReleaseAliasMap = keep_pairs,
    };
    return 0;
}

void zrt_op_free(void *data) {
    zrt_op *op = data;
    if (op->lock != NULL)
        pthread_mutex_destroy(op->lock);
    free(op->lock);
    free(op);
}

void zrt_standard_end(void *data) {
    zrt_standard *standard = data;
    OrtOp *op = __atomic_exchange_n(&standard->op, NULL, __ATOMIC_ACQ_REL);
    /* Python may fail before it sets `api`. */
    if (op != NULL)
        standard->api->ReleaseOp(op);
}

void zrt_standard_free(void *data) {
    zrt_standard_end(data);
    free(data);
}

/* A parallel loop; after an exception its further turns are not worth a call of Python. */
typedef struct loop {
    void *job;
    int failed;
} loop;

static void turn(void *data, size_t index) {
    loop *this = data;
    if (__atomic_load_n(&this->failed, __ATOMIC_RELAXED) || has_ended())
        return;
    int mark = zrt_budget_mark(1), failed = 1;
    IN_PYTHON(failed = zrt_python_turn(this->job, index));
    if (failed)
        __atomic_store_n(&this->failed, 1, __ATOMIC_RELAXED);
    zrt_budget_mark(mark);
}

OrtStatus *zrt_parallel_for(
    const OrtApi *api, const OrtKernelContext *context, size_t count, size_t batches, void *job) {
    loop this = {job, 0};
    return api->KernelContext_ParallelFor(context, turn, count, batches, &this);
}
