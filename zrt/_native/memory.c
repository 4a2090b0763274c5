#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

/* From here on the heap would map pages of its own anyway. */
#define MAPPED_FROM ((size_t)1 << 20)

static size_t page_size(void)
{
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

static size_t round_up(size_t size, size_t step)
{
    return (size + step - 1) & ~(step - 1);
}

static int from_heap(zrt_memory *memory, size_t bytes, size_t alignment)
{
    memory->length = bytes ? bytes : 1;
    int error = posix_memalign(&memory->data, alignment, memory->length);
    if (error == 0)
        memset(memory->data, 0, memory->length);
    return error;
}

/* Whole pages of our own between two read-only ones. Those keep the kernel from merging the mapping with a neighbour,
   so that what its map says of huge pages is about this memory alone; reading past the end stays harmless. */
static int from_pages(zrt_memory *memory, size_t bytes, size_t alignment)
{
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
    /* What cannot be given back now stays part of the mapping and goes with it. */
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

static int hint(zrt_memory *memory)
{
#ifdef MADV_HUGEPAGE
    if (madvise(memory->data, memory->length, MADV_HUGEPAGE) == 0)
        return ZRT_HUGEPAGE_ACCEPTED;
#else
    (void)memory;
#endif
    return ZRT_HUGEPAGE_REFUSED;
}

static void touch(zrt_memory *memory)
{
    size_t page = page_size();
    volatile char *bytes = memory->data;
    for (size_t at = 0; at < memory->length; at += page)
        bytes[at] = 0;
}

int zrt_memory_new(size_t bytes, size_t alignment, int asked, zrt_memory **result)
{
    zrt_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return ENOMEM;
    /* A lock and a hint are about whole pages, which the heap would share with others. */
    int own_pages = (asked & (ZRT_MEMORY_HUGEPAGE | ZRT_MEMORY_LOCK)) || bytes >= MAPPED_FROM
        || alignment > page_size();
    int error = own_pages ? from_pages(memory, bytes, alignment) : from_heap(memory, bytes, alignment);
    if (error != 0) {
        free(memory);
        return error;
    }
    if (asked & ZRT_MEMORY_HUGEPAGE)
        memory->hugepage = hint(memory);
    if ((asked & ZRT_MEMORY_LOCK) && mlock(memory->data, memory->length) != 0) {
        error = -errno;
        zrt_memory_free(memory);
        return error;
    }
    /* After the hint, which only counts for pages that are not there yet. */
    if (asked & ZRT_MEMORY_PREFAULT)
        touch(memory);
    *result = memory;
    return 0;
}

void zrt_memory_free(void *pointer)
{
    zrt_memory *memory = pointer;
    /* Unmapping unlocks too. */
    if (memory->mapping != NULL)
        munmap(memory->mapping, memory->mapped);
    else
        free(memory->data);
    free(memory);
}
