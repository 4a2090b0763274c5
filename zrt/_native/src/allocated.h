/* The outputs that ONNX Runtime allocates, and the Python objects that they become. The functions need the GIL. */
#pragma once

/* One output of a run or of a binding. */
typedef struct zrt_output {
    /* Whether ONNX Runtime allocates it. If not, nothing reads it, nor the other fields. */
    int allocated;
    /* Its element type, and numpy's dtype for that; NULL where Python makes the object. */
    ONNXTensorElementDataType type;
    void *dtype;
    /* Whether Python gets a copy: the output may lie in the memory of a feed, or in an arena that returns unused
       memory. */
    int copied;
} zrt_output;

typedef struct zrt_allocated {
    const OrtApi *api;
    /* The objects keep these alive, beside their values. */
    zrt_handle *const *parents;
    size_t parent_count;
    size_t count;
    const zrt_output *outputs;
} zrt_allocated;

/* Keeps numpy's type, and returns a new reference to the type of the objects that own a value; NULL with an exception.
 */
void *zrt_allocated_open(void *ndarray);

#define ZRT_ANY_SIZE -1

/* A new reference to a tuple of sizes; NULL with an exception. A size below ZRT_ANY_SIZE stands for one of `sizes`: for
   the element ZRT_ANY_SIZE - 1 - size. */
void *zrt_shape_tuple(const int64_t *dims, size_t rank, const int64_t *sizes);

/* Releases the values that are not NULL. */
void zrt_release_values(const OrtApi *api, OrtValue **values, size_t count);

/* Whether an object is an array of numpy, and of no subclass. */
int zrt_is_array(void *object);

/* Puts an object for each allocated output, or for that of the index `only` if it is not ZRT_EVERY, into a list: a
   numpy array that owns the value or a copy, or an object that owns the value for zrt_owned_move; an absent optional
   changes nothing. The values that it takes become NULL. Returns a code (code.h): ZRT_VALUES if Python has to read
   values. */
#define ZRT_EVERY 0xFFFFFFFF
uintptr_t zrt_allocated_put(const zrt_allocated *allocated, OrtValue **values, size_t only, void *list);

/* Moves the value of an object that owns one, by its address, to a handle that has no pointer yet. */
void zrt_owned_move(uintptr_t object, zrt_handle *handle);
