/* Sequences and maps, and the objects of Python for them. The functions take the GIL. */
#pragma once

/* Appends the object for a value to `results`, the address of a list: a list of arrays or dicts for a sequence, a dict
   for a map. They are copies. `type` is the type of a sequence's tensors and `dtype` the address of numpy's dtype for
   it; other values need neither. Returns a code (code.h): ZRT_VALUES if a tensor has no array. */
uintptr_t zrt_container_read(
    const OrtApi *api, const OrtValue *value, ONNXTensorElementDataType type, uintptr_t dtype, uintptr_t results);

/* Stores a sequence of tensors over the memory of arrays into an empty handle; `arrays` is the address of a tuple of
   them, which the caller keeps alive. ZRT_MISALIGNED: one is no array of numbers, or its memory suits no tensor. */
uintptr_t zrt_sequence_over(const OrtApi *api, const OrtMemoryInfo *host, uintptr_t arrays, zrt_handle *sequence);
