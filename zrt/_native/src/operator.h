/* Custom operators: what ORT asks and calls of one, answered from a description that Python makes, with `compute` in
   Python or in C. What C needs stays alive for as long as a session that uses the operator; what Python needs hangs on
   the handles of those sessions (handle.py), so that its collector sees an operator that holds its own session. */
#pragma once

/* A tensor as an operator written in C sees it; `shape` has `rank` entries, `count` is their product. */
typedef struct zrt_op_tensor {
    void *data;
    const int64_t *shape;
    size_t rank;
    size_t count;
    int element_type;
} zrt_op_tensor;

/* An operator written in C: 0 for success, any other number is told to the user. An absent input or output has no
   data. Several threads may be in it at once. */
typedef int (*zrt_compute)(const zrt_op_tensor *inputs, size_t input_count, const zrt_op_tensor *outputs,
    size_t output_count, void *user_data);

/* The shape of an output: at most ZRT_MOST_DIMENSIONS entries, and their number. */
enum { ZRT_MOST_DIMENSIONS = 64 };
typedef int (*zrt_shape)(
    const zrt_op_tensor *inputs, size_t input_count, size_t output, int64_t *shape, size_t *rank, void *user_data);

typedef struct zrt_port {
    ONNXTensorElementDataType element_type;
    OrtCustomOpInputOutputCharacteristic characteristic;
    OrtMemType memory;
} zrt_port;

/* A variadic port's least number of tensors, and whether they are all of one type. */
typedef struct zrt_arity {
    int least;
    int homogeneous;
} zrt_arity;

/* Pairs of an input and an output that may share memory, or do. */
typedef struct zrt_pairs {
    size_t count;
    int *inputs;
    int *outputs;
} zrt_pairs;

typedef struct zrt_op {
    /* First: ORT gives us back the address of this table. */
    OrtCustomOp table;
    const OrtApi *api;
    const char *name;
    const char *provider;
    int first_version;
    int last_version;
    size_t input_count;
    size_t output_count;
    const zrt_port *inputs;
    const zrt_port *outputs;
    zrt_arity input_arity;
    zrt_arity output_arity;
    zrt_pairs inplace;
    zrt_pairs aliases;
    /* The operator in Python, as cffi's handle on a weak reference to it: what keeps it alive is what may run it. */
    void *python;
    int infers;
    /* One run of `compute` at a time. */
    int serialize;
    void *lock;
    /* NULL: Python computes. */
    zrt_compute compute;
    zrt_shape shape;
    /* Without `shape`: of which input each output has the shape. */
    const size_t *shaped_like;
    void *user_data;
} zrt_op;

/* A node's kernel. */
typedef struct zrt_kernel {
    const zrt_op *op;
    /* In Python, as cffi's handle on a weak reference to it, and what keeps that alive. */
    void *python;
    zrt_handle *kept;
} zrt_kernel;

/* A standard operator's kernel, released before the session whose kernel it serves. */
typedef struct zrt_standard {
    const OrtApi *api;
    OrtOp *op;
} zrt_standard;

/* An operator without a description. NULL when memory is short. */
zrt_op *zrt_op_new(void);

/* Fills the table of an operator whose description is complete. */
void zrt_op_complete(zrt_op *op);

void zrt_op_free(void *op);

/* Makes room for an output and says where it is; the address of a status, or 0. An output that the model does not take
   has no element type. */
uintptr_t zrt_op_output(const OrtApi *api, OrtKernelContext *context, size_t index, const int64_t *shape, size_t rank,
    zrt_op_tensor *tensor);

/* Where a tensor is and what it holds; the address of a status, or 0. */
uintptr_t zrt_op_describe(const OrtApi *api, OrtValue *value, zrt_op_tensor *tensor);

/* One that has no kernel yet; NULL when memory is short. */
zrt_standard *zrt_standard_new(const OrtApi *api);

/* Its kernel is released, once. */
void zrt_standard_end(void *standard);
void zrt_standard_free(void *standard);

/* ORT's parallel loop over [0, count) in `batches` (0: ORT chooses), each turn in Python. */
uintptr_t zrt_parallel_for(const OrtApi *api, const OrtKernelContext *context, size_t count, size_t batches, void *job);

/* From here on no operator's Python code is called: the interpreter ends. */
void zrt_ops_end(void);
