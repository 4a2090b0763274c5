#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ort.h"
#include "library.h"
#include "later.h"
#include "schema.h"

/* In an exact build the official headers prove the slots of src/schema.h, and those of src/later.h as far as they have
   them. */
#ifdef ZRT_EXACT
#define SAME_SLOT(ours, theirs, function)                                                                              \
    _Static_assert(offsetof(ours, function) == offsetof(theirs, function), "wrong slot: " #function)
SAME_SLOT(zrt_schema_api, OrtEpApi, GetOpSchema);
SAME_SLOT(zrt_schema_api, OrtEpApi, OpSchemaTypeConstraint_GetTypeParamName);
#if ORT_API_VERSION >= 29
SAME_SLOT(zrt_later_api, OrtApi, SessionOptionsSetWeightlessSourceModelBuffer);
SAME_SLOT(zrt_later_compile_api, OrtCompileApi, ModelCompilationOptions_SetWeightlessEnabled);
#endif
#if ORT_API_VERSION >= 31
SAME_SLOT(zrt_later_api, OrtApi, GetModelPackageApi);
_Static_assert(sizeof(OrtCompileApi) >= sizeof(zrt_later_compile_api), "missing slots: OrtCompileApi");
#endif
#endif

const OrtApiBase *zrt_library_builtin(void) {
#ifdef ZRT_STATIC_CORE
    return OrtGetApiBase();
#else
    return NULL;
#endif
}

const OrtApiBase *zrt_library_open(const char *path, char *message, size_t size) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(message, size, "%s", dlerror());
        return NULL;
    }
    const OrtApiBase *(*get)(void) = (const OrtApiBase *(*)(void))dlsym(library, "OrtGetApiBase");
    if (get == NULL) {
        snprintf(message, size, "it exports no OrtGetApiBase");
        dlclose(library);
        return NULL;
    }
    return get();
}

void zrt_library_start(const char *path) {
    char message[256];
    const OrtApiBase *base = path == NULL ? zrt_library_builtin() : zrt_library_open(path, message, sizeof message);
    const OrtApi *api = base == NULL ? NULL : base->GetApi(ZRT_API_VERSION);
    if (api == NULL)
        return;
    OrtEnvCreationOptions options = {
        .version = ZRT_API_VERSION,
        .logging_severity_level = ORT_LOGGING_LEVEL_WARNING,
        .log_id = "zrt",
    };
    OrtEnv *environment = NULL;
    OrtStatus *status = api->CreateEnvWithOptions(&options, &environment);
    if (status != NULL)
        api->ReleaseStatus(status);
    else
        api->ReleaseEnv(environment);
}
