/* Preloaded: fails calls of pthread_create, and allocations of zrt's extension, from the moment a test says so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* How many calls succeed; then they fail. Below 0 all succeed. */
volatile int threads_left = -1;
volatile int callocs_left = -1;

static int fails(volatile int *left) {
    if (*left < 0)
        return 0;
    if (*left == 0)
        return 1;
    (*left)--;
    return 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (create == NULL)
        create =
            (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return fails(&threads_left) ? EAGAIN : create(thread, attributes, start, argument);
}

extern void *__libc_calloc(size_t count, size_t size);

void *calloc(size_t count, size_t size) {
    Dl_info caller;
    if (callocs_left >= 0 && dladdr(__builtin_return_address(0), &caller) != 0 &&
        strstr(caller.dli_fname, "/_ort.") != NULL && fails(&callocs_left))
        return NULL;
    return __libc_calloc(count, size);
}
