/* A small but complete execution provider, in a library of its own. It negates float32 tensors. Its device memory is
   host memory that it declares as a device's, so that the tests of devices run on any machine. */
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define NAME "ZrtTestProvider"
#define PREFIX "ep.zrttestprovider."
#define VENDOR_ID 0x5a52
#define VERSION 27
#define GRAPHS 8
/* The name of its device's memory. */
#ifndef MEMORY
#define MEMORY "ZrtTest"
#endif

static const OrtApi *api;
static const plugin_api *ep_api;

typedef struct {
    plugin_factory base;
    OrtMemoryInfo *memory, *host_memory;
    OrtHardwareDevice *npu;
    plugin_transfer transfer;
    /* Set if the library is registered as "spoiled": it offers devices, but allocating their memory fails. */
    int spoiled;
    /* Whether graphics interop is initialized. */
    int graphics;
} factory;

typedef struct {
    plugin_ep base;
    int claims, captures;
    /* For `zrt.compile`: whether the session compiles, whether the model embeds the compiled form, the model's path. */
    int contexts, embed;
    char path[1024];
    /* For each captured run: its input, its output, the number of elements. */
    struct graph {
        int captured, id;
        const float *from;
        float *to;
        size_t count;
    } graphs[GRAPHS];
    const float *from;
    float *to;
    size_t count;
} provider;

typedef struct {
    plugin_compute base;
    provider *ep;
} compute;

/* `handle` points at the counts of the stream's copies and runs, in this order. */
typedef struct {
    plugin_stream base;
    int64_t counts[2];
} stream;

typedef struct {
    OrtAllocator base;
    const OrtMemoryInfo *memory;
    int64_t allocs;
} allocator;

/* Notifications: every operation here is synchronous, so that there is nothing to wait for. */

static void notification_release(plugin_notification *self) {
    free(self);
}
static OrtStatus *notification_activate(plugin_notification *self) {
    (void)self;
    return NULL;
}
static OrtStatus *notification_wait(plugin_notification *self, OrtSyncStream *consumer) {
    (void)self, (void)consumer;
    return NULL;
}

static void stream_release(plugin_stream *self) {
    free(self);
}
static void *stream_handle(plugin_stream *self) {
    return ((stream *)self)->counts;
}
static OrtStatus *stream_notification(plugin_stream *self, plugin_notification **made) {
    (void)self;
    plugin_notification *notification = calloc(1, sizeof *notification);
    notification->ort_version_supported = VERSION;
    notification->Release = notification_release;
    notification->Activate = notification_activate;
    notification->WaitOnDevice = notification_wait;
    notification->WaitOnHost = notification_activate;
    *made = notification;
    return NULL;
}
static OrtStatus *stream_flush(plugin_stream *self) {
    (void)self;
    return NULL;
}
static OrtStatus *stream_run_end(plugin_stream *self) {
    ((stream *)self)->counts[1]++;
    return NULL;
}

static OrtStatus *factory_stream(
    plugin_factory *self, const OrtMemoryDevice *device, const OrtKeyValuePairs *options, plugin_stream **made) {
    (void)self, (void)device;
    if (options != NULL && api->GetKeyValue(options, "refuse") != NULL)
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "the test provider was told to refuse the stream");
    stream *fresh = calloc(1, sizeof *fresh);
    fresh->base =
        (plugin_stream){VERSION, stream_release, stream_handle, stream_notification, stream_flush, stream_run_end};
    *made = &fresh->base;
    return NULL;
}

/* Memory. */

static void *allocator_alloc(OrtAllocator *self, size_t size) {
    __atomic_fetch_add(&((allocator *)self)->allocs, 1, __ATOMIC_RELAXED);
    return malloc(size ? size : 1);
}
static void allocator_free(OrtAllocator *self, void *data) {
    (void)self;
    free(data);
}
static const OrtMemoryInfo *allocator_info(const OrtAllocator *self) {
    return ((const allocator *)self)->memory;
}
static OrtStatus *allocator_stats(const OrtAllocator *self, OrtKeyValuePairs **stats) {
    char text[24];
    snprintf(
        text, sizeof text, "%lld", (long long)__atomic_load_n(&((const allocator *)self)->allocs, __ATOMIC_RELAXED));
    api->CreateKeyValuePairs(stats);
    api->AddKeyValuePair(*stats, "NumAllocs", text);
    return NULL;
}

static OrtStatus *factory_allocator(
    plugin_factory *self, const OrtMemoryInfo *memory, const OrtKeyValuePairs *options, OrtAllocator **made) {
    if (((factory *)self)->spoiled)
        return api->CreateStatus(ORT_FAIL, "the test provider was told to have no memory");
    if (options != NULL && api->GetKeyValue(options, "refuse") != NULL)
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "the test provider was told to refuse the allocator");
    allocator *fresh = calloc(1, sizeof *fresh);
    fresh->base.version = VERSION;
    fresh->base.Alloc = allocator_alloc;
    fresh->base.Free = allocator_free;
    fresh->base.Info = allocator_info;
    /* Only the allocator of the device's own memory keeps counters. */
    fresh->base.GetStats = memory == ((factory *)self)->memory ? allocator_stats : NULL;
    fresh->memory = memory;
    *made = &fresh->base;
    return NULL;
}
static void factory_release_allocator(plugin_factory *self, OrtAllocator *gone) {
    (void)self;
    free(gone);
}

static void transfer_release(plugin_transfer *self) {
    (void)self;
}
static bool transfer_can(const plugin_transfer *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to) {
    (void)self;
    /* From the host to the device, back, and within it. */
    return ep_api->MemoryDevice_GetVendorId(from) == VENDOR_ID || ep_api->MemoryDevice_GetVendorId(to) == VENDOR_ID;
}
static OrtStatus *transfer_copy(
    plugin_transfer *self, const OrtValue **from, OrtValue **to, OrtSyncStream **streams, size_t count) {
    (void)self;
    for (size_t i = 0; i < count; i++) {
        const void *source;
        void *target;
        size_t size;
        RETURN_IF_FAILED(api->GetTensorData(from[i], &source));
        RETURN_IF_FAILED(api->GetTensorMutableData(to[i], &target));
        RETURN_IF_FAILED(api->GetTensorSizeInBytes(from[i], &size));
        memcpy(target, source, size);
        if (streams != NULL && streams[i] != NULL)
            ((int64_t *)api->SyncStream_GetHandle(streams[i]))[0]++;
    }
    return NULL;
}
static OrtStatus *factory_transfer(plugin_factory *self, plugin_transfer **made) {
    *made = &((factory *)self)->transfer;
    return NULL;
}

/* External memory and semaphores are files that are mapped: a tensor's bytes, and a counter of 64 bits. */

typedef struct {
    plugin_importer base;
    const OrtEpDevice *device;
    factory *made;
} importer;
typedef struct {
    plugin_memory base;
    void *data;
} shared_memory;
typedef struct {
    plugin_semaphore base;
    uint64_t *count;
} shared_semaphore;

static void *map(void *handle, size_t size) {
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)(intptr_t)handle, 0);
    return data == MAP_FAILED ? NULL : data;
}

static bool importer_memory(const plugin_importer *self, OrtExternalMemoryHandleType type) {
    (void)self;
    return type == ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD;
}
static void memory_release(OrtExternalMemoryHandle *self) {
    shared_memory *memory = (shared_memory *)self;
    munmap(memory->data, memory->base.descriptor.size_bytes);
    free(memory);
}
static OrtStatus *importer_import(
    plugin_importer *self, const OrtExternalMemoryDescriptor *descriptor, OrtExternalMemoryHandle **made) {
    void *data = map(descriptor->native_handle, descriptor->size_bytes);
    if (data == NULL)
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "the test provider cannot map that");
    shared_memory *memory = calloc(1, sizeof *memory);
    memory->base = (plugin_memory){VERSION, ((importer *)self)->device, *descriptor, memory_release};
    memory->data = data;
    *made = (OrtExternalMemoryHandle *)memory;
    return NULL;
}
static OrtStatus *importer_tensor(plugin_importer *self, const OrtExternalMemoryHandle *memory,
    const OrtExternalTensorDescriptor *descriptor, OrtValue **tensor) {
    const shared_memory *shared = (const shared_memory *)memory;
    size_t offset = shared->base.descriptor.offset_bytes + descriptor->offset_bytes;
    return api->CreateTensorWithDataAsOrtValue(((importer *)self)->made->memory, (char *)shared->data + offset,
        shared->base.descriptor.size_bytes - offset, descriptor->shape, descriptor->rank, descriptor->element_type,
        tensor);
}

static bool importer_semaphore(const plugin_importer *self, OrtExternalSemaphoreType type) {
    (void)self;
    return type == ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD;
}
static void semaphore_release(OrtExternalSemaphoreHandle *self) {
    munmap(((shared_semaphore *)self)->count, sizeof(uint64_t));
    free(self);
}
static OrtStatus *importer_import_semaphore(
    plugin_importer *self, const OrtExternalSemaphoreDescriptor *descriptor, OrtExternalSemaphoreHandle **made) {
    uint64_t *count = map(descriptor->native_handle, sizeof *count);
    if (count == NULL)
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "the test provider cannot map that");
    shared_semaphore *semaphore = calloc(1, sizeof *semaphore);
    semaphore->base = (plugin_semaphore){VERSION, ((importer *)self)->device, *descriptor, semaphore_release};
    semaphore->count = count;
    *made = (OrtExternalSemaphoreHandle *)semaphore;
    return NULL;
}
static OrtStatus *importer_wait(
    plugin_importer *self, OrtExternalSemaphoreHandle *semaphore, OrtSyncStream *stream, uint64_t value) {
    (void)self, (void)stream;
    return *((shared_semaphore *)semaphore)->count >= value
               ? NULL
               : api->CreateStatus(ORT_FAIL, "the test provider does not wait");
}
static OrtStatus *importer_signal(
    plugin_importer *self, OrtExternalSemaphoreHandle *semaphore, OrtSyncStream *stream, uint64_t value) {
    (void)self, (void)stream;
    *((shared_semaphore *)semaphore)->count = value;
    return NULL;
}
static void importer_release(plugin_importer *self) {
    free(self);
}

static OrtStatus *factory_importer(plugin_factory *self, const OrtEpDevice *device, plugin_importer **made) {
    /* The NPU has no importer. */
    if (api->HardwareDevice_Type(api->EpDevice_Device(device)) == OrtHardwareDeviceType_NPU)
        return NULL;
    importer *fresh = calloc(1, sizeof *fresh);
    fresh->base = (plugin_importer){VERSION, importer_memory, importer_import, NULL, importer_tensor,
        importer_semaphore, importer_import_semaphore, NULL, importer_wait, importer_signal, importer_release};
    fresh->device = device;
    fresh->made = (factory *)self;
    *made = &fresh->base;
    return NULL;
}

static OrtStatus *factory_graphics(
    plugin_factory *self, const OrtEpDevice *device, const OrtGraphicsInteropConfig *config) {
    (void)device;
    if (config->graphics_api != ORT_GRAPHICS_API_VULKAN || config->additional_options == NULL ||
        api->GetKeyValue(config->additional_options, "queue") == NULL)
        return api->CreateStatus(ORT_INVALID_ARGUMENT, "the test provider knows Vulkan alone, with a queue");
    ((factory *)self)->graphics = 1;
    return NULL;
}
static OrtStatus *factory_no_graphics(plugin_factory *self, const OrtEpDevice *device) {
    (void)device;
    if (!((factory *)self)->graphics)
        return api->CreateStatus(ORT_FAIL, "the test provider has no graphics interop to end");
    ((factory *)self)->graphics = 0;
    return NULL;
}

/* The provider: claims every Neg node and every EPContext node (a Neg compiled earlier), each as its own kernel. */

static const char *ep_name(const plugin_ep *self) {
    (void)self;
    return NAME;
}

static OrtStatus *ep_capability(plugin_ep *self, const OrtGraph *graph, OrtEpGraphSupportInfo *info) {
    size_t count;
    if (!((provider *)self)->claims)
        return NULL;
    RETURN_IF_FAILED(api->Graph_GetNumNodes(graph, &count));
    const OrtNode **nodes = calloc(count + 1, sizeof *nodes);
    OrtStatus *status = api->Graph_GetNodes(graph, nodes, count);
    for (size_t i = 0; status == NULL && i < count; i++) {
        const char *type;
        status = api->Node_GetOperatorType(nodes[i], &type);
        if (status == NULL && (strcmp(type, "Neg") == 0 || strcmp(type, "EPContext") == 0))
            status = ep_api->EpGraphSupportInfo_AddNodesToFuse(info, &nodes[i], 1, NULL);
    }
    free(nodes);
    return status;
}

static OrtStatus *compute_state(plugin_compute *self, OrtNodeComputeContext *context, void **state) {
    (void)context;
    *state = self;
    return NULL;
}
static void compute_release_state(plugin_compute *self, void *state) {
    (void)self, (void)state;
}

static void negate(const float *from, float *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = -from[i];
}

static OrtStatus *compute_run(plugin_compute *self, void *state, OrtKernelContext *context) {
    (void)state;
    provider *ep = ((compute *)self)->ep;
    const OrtValue *input;
    OrtValue *output;
    const void *from;
    void *to;
    ONNXTensorElementDataType type;
    const int64_t *dims;
    size_t rank, count = 1;
    RETURN_IF_FAILED(api->KernelContext_GetInput(context, 0, &input));
    RETURN_IF_FAILED(api->GetTensorElementTypeAndShapeDataReference(input, &type, &dims, &rank));
    RETURN_IF_FAILED(api->KernelContext_GetOutput(context, 0, dims, rank, &output));
    RETURN_IF_FAILED(api->GetTensorData(input, &from));
    RETURN_IF_FAILED(api->GetTensorMutableData(output, &to));
    for (size_t i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    negate(from, to, count);
    ep->from = from, ep->to = to, ep->count = count;
    return NULL;
}

/* The compiled form is the word "negate": inside the node, or in a file that is named after the model and the node. */
static OrtStatus *make_context(const provider *ep, const OrtNode *fused, OrtNode **made) {
    const OrtModelEditorApi *editor = api->GetModelEditorApi();
    const OrtValueInfo *input, *output;
    const char *name, *from, *to, *content = "negate";
    char file[1200];
    int64_t embed = ep->embed, main = 1;
    OrtOpAttr *attributes[4];
    RETURN_IF_FAILED(api->Node_GetName(fused, &name));
    RETURN_IF_FAILED(api->Node_GetInputs(fused, &input, 1));
    RETURN_IF_FAILED(api->Node_GetOutputs(fused, &output, 1));
    RETURN_IF_FAILED(api->GetValueInfoName(input, &from));
    RETURN_IF_FAILED(api->GetValueInfoName(output, &to));
    if (!ep->embed) {
        snprintf(file, sizeof file, "%s_%s.bin", ep->path, name);
        FILE *stream = fopen(file, "w");
        if (stream == NULL)
            return api->CreateStatus(ORT_EP_FAIL, "the test provider cannot write what it compiled");
        fputs(content, stream);
        fclose(stream);
        content = strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file;
    }
    RETURN_IF_FAILED(
        api->CreateOpAttr("ep_cache_context", content, (int)strlen(content), ORT_OP_ATTR_STRING, &attributes[0]));
    RETURN_IF_FAILED(api->CreateOpAttr("embed_mode", &embed, 1, ORT_OP_ATTR_INT, &attributes[1]));
    RETURN_IF_FAILED(api->CreateOpAttr("main_context", &main, 1, ORT_OP_ATTR_INT, &attributes[2]));
    RETURN_IF_FAILED(api->CreateOpAttr("source", NAME, sizeof NAME - 1, ORT_OP_ATTR_STRING, &attributes[3]));
    return editor->CreateNode("EPContext", "com.microsoft", name, &from, 1, &to, 1, attributes, 4, made);
}

static OrtStatus *ep_compile(plugin_ep *self, const OrtGraph **graphs, const OrtNode **nodes, size_t count,
    plugin_compute **computes, OrtNode **context_nodes) {
    (void)graphs;
    for (size_t i = 0; i < count; i++) {
        if (((provider *)self)->contexts)
            RETURN_IF_FAILED(make_context((provider *)self, nodes[i], &context_nodes[i]));
        compute *fresh = calloc(1, sizeof *fresh);
        fresh->base = (plugin_compute){VERSION, compute_state, compute_run, compute_release_state};
        fresh->ep = (provider *)self;
        computes[i] = &fresh->base;
    }
    return NULL;
}
static void ep_release_computes(plugin_ep *self, plugin_compute **computes, size_t count) {
    (void)self;
    for (size_t i = 0; i < count; i++)
        free(computes[i]);
}

static OrtStatus *ep_dynamic(plugin_ep *self, const char *const *keys, const char *const *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i], "ep.dynamic.capture") != 0)
            return api->CreateStatus(ORT_INVALID_ARGUMENT, "the test provider knows ep.dynamic.capture alone");
        else
            ((provider *)self)->captures = strcmp(values[i], "1") == 0;
    return NULL;
}

/* Captured graphs: the addresses of a run, negated again at each replay. */

static bool ep_captures(const plugin_ep *self) {
    return ((const provider *)self)->captures;
}
static struct graph *find(const provider *ep, int id) {
    for (size_t i = 0; i < GRAPHS; i++)
        if (ep->graphs[i].captured && ep->graphs[i].id == id)
            return (struct graph *)&ep->graphs[i];
    return NULL;
}
static bool ep_captured(const plugin_ep *self, int id) {
    return find((const provider *)self, id) != NULL;
}
static OrtStatus *ep_run_end(plugin_ep *self, const OrtRunOptions *options, bool synchronize) {
    (void)synchronize;
    provider *ep = (provider *)self;
    const char *text = api->GetRunConfigEntry(options, "gpu_graph_id");
    int id = text != NULL ? atoi(text) : 0;
    for (size_t i = 0; ep->captures && id >= 0 && find(ep, id) == NULL && i < GRAPHS; i++)
        if (!ep->graphs[i].captured)
            ep->graphs[i] = (struct graph){1, id, ep->from, ep->to, ep->count};
    return NULL;
}
static OrtStatus *ep_replay(plugin_ep *self, int id) {
    const struct graph *graph = find((provider *)self, id);
    negate(graph->from, graph->to, graph->count);
    return NULL;
}
static OrtStatus *ep_release_graph(plugin_ep *self, int id) {
    struct graph *graph = find((provider *)self, id);
    if (graph == NULL)
        return api->CreateStatus(ORT_NOT_FOUND, "the test provider has captured no such graph");
    graph->captured = 0;
    return NULL;
}

static int option(const OrtSessionOptions *options, const char *key, int otherwise) {
    char text[16];
    size_t size = sizeof text;
    int there = 0;
    if (api->HasSessionConfigEntry(options, key, &there) != NULL || !there)
        return otherwise;
    return api->GetSessionConfigEntry(options, key, text, &size) == NULL ? atoi(text) : otherwise;
}

static void text_option(const OrtSessionOptions *options, const char *key, char *text, size_t size) {
    int there = 0;
    if (api->HasSessionConfigEntry(options, key, &there) != NULL || !there ||
        api->GetSessionConfigEntry(options, key, text, &size) != NULL)
        *text = 0;
}

static OrtStatus *factory_ep(plugin_factory *self, const OrtHardwareDevice *const *devices,
    const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options, const OrtLogger *logger,
    plugin_ep **made) {
    (void)self, (void)devices, (void)metadata, (void)count, (void)logger;
    if (option(options, PREFIX "refuse", 0))
        return api->CreateStatus(ORT_EP_FAIL, "the test provider was told to refuse the session");
    provider *ep = calloc(1, sizeof *ep);
    ep->claims = option(options, PREFIX "claim", 1);
    ep->captures = option(options, PREFIX "enable_cuda_graph", 0);
    ep->contexts = option(options, "ep.context_enable", 0);
    ep->embed = option(options, "ep.context_embed_mode", 0);
    text_option(options, "ep.context_file_path", ep->path, sizeof ep->path);
    ep->base.ort_version_supported = VERSION;
    ep->base.GetName = ep_name;
    ep->base.GetCapability = ep_capability;
    ep->base.Compile = ep_compile;
    ep->base.ReleaseNodeComputeInfos = ep_release_computes;
    ep->base.SetDynamicOptions = ep_dynamic;
    ep->base.OnRunEnd = ep_run_end;
    ep->base.IsGraphCaptureEnabled = ep_captures;
    ep->base.IsGraphCaptured = ep_captured;
    ep->base.ReplayGraph = ep_replay;
    ep->base.ReleaseCapturedGraph = ep_release_graph;
    *made = &ep->base;
    return NULL;
}
static void factory_release_ep(plugin_factory *self, plugin_ep *ep) {
    (void)self;
    free(ep);
}

/* The factory: a device on the CPU, with memory of its own, and one on a simulated NPU, without. */

static const char *factory_name(const plugin_factory *self) {
    (void)self;
    return NAME;
}
static const char *factory_vendor(const plugin_factory *self) {
    (void)self;
    return "the tests";
}
static uint32_t factory_vendor_id(const plugin_factory *self) {
    (void)self;
    return VENDOR_ID;
}
static const char *factory_version(const plugin_factory *self) {
    (void)self;
    return "1.2.3";
}
static bool factory_streams(const plugin_factory *self) {
    (void)self;
    return true;
}

static OrtStatus *factory_devices(plugin_factory *self, const OrtHardwareDevice *const *devices, size_t count,
    OrtEpDevice **ep_devices, size_t room, size_t *ep_count) {
    factory *made = (factory *)self;
    const OrtHardwareDevice *processor = NULL;
    for (size_t i = 0; i < count; i++)
        if (api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU)
            processor = devices[i];
    *ep_count = 0;
    if (processor == NULL || room < 2)
        return NULL;
    OrtKeyValuePairs *metadata, *options;
    api->CreateKeyValuePairs(&metadata);
    api->CreateKeyValuePairs(&options);
    api->AddKeyValuePair(metadata, "flavour", "test");
    api->AddKeyValuePair(options, "claim", "1");
    OrtStatus *status = ep_api->CreateEpDevice(&made->base, processor, metadata, options, &ep_devices[0]);
    if (status == NULL) {
        *ep_count = 1;
        status = ep_api->EpDevice_AddAllocatorInfo(ep_devices[0], made->memory);
    }
    if (status == NULL)
        status = ep_api->EpDevice_AddAllocatorInfo(ep_devices[0], made->host_memory);
    if (status == NULL)
        status = ep_api->CreateEpDevice(&made->base, made->npu, NULL, NULL, &ep_devices[1]);
    if (status == NULL)
        *ep_count = 2;
    api->ReleaseKeyValuePairs(metadata);
    api->ReleaseKeyValuePairs(options);
    return status;
}

static OrtStatus *factory_incompatibility(
    plugin_factory *self, const OrtHardwareDevice *hardware, OrtDeviceEpIncompatibilityDetails *details) {
    if (hardware != ((factory *)self)->npu)
        return NULL;
    return ep_api->DeviceEpIncompatibilityDetails_SetDetails(details,
        OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE | OrtDeviceEpIncompatibility_MISSING_DEPENDENCY, 7,
        "the NPU is made up");
}

EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
    plugin_factory **factories, size_t room, size_t *count) {
    (void)logger;
    *count = 0;
    api = base->GetApi(VERSION);
    if (api == NULL || room == 0)
        return NULL;
    if (strcmp(name, "refused") == 0)
        return api->CreateStatus(ORT_EP_FAIL, "the test provider was told to refuse");
    ep_api = (const plugin_api *)api->GetEpApi();
    factory *made = calloc(1, sizeof *made);
    made->spoiled = strcmp(name, "spoiled") == 0;
    made->transfer = (plugin_transfer){VERSION, transfer_release, transfer_can, transfer_copy};
    made->base.ort_version_supported = VERSION;
    made->base.GetName = factory_name;
    made->base.GetVendor = factory_vendor;
    made->base.GetVendorId = factory_vendor_id;
    made->base.GetVersion = factory_version;
    made->base.GetSupportedDevices = factory_devices;
    made->base.CreateEp = factory_ep;
    made->base.ReleaseEp = factory_release_ep;
    made->base.CreateAllocator = factory_allocator;
    made->base.ReleaseAllocator = factory_release_allocator;
    made->base.CreateDataTransfer = factory_transfer;
    made->base.IsStreamAware = factory_streams;
    made->base.CreateSyncStreamForDevice = factory_stream;
    made->base.GetHardwareDeviceIncompatibilityDetails = factory_incompatibility;
    made->base.CreateExternalResourceImporterForDevice = factory_importer;
    made->base.InitGraphicsInterop = factory_graphics;
    made->base.DeinitGraphicsInterop = factory_no_graphics;
    RETURN_IF_FAILED(api->CreateMemoryInfo_V2(MEMORY, OrtMemoryInfoDeviceType_GPU, VENDOR_ID, 0,
        OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &made->memory));
    RETURN_IF_FAILED(api->CreateMemoryInfo_V2("ZrtTestHost", OrtMemoryInfoDeviceType_GPU, VENDOR_ID, 0,
        OrtDeviceMemoryType_HOST_ACCESSIBLE, 0, OrtDeviceAllocator, &made->host_memory));
    RETURN_IF_FAILED(
        ep_api->CreateHardwareDevice(OrtHardwareDeviceType_NPU, VENDOR_ID, 3, "the tests", NULL, &made->npu));
    factories[0] = &made->base;
    *count = 1;
    return NULL;
}

EXPORT OrtStatus *ReleaseEpFactory(plugin_factory *gone) {
    factory *made = (factory *)gone;
    api->ReleaseMemoryInfo(made->memory);
    api->ReleaseMemoryInfo(made->host_memory);
    ep_api->ReleaseHardwareDevice(made->npu);
    free(made);
    return NULL;
}
