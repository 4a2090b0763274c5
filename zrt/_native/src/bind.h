/* Binds memory to a zrt_lane and keeps it alive, in one step. */
#pragma once

/* `request` is the address of a tuple of a dict, a name and an object. Under the name the dict has what keeps bound
   memory alive: after success this is the object, or a tuple of it where it is an array; an error changes
   nothing. Where other than the same object was there before, an output is bound anew, as is an input that was not
   bound: runs are incomplete then. These functions take the GIL, and return a code (code.h). ZRT_MISALIGNED: the memory
   does not suit a tensor of numbers. */
uintptr_t zrt_bind_array(zrt_handle *lane, uintptr_t request);

/* Memory of the host: a tensor of `rank` sizes and of elements of so many `bits`. */
uintptr_t zrt_bind_address(zrt_handle *lane, uintptr_t request, int is_output, uintptr_t address, const int64_t *dims,
    size_t rank, ONNXTensorElementDataType type, size_t bits);

/* Leaves an output to ONNX Runtime, which makes it on `memory`; that of the last run is released. */
uintptr_t zrt_bind_left(zrt_handle *lane, uintptr_t request, const OrtMemoryInfo *memory);
