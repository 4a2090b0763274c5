/* Memory of a chosen kind: aligned and zeroed; hinted for huge pages, prefaulted, locked where asked. */
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
} zrt_memory;

/* At least `bytes` zeroed bytes; `alignment` is a power of two, at least that of a pointer. Returns 0 and stores the
   memory, errno where the system has none, or -errno where it refuses to lock it; then nothing is left behind. */
int zrt_memory_new(size_t bytes, size_t alignment, int asked, zrt_memory **memory);

/* Gives all of it back; a zrt_release. */
void zrt_memory_free(void *memory);
