/* The interface between an execution provider's library and ONNX Runtime 1.27, as far as plugin.c needs it: each table
   up to the last member that is used, in the order of the official onnxruntime_ep_c_api.h. A build with ZRT_EXACT
   checks it against that header. */
#pragma once
#include <stddef.h>
#include "ort.h"

struct plugin_factory;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeFusionOptions OrtNodeFusionOptions;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtMemoryDevice OrtMemoryDevice;

typedef struct plugin_api {
    OrtStatus *(*CreateEpDevice)(struct plugin_factory *factory, const OrtHardwareDevice *hardware,
        const OrtKeyValuePairs *metadata, const OrtKeyValuePairs *options, OrtEpDevice **device);
    void (*ReleaseEpDevice)(OrtEpDevice *device);
    OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(
        OrtEpGraphSupportInfo *info, const OrtNode *const *nodes, size_t count, const OrtNodeFusionOptions *options);
    void *single_node, *node_name;
    OrtStatus *(*EpDevice_AddAllocatorInfo)(OrtEpDevice *device, const OrtMemoryInfo *memory);
    void *memory_devices[5];
    uint32_t (*MemoryDevice_GetVendorId)(const OrtMemoryDevice *device);
    void *memory_device_id, *streams[3];
    OrtStatus *(*CreateHardwareDevice)(OrtHardwareDeviceType type, uint32_t vendor_id, uint32_t device_id,
        const char *vendor, const OrtKeyValuePairs *metadata, OrtHardwareDevice **device);
    void (*ReleaseHardwareDevice)(OrtHardwareDevice *device);
    void *kernels[26];
    OrtStatus *(*DeviceEpIncompatibilityDetails_SetDetails)(
        OrtDeviceEpIncompatibilityDetails *details, uint32_t reasons, int32_t error_code, const char *notes);
} plugin_api;

typedef struct plugin_transfer {
    uint32_t ort_version_supported;
    void (*Release)(struct plugin_transfer *self);
    bool (*CanCopy)(const struct plugin_transfer *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to);
    OrtStatus *(*CopyTensors)(
        struct plugin_transfer *self, const OrtValue **from, OrtValue **to, OrtSyncStream **streams, size_t count);
} plugin_transfer;

typedef struct plugin_notification {
    uint32_t ort_version_supported;
    void (*Release)(struct plugin_notification *self);
    OrtStatus *(*Activate)(struct plugin_notification *self);
    OrtStatus *(*WaitOnDevice)(struct plugin_notification *self, OrtSyncStream *stream);
    OrtStatus *(*WaitOnHost)(struct plugin_notification *self);
} plugin_notification;

typedef struct plugin_stream {
    uint32_t ort_version_supported;
    void (*Release)(struct plugin_stream *self);
    void *(*GetHandle)(struct plugin_stream *self);
    OrtStatus *(*CreateNotification)(struct plugin_stream *self, plugin_notification **notification);
    OrtStatus *(*Flush)(struct plugin_stream *self);
    OrtStatus *(*OnSessionRunEnd)(struct plugin_stream *self);
} plugin_stream;

typedef struct plugin_compute {
    uint32_t ort_version_supported;
    OrtStatus *(*CreateState)(struct plugin_compute *self, OrtNodeComputeContext *context, void **state);
    OrtStatus *(*Compute)(struct plugin_compute *self, void *state, OrtKernelContext *context);
    void (*ReleaseState)(struct plugin_compute *self, void *state);
} plugin_compute;

typedef struct plugin_ep {
    uint32_t ort_version_supported;
    const char *(*GetName)(const struct plugin_ep *self);
    OrtStatus *(*GetCapability)(struct plugin_ep *self, const OrtGraph *graph, OrtEpGraphSupportInfo *info);
    OrtStatus *(*Compile)(struct plugin_ep *self, const OrtGraph **graphs, const OrtNode **nodes, size_t count,
        plugin_compute **computes, OrtNode **context_nodes);
    void (*ReleaseNodeComputeInfos)(struct plugin_ep *self, plugin_compute **computes, size_t count);
    void *layout[2];
    OrtStatus *(*SetDynamicOptions)(
        struct plugin_ep *self, const char *const *keys, const char *const *values, size_t count);
    void *OnRunStart;
    OrtStatus *(*OnRunEnd)(struct plugin_ep *self, const OrtRunOptions *options, bool synchronize);
    void *CreateAllocator, *CreateSyncStreamForDevice, *compatibility, *registry, *concurrent, *sync, *profiler;
    bool (*IsGraphCaptureEnabled)(const struct plugin_ep *self);
    bool (*IsGraphCaptured)(const struct plugin_ep *self, int id);
    OrtStatus *(*ReplayGraph)(struct plugin_ep *self, int id);
    void *policy, *resource, *initialized, *default_device;
    OrtStatus *(*ReleaseCapturedGraph)(struct plugin_ep *self, int id);
} plugin_ep;

/* The first members of an OrtExternalMemoryHandle and of an OrtExternalSemaphoreHandle. */
typedef struct plugin_memory {
    uint32_t version;
    const OrtEpDevice *device;
    OrtExternalMemoryDescriptor descriptor;
    void (*Release)(OrtExternalMemoryHandle *self);
} plugin_memory;

typedef struct plugin_semaphore {
    uint32_t version;
    const OrtEpDevice *device;
    OrtExternalSemaphoreDescriptor descriptor;
    void (*Release)(OrtExternalSemaphoreHandle *self);
} plugin_semaphore;

typedef struct plugin_importer {
    uint32_t ort_version_supported;
    bool (*CanImportMemory)(const struct plugin_importer *self, OrtExternalMemoryHandleType type);
    OrtStatus *(*ImportMemory)(
        struct plugin_importer *self, const OrtExternalMemoryDescriptor *descriptor, OrtExternalMemoryHandle **memory);
    void (*ReleaseMemory)(struct plugin_importer *self, OrtExternalMemoryHandle *memory);
    OrtStatus *(*CreateTensorFromMemory)(struct plugin_importer *self, const OrtExternalMemoryHandle *memory,
        const OrtExternalTensorDescriptor *descriptor, OrtValue **tensor);
    bool (*CanImportSemaphore)(const struct plugin_importer *self, OrtExternalSemaphoreType type);
    OrtStatus *(*ImportSemaphore)(struct plugin_importer *self, const OrtExternalSemaphoreDescriptor *descriptor,
        OrtExternalSemaphoreHandle **semaphore);
    void (*ReleaseSemaphore)(struct plugin_importer *self, OrtExternalSemaphoreHandle *semaphore);
    OrtStatus *(*WaitSemaphore)(
        struct plugin_importer *self, OrtExternalSemaphoreHandle *semaphore, OrtSyncStream *stream, uint64_t value);
    OrtStatus *(*SignalSemaphore)(
        struct plugin_importer *self, OrtExternalSemaphoreHandle *semaphore, OrtSyncStream *stream, uint64_t value);
    void (*Release)(struct plugin_importer *self);
} plugin_importer;

typedef struct plugin_factory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const struct plugin_factory *self);
    const char *(*GetVendor)(const struct plugin_factory *self);
    OrtStatus *(*GetSupportedDevices)(struct plugin_factory *self, const OrtHardwareDevice *const *devices,
        size_t count, OrtEpDevice **ep_devices, size_t room, size_t *ep_count);
    OrtStatus *(*CreateEp)(struct plugin_factory *self, const OrtHardwareDevice *const *devices,
        const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
        const OrtLogger *logger, plugin_ep **ep);
    void (*ReleaseEp)(struct plugin_factory *self, plugin_ep *ep);
    uint32_t (*GetVendorId)(const struct plugin_factory *self);
    const char *(*GetVersion)(const struct plugin_factory *self);
    void *compatibility;
    OrtStatus *(*CreateAllocator)(struct plugin_factory *self, const OrtMemoryInfo *memory,
        const OrtKeyValuePairs *options, OrtAllocator **allocator);
    void (*ReleaseAllocator)(struct plugin_factory *self, OrtAllocator *allocator);
    OrtStatus *(*CreateDataTransfer)(struct plugin_factory *self, plugin_transfer **transfer);
    bool (*IsStreamAware)(const struct plugin_factory *self);
    OrtStatus *(*CreateSyncStreamForDevice)(struct plugin_factory *self, const OrtMemoryDevice *device,
        const OrtKeyValuePairs *options, plugin_stream **stream);
    OrtStatus *(*GetHardwareDeviceIncompatibilityDetails)(
        struct plugin_factory *self, const OrtHardwareDevice *hardware, OrtDeviceEpIncompatibilityDetails *details);
    OrtStatus *(*CreateExternalResourceImporterForDevice)(
        struct plugin_factory *self, const OrtEpDevice *device, plugin_importer **importer);
    void *domains[2];
    OrtStatus *(*InitGraphicsInterop)(
        struct plugin_factory *self, const OrtEpDevice *device, const OrtGraphicsInteropConfig *config);
    OrtStatus *(*DeinitGraphicsInterop)(struct plugin_factory *self, const OrtEpDevice *device);
} plugin_factory;

#ifdef ZRT_EXACT
#define SAME(ours, theirs, member)                                                                                     \
    _Static_assert(offsetof(ours, member) == offsetof(theirs, member), #theirs "::" #member)
SAME(plugin_api, OrtEpApi, CreateEpDevice);
SAME(plugin_api, OrtEpApi, ReleaseEpDevice);
SAME(plugin_api, OrtEpApi, EpGraphSupportInfo_AddNodesToFuse);
SAME(plugin_api, OrtEpApi, EpDevice_AddAllocatorInfo);
SAME(plugin_api, OrtEpApi, MemoryDevice_GetVendorId);
SAME(plugin_api, OrtEpApi, CreateHardwareDevice);
SAME(plugin_api, OrtEpApi, ReleaseHardwareDevice);
SAME(plugin_api, OrtEpApi, DeviceEpIncompatibilityDetails_SetDetails);
SAME(plugin_transfer, OrtDataTransferImpl, Release);
SAME(plugin_transfer, OrtDataTransferImpl, CanCopy);
SAME(plugin_transfer, OrtDataTransferImpl, CopyTensors);
SAME(plugin_notification, OrtSyncNotificationImpl, Release);
SAME(plugin_notification, OrtSyncNotificationImpl, Activate);
SAME(plugin_notification, OrtSyncNotificationImpl, WaitOnDevice);
SAME(plugin_notification, OrtSyncNotificationImpl, WaitOnHost);
SAME(plugin_stream, OrtSyncStreamImpl, Release);
SAME(plugin_stream, OrtSyncStreamImpl, GetHandle);
SAME(plugin_stream, OrtSyncStreamImpl, CreateNotification);
SAME(plugin_stream, OrtSyncStreamImpl, Flush);
SAME(plugin_stream, OrtSyncStreamImpl, OnSessionRunEnd);
SAME(plugin_compute, OrtNodeComputeInfo, CreateState);
SAME(plugin_compute, OrtNodeComputeInfo, Compute);
SAME(plugin_compute, OrtNodeComputeInfo, ReleaseState);
SAME(plugin_ep, OrtEp, GetName);
SAME(plugin_ep, OrtEp, GetCapability);
SAME(plugin_ep, OrtEp, Compile);
SAME(plugin_ep, OrtEp, ReleaseNodeComputeInfos);
SAME(plugin_ep, OrtEp, SetDynamicOptions);
SAME(plugin_ep, OrtEp, OnRunEnd);
SAME(plugin_ep, OrtEp, CreateAllocator);
SAME(plugin_ep, OrtEp, CreateSyncStreamForDevice);
SAME(plugin_ep, OrtEp, IsGraphCaptureEnabled);
SAME(plugin_ep, OrtEp, IsGraphCaptured);
SAME(plugin_ep, OrtEp, ReplayGraph);
SAME(plugin_ep, OrtEp, ReleaseCapturedGraph);
_Static_assert(sizeof(plugin_ep) == sizeof(OrtEp), "OrtEp");
SAME(plugin_factory, OrtEpFactory, GetName);
SAME(plugin_factory, OrtEpFactory, GetVendor);
SAME(plugin_factory, OrtEpFactory, GetSupportedDevices);
SAME(plugin_factory, OrtEpFactory, CreateEp);
SAME(plugin_factory, OrtEpFactory, ReleaseEp);
SAME(plugin_factory, OrtEpFactory, GetVendorId);
SAME(plugin_factory, OrtEpFactory, GetVersion);
SAME(plugin_factory, OrtEpFactory, CreateAllocator);
SAME(plugin_factory, OrtEpFactory, ReleaseAllocator);
SAME(plugin_factory, OrtEpFactory, CreateDataTransfer);
SAME(plugin_factory, OrtEpFactory, IsStreamAware);
SAME(plugin_factory, OrtEpFactory, CreateSyncStreamForDevice);
SAME(plugin_factory, OrtEpFactory, GetHardwareDeviceIncompatibilityDetails);
SAME(plugin_factory, OrtEpFactory, CreateExternalResourceImporterForDevice);
SAME(plugin_factory, OrtEpFactory, InitGraphicsInterop);
SAME(plugin_factory, OrtEpFactory, DeinitGraphicsInterop);
SAME(plugin_memory, OrtExternalMemoryHandle, descriptor);
SAME(plugin_memory, OrtExternalMemoryHandle, Release);
SAME(plugin_semaphore, OrtExternalSemaphoreHandle, descriptor);
SAME(plugin_semaphore, OrtExternalSemaphoreHandle, Release);
SAME(plugin_importer, OrtExternalResourceImporterImpl, CanImportMemory);
SAME(plugin_importer, OrtExternalResourceImporterImpl, ImportMemory);
SAME(plugin_importer, OrtExternalResourceImporterImpl, CreateTensorFromMemory);
SAME(plugin_importer, OrtExternalResourceImporterImpl, CanImportSemaphore);
SAME(plugin_importer, OrtExternalResourceImporterImpl, ImportSemaphore);
SAME(plugin_importer, OrtExternalResourceImporterImpl, WaitSemaphore);
SAME(plugin_importer, OrtExternalResourceImporterImpl, SignalSemaphore);
SAME(plugin_importer, OrtExternalResourceImporterImpl, Release);
_Static_assert(sizeof(plugin_factory) == sizeof(OrtEpFactory), "OrtEpFactory");
#endif
