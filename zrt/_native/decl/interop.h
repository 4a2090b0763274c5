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
    OrtStatusPtr (*CreateExternalResourceImporterForDevice)(const OrtEpDevice *, OrtExternalResourceImporter **);
    void (*ReleaseExternalResourceImporter)(OrtExternalResourceImporter *);
    OrtStatusPtr (*CanImportMemory)(const OrtExternalResourceImporter *, OrtExternalMemoryHandleType, bool *);
    OrtStatusPtr (*ImportMemory)(
        OrtExternalResourceImporter *, const OrtExternalMemoryDescriptor *, OrtExternalMemoryHandle **);
    void (*ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle *);
    OrtStatusPtr (*CreateTensorFromMemory)(OrtExternalResourceImporter *, const OrtExternalMemoryHandle *,
        const OrtExternalTensorDescriptor *, OrtValue **);
    OrtStatusPtr (*CanImportSemaphore)(const OrtExternalResourceImporter *, OrtExternalSemaphoreType, bool *);
    OrtStatusPtr (*ImportSemaphore)(
        OrtExternalResourceImporter *, const OrtExternalSemaphoreDescriptor *, OrtExternalSemaphoreHandle **);
    void (*ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle *);
    OrtStatusPtr (*WaitSemaphore)(
        OrtExternalResourceImporter *, OrtExternalSemaphoreHandle *, OrtSyncStream *, uint64_t);
    OrtStatusPtr (*SignalSemaphore)(
        OrtExternalResourceImporter *, OrtExternalSemaphoreHandle *, OrtSyncStream *, uint64_t);
    OrtStatusPtr (*InitGraphicsInteropForEpDevice)(const OrtEpDevice *, const OrtGraphicsInteropConfig *);
    OrtStatusPtr (*DeinitGraphicsInteropForEpDevice)(const OrtEpDevice *);
};
