/* The schemas of operators, from `OrtEpApi`: which inputs and outputs have the type of which constraint. */
#pragma once

/* The slots of `OrtEpApi` up to those that zrt reads. A schema is an `OrtOpSchema` that the caller releases; a
   constraint is an `OrtOpSchemaTypeConstraint` of it, NULL for an input or output of one fixed type. */
typedef struct zrt_schema_api {
    void *before[50];
    OrtStatus *(*GetOpSchema)(const char *name, int version, const char *domain, void **schema);
    void (*ReleaseOpSchema)(void *schema);
    void *OpSchema_GetSinceVersion;
    OrtStatus *(*OpSchema_GetNumInputs)(const void *schema, size_t *count);
    void *OpSchema_GetInputName;
    OrtStatus *(*OpSchema_GetInputTypeConstraint)(const void *schema, size_t index, void **constraint);
    OrtStatus *(*OpSchema_GetNumOutputs)(const void *schema, size_t *count);
    void *OpSchema_GetOutputName;
    OrtStatus *(*OpSchema_GetOutputTypeConstraint)(const void *schema, size_t index, void **constraint);
    void *OpSchema_GetTypeConstraintCount;
    void *OpSchema_GetTypeConstraint;
    OrtStatus *(*OpSchemaTypeConstraint_GetTypeParamName)(const void *constraint, const char **name);
} zrt_schema_api;
