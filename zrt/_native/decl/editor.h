struct OrtModelEditorApi {
    OrtStatusPtr (*CreateTensorTypeInfo)(const OrtTensorTypeAndShapeInfo *, OrtTypeInfo **);
    OrtStatusPtr (*CreateSparseTensorTypeInfo)(const OrtTensorTypeAndShapeInfo *, OrtTypeInfo **);
    OrtStatusPtr (*CreateMapTypeInfo)(ONNXTensorElementDataType, const OrtTypeInfo *, OrtTypeInfo **);
    OrtStatusPtr (*CreateSequenceTypeInfo)(const OrtTypeInfo *, OrtTypeInfo **);
    OrtStatusPtr (*CreateOptionalTypeInfo)(const OrtTypeInfo *, OrtTypeInfo **);
    OrtStatusPtr (*CreateValueInfo)(const char *, const OrtTypeInfo *, OrtValueInfo **);
    OrtStatusPtr (*CreateNode)(const char *, const char *, const char *, const char *const *, size_t,
        const char *const *, size_t, OrtOpAttr **, size_t, OrtNode **);
    OrtStatusPtr (*CreateGraph)(OrtGraph **);
    OrtStatusPtr (*SetGraphInputs)(OrtGraph *, OrtValueInfo **, size_t);
    OrtStatusPtr (*SetGraphOutputs)(OrtGraph *, OrtValueInfo **, size_t);
    OrtStatusPtr (*AddInitializerToGraph)(OrtGraph *, const char *, const OrtValue *, bool);
    OrtStatusPtr (*AddNodeToGraph)(OrtGraph *, OrtNode *);
    OrtStatusPtr (*CreateModel)(const char *const *, const int *, size_t, OrtModel **);
    OrtStatusPtr (*AddGraphToModel)(OrtModel *, OrtGraph *);
    OrtStatusPtr (*CreateSessionFromModel)(const OrtEnv *, const OrtModel *, const OrtSessionOptions *, OrtSession **);
    OrtStatusPtr (*CreateModelEditorSession)(const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **);
    OrtStatusPtr (*CreateModelEditorSessionFromArray)(
        const OrtEnv *, const void *, size_t, const OrtSessionOptions *, OrtSession **);
    OrtStatusPtr (*SessionGetOpsetForDomain)(const OrtSession *, const char *, int *);
    OrtStatusPtr (*ApplyModelToModelEditorSession)(OrtSession *, OrtModel *);
    OrtStatusPtr (*FinalizeModelEditorSession)(OrtSession *, const OrtSessionOptions *, OrtPrepackedWeightsContainer *);
};
