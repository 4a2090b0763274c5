/* Sequences and maps as objects of Python. */
#pragma once

/* Appends the object for a value to `results`, the address of a list: a list of arrays or dicts for a sequence, a dict
   for a map. They are copies. `type` is the type of a sequence's tensors and `dtype` the address of numpy's dtype for
   it; other values need neither. Takes the GIL. Returns a code (code.h): ZRT_VALUES if a tensor has no array. */
uintptr_t zrt_container_read(
    const OrtApi *api, const OrtValue *value, ONNXTensorElementDataType type, uintptr_t dtype, uintptr_t results);
