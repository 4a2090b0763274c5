/* Loaded before all other libraries: calls of the system and of the allocator that fail on demand.
   tests/support/faulty_system.py says which and drives them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls, first, last;
static char failed[100];
/* The code of zrt's compiled module: only its own calls of the allocator count. */
static uintptr_t module_start, module_end;

static int find(struct dl_phdr_info *info, size_t size, void *name) {
    (void)size;
    if (strstr(info->dlpi_name, name) == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            module_start = info->dlpi_addr + part->p_vaddr;
            module_end = module_start + part->p_memsz;
        }
    }
    return 1;
}

/* The calls from number `from` to number `to` of those that follow fail; none with `from` 0. */
void faults_arm(long from, long to) {
    if (module_end == 0)
        dl_iterate_phdr(find, "_ort.");
    failed[0] = 0;
    calls = 0;
    last = to;
    first = from;
}

long faults_calls(void) {
    return calls;
}

const char *faults_failed(void) {
    return failed;
}

static int fault(const char *name) {
    long from = first;
    if (module_end == 0)
        return 0;
    long number = ++calls;
    if (from == 0 || number < from || number > last)
        return 0;
    if (failed[0] == 0)
        snprintf(failed, sizeof failed, "%s", name);
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define FAULTY(result, name, parameters, arguments, code, failure)                                                     \
    result name parameters {                                                                                           \
        static __typeof__(&name) real;                                                                                 \
        if (real == NULL)                                                                                              \
            real = REAL(name);                                                                                         \
        if (fault(#name)) {                                                                                            \
            errno = code;                                                                                              \
            return failure;                                                                                            \
        }                                                                                                              \
        return real arguments;                                                                                         \
    }

FAULTY(ssize_t, read, (int file, void *data, size_t size), (file, data, size), EIO, -1)
FAULTY(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), ENOSPC, -1)
FAULTY(ssize_t, pread64, (int file, void *data, size_t size, off64_t at), (file, data, size, at), EIO, -1)
FAULTY(int, rename, (const char *from, const char *to), (from, to), EACCES, -1)
FAULTY(int, unlink, (const char *path), (path), EACCES, -1)
FAULTY(int, fsync, (int file), (file), EIO, -1)
FAULTY(int, ftruncate64, (int file, off64_t size), (file, size), ENOSPC, -1)
FAULTY(int, mkdir, (const char *path, mode_t mode), (path, mode), ENOSPC, -1)
FAULTY(int, mprotect, (void *at, size_t size, int protection), (at, size, protection), ENOMEM, -1)
FAULTY(int, munmap, (void *at, size_t size), (at, size), ENOMEM, -1)
FAULTY(int, mlock, (const void *at, size_t size), (at, size), EAGAIN, -1)
FAULTY(int, madvise, (void *at, size_t size, int advice), (at, size, advice), ENOMEM, -1)
FAULTY(int, eventfd, (unsigned value, int flags), (value, flags), EMFILE, -1)
FAULTY(int, pipe2, (int files[2], int flags), (files, flags), EMFILE, -1)
FAULTY(int, pthread_create,
    (pthread_t * thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument),
    (thread, attributes, work, argument), EAGAIN, EAGAIN)

#define FAULTY_OPEN(name, parameters, arguments)                                                                       \
    int name parameters {                                                                                              \
        static __typeof__(&name) real;                                                                                 \
        if (real == NULL)                                                                                              \
            real = REAL(name);                                                                                         \
        mode_t mode = 0;                                                                                               \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
            va_list more;                                                                                              \
            va_start(more, flags);                                                                                     \
            mode = va_arg(more, mode_t);                                                                               \
            va_end(more);                                                                                              \
        }                                                                                                              \
        if (fault(#name)) {                                                                                            \
            errno = EMFILE;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
        return real arguments;                                                                                         \
    }

FAULTY_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
FAULTY_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
FAULTY_OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
FAULTY_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

static int by_module(void *caller) {
    return (uintptr_t)caller - module_start < module_end - module_start;
}

/* Memory that Python maps for itself is left alone: a thread of CPython's that gets none ends before it has begun, and
   Thread.start waits for it for ever. */
#define FAULTY_MMAP(name, offset_type)                                                                                 \
    void *name(void *at, size_t size, int protection, int flags, int file, offset_type offset) {                       \
        static __typeof__(&name) real;                                                                                 \
        if (real == NULL)                                                                                              \
            real = REAL(name);                                                                                         \
        if ((file >= 0 || by_module(__builtin_return_address(0))) && fault(#name)) {                                   \
            errno = ENOMEM;                                                                                            \
            return MAP_FAILED;                                                                                         \
        }                                                                                                              \
        return real(at, size, protection, flags, file, offset);                                                        \
    }

FAULTY_MMAP(mmap64, off64_t)
FAULTY_MMAP(mmap, off_t)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size) {
    if (by_module(__builtin_return_address(0)) && fault("malloc"))
        return NULL;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    if (by_module(__builtin_return_address(0)) && fault("calloc"))
        return NULL;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    if (by_module(__builtin_return_address(0)) && fault("realloc"))
        return NULL;
    return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    if (by_module(__builtin_return_address(0)) && fault("posix_memalign"))
        return ENOMEM;
    static __typeof__(&posix_memalign) real;
    if (real == NULL)
        real = REAL(posix_memalign);
    return real(memory, alignment, size);
}
