/* Binds memory to a zrt_lane and keeps it alive, in one step; and reads its outputs. */
#pragma once

/* The builtin

     bind_array(lane, table, name, array, is_output)

   binds an input, or with True an output, to the memory of an array; `lane` is the address of a handle on a zrt_lane.

   The builtin and the next two functions put into the dict `table`, under the name, the object that keeps the bound
   memory alive: a tuple of the array, or the third element of `request`, the address of a tuple of the table, the name
   and that object. An error changes nothing. An input or output that was not bound is bound anew, as is an output whose
   former object is another one, unless both are arrays: runs are incomplete then. All return a code (code.h).
   ZRT_MISALIGNED: the memory does not suit a tensor of numbers. */

/* An address in `memory`: a tensor of `rank` sizes and of elements of so many `bits`. */
uintptr_t zrt_bind_address(zrt_handle *lane, uintptr_t request, int is_output, const OrtMemoryInfo *memory,
    uintptr_t address, const int64_t *dims, size_t rank, ONNXTensorElementDataType type, size_t bits);

/* Binds an output to a value. For NULL, ONNX Runtime allocates it on `memory`, and the output of the last run is
   released. */
uintptr_t zrt_bind_output(zrt_handle *lane, uintptr_t request, OrtValue *value, const OrtMemoryInfo *memory);

/* Frees a zrt_lane together with a binding that it alone uses, which may be NULL. */
void zrt_lane_free(void *lane);

/* Reads the values that are bound as outputs, in the order of binding, into `results`, the address of a list, as
   zrt_allocated_put does. */
uintptr_t zrt_bound_read(const OrtIoBinding *binding, const zrt_allocated *allocated, size_t only, uintptr_t results);

/* zrt_bound_read for the binding of a zrt_lane, which no other thread may use: takes its flag `busy`. Where the lane
   has another version, something was bound since: it returns ZRT_INCOMPLETE, and reads nothing. */
uintptr_t zrt_lane_read(
    zrt_handle *lane, size_t version, const zrt_allocated *allocated, size_t only, uintptr_t results);

/* Stores a tensor over the memory of `array`, an array of numpy, which the caller keeps alive. Returns ZRT_MISALIGNED
   if that memory does not suit a tensor of numbers. Needs the GIL, and may leave a Python exception set. */
uintptr_t zrt_tensor_over(const OrtApi *api, const OrtMemoryInfo *host, void *array, int writable, OrtValue **value);
