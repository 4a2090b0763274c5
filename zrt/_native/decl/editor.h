struct OrtModelEditorApi {
    OrtStatusPtr (*CreateTensorTypeInfo)(const OrtTensorTypeAndShapeInfo *shape_info, OrtTypeInfo **out);
    OrtStatusPtr (*CreateSparseTensorTypeInfo)(const OrtTensorTypeAndShapeInfo *shape_info, OrtTypeInfo **out);
    OrtStatusPtr (*CreateMapTypeInfo)(
        ONNXTensorElementDataType element_type, const OrtTypeInfo *type, OrtTypeInfo **out);
    OrtStatusPtr (*CreateSequenceTypeInfo)(const OrtTypeInfo *type, OrtTypeInfo **out);
    OrtStatusPtr (*CreateOptionalTypeInfo)(const OrtTypeInfo *type, OrtTypeInfo **out);
    OrtStatusPtr (*CreateValueInfo)(const char *name, const OrtTypeInfo *type, OrtValueInfo **out);
    OrtStatusPtr (*CreateNode)(const char *name1, const char *domain, const char *name2, const char *const *names1,
        size_t count1, const char *const *names2, size_t count2, OrtOpAttr **attributes, size_t count3, OrtNode **out);
    OrtStatusPtr (*CreateGraph)(OrtGraph **out);
    OrtStatusPtr (*SetGraphInputs)(OrtGraph *graph, OrtValueInfo **infos, size_t count);
    OrtStatusPtr (*SetGraphOutputs)(OrtGraph *graph, OrtValueInfo **out, size_t count);
    OrtStatusPtr (*AddInitializerToGraph)(OrtGraph *graph, const char *name, const OrtValue *value, bool enable);
    OrtStatusPtr (*AddNodeToGraph)(OrtGraph *graph, OrtNode *node);
    OrtStatusPtr (*CreateModel)(const char *const *domains, const int *numbers, size_t count, OrtModel **out);
    OrtStatusPtr (*AddGraphToModel)(OrtModel *model, OrtGraph *graph);
    OrtStatusPtr (*CreateSessionFromModel)(
        const OrtEnv *env, const OrtModel *model, const OrtSessionOptions *options, OrtSession **out);
    OrtStatusPtr (*CreateModelEditorSession)(
        const OrtEnv *env, const char *path, const OrtSessionOptions *options, OrtSession **out);
    OrtStatusPtr (*CreateModelEditorSessionFromArray)(
        const OrtEnv *env, const void *data, size_t count, const OrtSessionOptions *options, OrtSession **out);
    OrtStatusPtr (*SessionGetOpsetForDomain)(const OrtSession *session, const char *domain, int *out);
    OrtStatusPtr (*ApplyModelToModelEditorSession)(OrtSession *session, OrtModel *model);
    OrtStatusPtr (*FinalizeModelEditorSession)(
        OrtSession *session, const OrtSessionOptions *options, OrtPrepackedWeightsContainer *weights);
};
