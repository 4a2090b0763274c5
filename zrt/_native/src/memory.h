/* Aligned, zeroed memory, on request with huge pages, prefaulted or locked; and mapped files. The caller owns every
   zrt_memory, which is all zeros before it gets memory. */
#pragma once

/* Flags that a caller may combine. */
#define ZRT_MEMORY_HUGEPAGE 1
#define ZRT_MEMORY_PREFAULT 2
#define ZRT_MEMORY_LOCK 4

/* The system's answer to the hint for huge pages. */
enum { ZRT_HUGEPAGE_NOT_ASKED = 0, ZRT_HUGEPAGE_ACCEPTED = 1, ZRT_HUGEPAGE_REFUSED = 2 };

typedef struct zrt_memory {
    void *data;
    size_t length;
    void *mapping;
    size_t mapped;
    int hugepage;
    /* Whether the descriptor of a mapped file is open, and that descriptor. */
    int is_file;
    int file;
} zrt_memory;

/* Allocates at least `bytes` zeroed bytes; `alignment` is a power of two and at least that of a pointer. Returns 0;
   errno without memory; -errno where the system refuses to lock it. */
int zrt_memory_new(zrt_memory *memory, size_t bytes, size_t alignment, int asked);

/* Advice for the system about how a file will be read. */
enum { ZRT_ADVICE_SEQUENTIAL = 1, ZRT_ADVICE_RANDOM = 2, ZRT_ADVICE_WILLNEED = 3, ZRT_ADVICE_HUGEPAGE = 4 };

/* Maps a regular file, read-only, at its present size; an empty one has no memory. The memory owns the descriptor from
   the call on. Returns 0, else errno. If the file becomes shorter, a read beyond its end raises SIGBUS. */
int zrt_memory_map(zrt_memory *memory, int file);

/* Gives the system one piece of advice for the whole memory. Returns 0, or errno where the system refuses it. */
int zrt_memory_advise(zrt_memory *memory, int advice);

/* Locks all pages into RAM. Returns 0 or errno. */
int zrt_memory_lock(zrt_memory *memory);

/* The present size of the mapped file in bytes, whose descriptor is open; -1 where the system cannot tell it. */
int64_t zrt_memory_file_size(const zrt_memory *memory);

/* Closes the descriptor of a mapped file; the mapping stays. */
void zrt_memory_close_file(zrt_memory *memory);

/* Frees the memory and the struct; a zrt_release. */
void zrt_memory_free(void *memory);
