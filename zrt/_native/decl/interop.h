typedef enum OrtExternalMemoryHandleType {
    ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE = 0,
    ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP = 1,
    ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32 = 2,
    ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD = 3
} OrtExternalMemoryHandleType;

typedef struct OrtExternalMemoryDescriptor {
    uint32_t version;
    OrtExternalMemoryHandleType handle_type;
    void *native_handle;
    size_t size_bytes;
    size_t offset_bytes;
} OrtExternalMemoryDescriptor;

typedef enum OrtExternalSemaphoreType {
    ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE = 0,
    ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_WIN32 = 1,
    ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD = 2
} OrtExternalSemaphoreType;

typedef struct OrtExternalSemaphoreDescriptor {
    uint32_t version;
    OrtExternalSemaphoreType type;
    void *native_handle;
} OrtExternalSemaphoreDescriptor;

typedef enum OrtGraphicsApi {
    ORT_GRAPHICS_API_NONE = 0,
    ORT_GRAPHICS_API_D3D12 = 1,
    ORT_GRAPHICS_API_VULKAN = 2
} OrtGraphicsApi;

typedef struct OrtGraphicsInteropConfig {
    uint32_t version;
    OrtGraphicsApi graphics_api;
    void *command_queue;
    const OrtKeyValuePairs *additional_options;
} OrtGraphicsInteropConfig;

typedef struct OrtExternalTensorDescriptor {
    uint32_t version;
    ONNXTensorElementDataType element_type;
    const int64_t *shape;
    size_t rank;
    size_t offset_bytes;
} OrtExternalTensorDescriptor;

struct OrtInteropApi {
    OrtStatusPtr (*CreateExternalResourceImporterForDevice)(
        const OrtEpDevice *device, OrtExternalResourceImporter **out);
    void (*ReleaseExternalResourceImporter)(OrtExternalResourceImporter *importer);
    OrtStatusPtr (*CanImportMemory)(
        const OrtExternalResourceImporter *importer, OrtExternalMemoryHandleType type, bool *out);
    OrtStatusPtr (*ImportMemory)(OrtExternalResourceImporter *importer, const OrtExternalMemoryDescriptor *descriptor,
        OrtExternalMemoryHandle **out);
    void (*ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle *handle);
    OrtStatusPtr (*CreateTensorFromMemory)(OrtExternalResourceImporter *importer, const OrtExternalMemoryHandle *handle,
        const OrtExternalTensorDescriptor *descriptor, OrtValue **out);
    OrtStatusPtr (*CanImportSemaphore)(
        const OrtExternalResourceImporter *importer, OrtExternalSemaphoreType type, bool *out);
    OrtStatusPtr (*ImportSemaphore)(OrtExternalResourceImporter *importer,
        const OrtExternalSemaphoreDescriptor *descriptor, OrtExternalSemaphoreHandle **out);
    void (*ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle *semaphore);
    OrtStatusPtr (*WaitSemaphore)(OrtExternalResourceImporter *importer, OrtExternalSemaphoreHandle *semaphore,
        OrtSyncStream *stream, uint64_t number);
    OrtStatusPtr (*SignalSemaphore)(OrtExternalResourceImporter *importer, OrtExternalSemaphoreHandle *semaphore,
        OrtSyncStream *stream, uint64_t number);
    OrtStatusPtr (*InitGraphicsInteropForEpDevice)(const OrtEpDevice *device, const OrtGraphicsInteropConfig *config);
    OrtStatusPtr (*DeinitGraphicsInteropForEpDevice)(const OrtEpDevice *device);
};
