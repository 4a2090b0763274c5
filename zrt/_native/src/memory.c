#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

/* From this size on malloc maps pages of its own anyway. */
#define MAPPED_FROM ((size_t)1 << 20)

static size_t page_size(void) {
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

static size_t round_up(size_t size, size_t step) {
    return (size + step - 1) & ~(step - 1);
}

static int from_heap(zrt_memory *memory, size_t bytes, size_t alignment) {
    memory->length = bytes ? bytes : 1;
    int error = posix_memalign(&memory->data, alignment, memory->length);
    if (error != 0)
        memory->data = NULL;
    else
        memset(memory->data, 0, memory->length);
    return error;
}

/* Maps whole pages between two read-only ones. These keep the kernel from merging the mapping with a neighbour, so that
   its statistics of huge pages are about this memory only; and reading past the end does not crash. */
static int from_pages(zrt_memory *memory, size_t bytes, size_t alignment) {
    size_t page = page_size();
    if (alignment < page)
        alignment = page;
    if (bytes > SIZE_MAX - alignment || bytes + alignment > SIZE_MAX - 3 * page)
        return ENOMEM;
    size_t length = round_up(bytes ? bytes : 1, page);
    size_t reserved = length + alignment + page;
    char *start = mmap(NULL, reserved, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return errno;
    char *end = start + reserved;
    char *data = (char *)round_up((uintptr_t)start + page, alignment);
    char *first = data - page;
    char *last = data + length + page;
    /* Where munmap fails, the rest stays part of the mapping, which zrt_memory_free unmaps. */
    if (first > start && munmap(start, (size_t)(first - start)) == 0)
        start = first;
    if (last < end && munmap(last, (size_t)(end - last)) == 0)
        end = last;
    if (mprotect(data, length, PROT_READ | PROT_WRITE) != 0) {
        int error = errno;
        munmap(start, (size_t)(end - start));
        return error;
    }
    memory->data = data;
    memory->length = length;
    memory->mapping = start;
    memory->mapped = (size_t)(end - start);
    return 0;
}

static void touch(zrt_memory *memory) {
    size_t page = page_size();
    volatile char *bytes = memory->data;
    for (size_t at = 0; at < memory->length; at += page)
        bytes[at] = 0;
}

int zrt_memory_new(zrt_memory *memory, size_t bytes, size_t alignment, int asked) {
    /* Locks and hints apply to whole pages, and the heap shares its pages with other allocations. */
    int own_pages =
        (asked & (ZRT_MEMORY_HUGEPAGE | ZRT_MEMORY_LOCK)) || bytes >= MAPPED_FROM || alignment > page_size();
    int error = own_pages ? from_pages(memory, bytes, alignment) : from_heap(memory, bytes, alignment);
    if (error != 0)
        return error;
    if (asked & ZRT_MEMORY_HUGEPAGE)
        zrt_memory_advise(memory, ZRT_ADVICE_HUGEPAGE);
    if ((asked & ZRT_MEMORY_LOCK) && (error = zrt_memory_lock(memory)) != 0)
        return -error;
    /* After the hint, which has no effect on pages that exist already. */
    if (asked & ZRT_MEMORY_PREFAULT)
        touch(memory);
    return 0;
}

int zrt_memory_advise(zrt_memory *memory, int advice) {
    int system = -1;
    switch (advice) {
    case ZRT_ADVICE_SEQUENTIAL:
        system = MADV_SEQUENTIAL;
        break;
    case ZRT_ADVICE_RANDOM:
        system = MADV_RANDOM;
        break;
    case ZRT_ADVICE_WILLNEED:
        system = MADV_WILLNEED;
        break;
#ifdef MADV_HUGEPAGE
    case ZRT_ADVICE_HUGEPAGE:
        system = MADV_HUGEPAGE;
        break;
#endif
    }
    int error = system == -1 ? ENOTSUP : madvise(memory->data, memory->length, system) != 0 ? errno : 0;
    if (advice == ZRT_ADVICE_HUGEPAGE)
        memory->hugepage = error ? ZRT_HUGEPAGE_REFUSED : ZRT_HUGEPAGE_ACCEPTED;
    return error;
}

int zrt_memory_lock(zrt_memory *memory) {
    return mlock(memory->data, memory->length) != 0 ? errno : 0;
}

/* Maps the file, and one more page behind it: reading past the end does not crash. */
static int from_file(zrt_memory *memory, size_t bytes) {
    size_t page = page_size();
    if (bytes > SIZE_MAX - 2 * page)
        return ENOMEM;
    size_t mapped = round_up(bytes, page) + page;
    void *start = mmap(NULL, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return errno;
    if (mmap(start, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, memory->file, 0) == MAP_FAILED) {
        int error = errno;
        munmap(start, mapped);
        return error;
    }
    memory->data = memory->mapping = start;
    memory->length = bytes;
    memory->mapped = mapped;
    return 0;
}

int zrt_memory_map(zrt_memory *memory, int file) {
    struct stat stated;
    memory->file = file;
    memory->is_file = 1;
    if (fstat(memory->file, &stated) != 0)
        return errno;
    if (!S_ISREG(stated.st_mode))
        return S_ISDIR(stated.st_mode) ? EISDIR : ENOTSUP;
    return stated.st_size > 0 ? from_file(memory, (size_t)stated.st_size) : 0;
}

int64_t zrt_memory_file_size(const zrt_memory *memory) {
    struct stat stated;
    return fstat(memory->file, &stated) == 0 ? (int64_t)stated.st_size : -1;
}

void zrt_memory_close_file(zrt_memory *memory) {
    if (memory->is_file)
        close(memory->file);
    memory->is_file = 0;
}

void zrt_memory_free(void *pointer) {
    zrt_memory *memory = pointer;
    /* munmap also unlocks. */
    if (memory->mapping != NULL)
        munmap(memory->mapping, memory->mapped);
    else
        free(memory->data);
    zrt_memory_close_file(memory);
    free(memory);
}
