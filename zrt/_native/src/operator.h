/* Custom operators: the OrtCustomOp table of an operator that Python describes, with `compute` in Python or in C.
   A session's handle owns the C description. The Python objects hang on the session's `Handle.kept` (handle.py), where
   GC sees them: an operator that refers to its own session is a cycle. */
#pragma once

/* A tensor as an operator written in C sees it; `shape` has `rank` entries, `count` is their product. */
typedef struct zrt_op_tensor {
    void *data;
    const int64_t *shape;
    size_t rank;
    size_t count;
    int element_type;
} zrt_op_tensor;

/* An operator written in C. Returns 0 for success; the error message has any other number. An absent input or output
   has no data. It must be thread-safe unless the operator is serialized. */
typedef int (*zrt_compute)(const zrt_op_tensor *inputs, size_t input_count, const zrt_op_tensor *outputs,
    size_t output_count, void *user_data);

/* Stores the shape of an output, at most ZRT_MOST_DIMENSIONS entries, and its rank. Returns 0 for success. */
enum { ZRT_MOST_DIMENSIONS = 64 };
typedef int (*zrt_shape)(
    const zrt_op_tensor *inputs, size_t input_count, size_t output, int64_t *shape, size_t *rank, void *user_data);

typedef struct zrt_port {
    ONNXTensorElementDataType element_type;
    OrtCustomOpInputOutputCharacteristic characteristic;
    OrtMemType memory;
} zrt_port;

/* The minimum number of tensors of a variadic port, and whether all have one type. */
typedef struct zrt_arity {
    int least;
    int homogeneous;
} zrt_arity;

/* Pairs of an input and an output that share memory, or may. */
typedef struct zrt_pairs {
    size_t count;
    int *inputs;
    int *outputs;
} zrt_pairs;

typedef struct zrt_op {
    /* The first member: ORT passes the address of this table, which is that of the operator. */
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
    /* cffi's handle on a weak reference to the operator in Python; the sessions that may run it own it. */
    void *python;
    int infers;
    /* Whether only one thread at a time may compute. */
    int serialize;
    /* The mutex for that; NULL without `serialize`. */
    void *lock;
    /* NULL where Python computes. */
    zrt_compute compute;
    zrt_shape shape;
    /* Without `shape`: for each output the input whose shape it has. */
    const size_t *shaped_like;
    void *user_data;
} zrt_op;

/* A node's kernel. */
typedef struct zrt_kernel {
    const zrt_op *op;
    /* cffi's handle on the Python object of this kernel, and the handle that owns it. */
    void *python;
    zrt_handle *kept;
} zrt_kernel;

/* The kernel of a standard operator, which a custom kernel calls. It must be released before that kernel's session. */
typedef struct zrt_standard {
    const OrtApi *api;
    /* NULL before and after. */
    OrtOp *op;
} zrt_standard;

/* Fills the table; call it when the description is complete, and again in the child of a fork, for another lock in the
   place of one that a thread of the parent may hold. Returns 0, or -1 without memory. */
int zrt_op_complete(zrt_op *op);

/* A zrt_release. */
void zrt_op_free(void *op);

/* Has ORT allocate an output and describes it; returns 0 or the address of a status. An output that the model does not
   use has element type 0. */
uintptr_t zrt_op_output(const OrtApi *api, OrtKernelContext *context, size_t index, const int64_t *shape, size_t rank,
    zrt_op_tensor *tensor);

/* Describes the tensor of a value; all zeros for an absent value, NULL. */
OrtStatus *zrt_op_describe(const OrtApi *api, OrtValue *value, zrt_op_tensor *tensor);

/* Releases the kernel; harmless when called again, thread-safe. */
void zrt_standard_end(void *standard);
void zrt_standard_free(void *standard);

/* Runs ORT's parallel loop over [0, count) in `batches` (0: ORT chooses) on the session's threads, each turn in Python.
   Returns when all turns have ended. */
OrtStatus *zrt_parallel_for(
    const OrtApi *api, const OrtKernelContext *context, size_t count, size_t batches, void *job);

/* The interpreter ends: operators do not call Python from now on. */
void zrt_ops_end(void);
