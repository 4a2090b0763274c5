/* One owner for each thing that must be released, counted in C so that no order of Python's collector matters. */
#pragma once

typedef void (*zrt_release)(void *pointer);

typedef struct zrt_handle {
    void *pointer;
    zrt_release release;
    size_t references;
    unsigned generation;
    /* The least of its own and of all those that it depends on. */
    unsigned oldest;
    /* Among the handles that are about to be released. */
    struct zrt_handle *next;
    size_t parent_count;
    struct zrt_handle **parents;
} zrt_handle;

/* Takes over `pointer`, or what is stored there later; keeps every parent alive until after `release(pointer)`. NULL
   when memory is short: then nothing was taken over. */
zrt_handle *zrt_handle_new(void *pointer, zrt_release release, zrt_handle *const *parents, size_t count);

/* The same around `size` zeroed bytes of the C heap. */
zrt_handle *zrt_handle_block(size_t size, zrt_handle *const *parents, size_t count);

/* The same around a Python object, given by its address; the caller holds a reference during the call. */
zrt_handle *zrt_handle_object(uintptr_t object);

zrt_handle *zrt_handle_ref(zrt_handle *handle);
void zrt_handle_unref(zrt_handle *handle);

/* The same for a caller that has to hand over `kept` too, of which nothing is wanted. */
void zrt_handle_unref_kept(void *kept, zrt_handle *handle);

/* To be called in the child after a fork: from then on what the parent process made is never released here, since
   the threads that a release would wait for are the parent's. */
void zrt_handle_forked(void);

/* Whether the handle, or one that it depends on, was made before a fork. */
int zrt_handle_inherited(const zrt_handle *handle);
