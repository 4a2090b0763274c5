/* A handle owns one pointer and releases it once. The count of references is kept in C, atomically, so that neither the
   order in which GC finalizes objects nor the thread matters: any thread may add and drop references. */
#pragma once

typedef void (*zrt_release)(void *pointer);

typedef struct zrt_handle {
    /* It stays the first field: Python passes the address of a handle as that of its pointer. */
    void *pointer;
    zrt_release release;
    size_t references;
    /* How many forks came before it was made. */
    unsigned generation;
    /* The next in a list of handles that a thread is about to release. */
    struct zrt_handle *next;
    size_t parent_count;
    struct zrt_handle **parents;
} zrt_handle;

/* Takes ownership of `pointer`, which may be NULL and set later. Holds a reference to every parent until after
   `release(pointer)`. NULL without memory: the caller still owns `pointer` then. */
zrt_handle *zrt_handle_new(void *pointer, zrt_release release, zrt_handle *const *parents, size_t count);

/* A handle that owns `size` zeroed bytes of the C heap. */
zrt_handle *zrt_handle_block(size_t size, zrt_handle *const *parents, size_t count);

/* A handle that owns a reference to the Python object at this address. The caller holds a reference of its own during
   the call. */
zrt_handle *zrt_handle_object(uintptr_t object);

/* Adds a reference, and drops one. The thread that drops the last one releases the pointer, then the references to the
   parents, the last parent first. */
zrt_handle *zrt_handle_ref(zrt_handle *handle);
void zrt_handle_unref(zrt_handle *handle);

/* zrt_handle_unref with an argument that it ignores: Python binds an object to it, which the destructor keeps alive. */
void zrt_handle_unref_kept(void *kept, zrt_handle *handle);

/* Whether this process made the handle, and not the parent of a fork. */
int zrt_handle_is_own(const zrt_handle *handle);

/* From then on the child of a fork never releases what its parent made: a release may wait for threads that exist only
   in the parent. Python's own handlers would come too late: before them Python frees the thread-local objects of the
   threads that are gone. Returns 0, or an error of the system. */
int zrt_handle_watch_forks(void);
