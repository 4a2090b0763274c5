#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "ort.h"
#include "library.h"

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
