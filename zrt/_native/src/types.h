/* Reads the types that a model declares for its inputs, outputs and initializers in one call, or a single type. */
#pragma once

/* A type is the numbers
     ONNXType, the length of the denotation
   and then, for a tensor (dense or sparse),
     ONNXTensorElementDataType, rank (-1 if it is unknown), each size (-1 before the length of its name if it has none)
   or for a map
     ONNXTensorElementDataType of the keys, the type of the values
   or for a sequence or an optional
     the type of the elements or of the content.
   `texts` has the denotations and names one after another. All zeros: empty. */
typedef struct zrt_types {
    int64_t *numbers;
    size_t count;
    size_t number_capacity;
    char *texts;
    size_t size;
    size_t text_capacity;
} zrt_types;

/* Appends a type. Returns NULL for success. */
OrtStatus *zrt_types_read(const OrtApi *api, const OrtTypeInfo *type, zrt_types *types);

/* Appends the inputs, the outputs and the initializers that may be overridden: of each list the length, and for each
   value the length of its name and its type. Returns NULL for success. */
OrtStatus *zrt_types_of_session(const OrtApi *api, const OrtSession *session, zrt_types *types);

/* Frees the content. */
void zrt_types_clear(zrt_types *types);
