/* Memory of a chosen kind: aligned and zeroed; hinted for huge pages, prefaulted, locked where asked. Or a file's. */
#pragma once

/* What may be asked for; any combination. */
#define ZRT_MEMORY_HUGEPAGE 1
#define ZRT_MEMORY_PREFAULT 2
#define ZRT_MEMORY_LOCK 4

/* What became of the hint. */
enum { ZRT_HUGEPAGE_NOT_ASKED = 0, ZRT_HUGEPAGE_ACCEPTED = 1, ZRT_HUGEPAGE_REFUSED = 2 };

typedef struct zrt_memory {
    void *data;
    size_t length;
    void *mapping;
    size_t mapped;
    int hugepage;
    /* What a mapping was made of; -1 elsewhere. */
    int file;
} zrt_memory;

/* At least `bytes` zeroed bytes; `alignment` is a power of two, at least that of a pointer. Returns 0 and stores the
   memory, errno where the system has none, or -errno where it refuses to lock it; then nothing is left behind. */
int zrt_memory_new(size_t bytes, size_t alignment, int asked, zrt_memory **memory);

/* What the system may be told of how a file will be read. */
enum { ZRT_ADVICE_SEQUENTIAL = 1, ZRT_ADVICE_RANDOM = 2, ZRT_ADVICE_WILLNEED = 3, ZRT_ADVICE_HUGEPAGE = 4 };

/* A regular file's bytes, as many as it has now, read-only. Returns 0 and stores the memory, or errno; 0 with NULL for
   an empty file. Where the file becomes shorter, a read beyond its end is a SIGBUS. */
int zrt_memory_map(const char *path, zrt_memory **memory);

/* Gives one advice for all of it. Returns 0, or errno where the system does not take it. */
int zrt_memory_advise(zrt_memory *memory, int advice);

/* Brings all pages in and keeps them there. Returns 0 or errno. */
int zrt_memory_lock(zrt_memory *memory);

/* How many bytes the mapped file has now, -1 where that cannot be told. */
int64_t zrt_memory_file_size(const zrt_memory *memory);

/* Gives all of it back; a zrt_release. */
void zrt_memory_free(void *memory);
