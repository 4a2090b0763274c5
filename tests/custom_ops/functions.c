/* Operators in C for the tests, declared as in the guide. */
#include <stddef.h>
#include <stdint.h>

typedef struct zrt_op_tensor {
    void *data;
    const int64_t *shape;
    size_t rank;
    size_t count;
    int element_type;
} zrt_op_tensor;

static int called;

int add(
    const zrt_op_tensor *inputs, size_t input_count, const zrt_op_tensor *outputs, size_t output_count, void *data) {
    const float *x = inputs[0].data, *y = inputs[1].data;
    float *z = outputs[0].data;
    for (size_t i = 0; i < outputs[0].count; i++)
        z[i] = x[i] + y[i];
    return 0;
}

/* Adds the float in `data`, if any, to the input; an optional second output gets the number of dimensions. */
int shift(
    const zrt_op_tensor *inputs, size_t input_count, const zrt_op_tensor *outputs, size_t output_count, void *data) {
    float by = data ? *(const float *)data : 0;
    for (size_t i = 0; i < outputs[0].count; i++)
        ((float *)outputs[0].data)[i] = ((const float *)inputs[0].data)[i] + by;
    if (output_count > 1 && outputs[1].data != NULL)
        *(int64_t *)outputs[1].data = (int64_t)inputs[0].rank;
    return 0;
}

int shift_shape(
    const zrt_op_tensor *inputs, size_t input_count, size_t output, int64_t *shape, size_t *rank, void *data) {
    *rank = output == 0 ? inputs[0].rank : 0;
    for (size_t i = 0; i < *rank; i++)
        shape[i] = inputs[0].shape[i];
    return 0;
}

int bad_shape(
    const zrt_op_tensor *inputs, size_t input_count, size_t output, int64_t *shape, size_t *rank, void *data) {
    *rank = 1;
    shape[0] = -5;
    return 0;
}

int no_shape(const zrt_op_tensor *inputs, size_t input_count, size_t output, int64_t *shape, size_t *rank, void *data) {
    return 1;
}

int fails(
    const zrt_op_tensor *inputs, size_t input_count, const zrt_op_tensor *outputs, size_t output_count, void *data) {
    return 42;
}

/* Counts its calls; correct only if one thread at a time runs it. */
int counts(
    const zrt_op_tensor *inputs, size_t input_count, const zrt_op_tensor *outputs, size_t output_count, void *data) {
    volatile int now = called;
    for (volatile int i = 0; i < 1000; i++)
        ;
    called = now + 1;
    *(float *)outputs[0].data = called;
    return 0;
}
