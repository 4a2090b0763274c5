/* Tensors of strings: their elements from numpy arrays, and into numpy arrays. The functions take the GIL, but for the
   last one, which needs it. */
#pragma once

/* Writes the elements of `array`, the address of a numpy array, into a tensor of as many strings. Returns ZRT_NO_TEXT
   for an array that is not contiguous or not of strings, and for a string that UTF-8 cannot encode; ZRT_NO_MEMORY where
   there is none for its UTF-8. */
uintptr_t zrt_text_write(const OrtApi *api, OrtValue *tensor, uintptr_t array);

/* Puts the strings of a tensor, dense or sparse, into `array`, the address of a numpy array of as many objects. Bytes
   that are no UTF-8 become surrogate escapes. Returns a code (code.h), ZRT_NO_TEXT for another array or without memory.
 */
uintptr_t zrt_text_read(const OrtApi *api, const OrtValue *tensor, uintptr_t array);

/* Puts the strings of a tensor into a C array of `count` references to Python objects, and drops the references that
   were there; they may be NULL. Returns a code (code.h), ZRT_NO_TEXT without memory. */
uintptr_t zrt_text_objects(const OrtApi *api, const OrtValue *tensor, size_t count, void *objects);
