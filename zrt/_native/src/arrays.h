/* numpy arrays for values that ONNX Runtime made. */
#pragma once

/* Call it once before the other functions, with the addresses of numpy's type and of its function `empty`, which it
   keeps. Returns 0, or -1 without memory. */
int zrt_arrays_open(uintptr_t ndarray, uintptr_t empty);

/* Whether an object is an array of this dtype, for NULL of any, and not of a subclass. */
int zrt_is_array(void *object, const void *dtype);

/* A new reference to an array from the arguments of `empty`, a tuple; NULL with an exception. */
void *zrt_fresh_array(void *arguments);

/* Puts numpy arrays for the outputs of the last run into `results`, the address of a list: views that own their value,
   or copies. Returns how many outputs still wait for Python to make another object of their value. */
size_t zrt_made_arrays(zrt_made *made, uintptr_t results);

/* Reads the values that are bound as outputs of a zrt_lane into `made`, and puts their arrays into `results`. Returns
   ZRT_LEFT where a value waits for Python, else a code (code.h). */
uintptr_t zrt_lane_outputs(zrt_handle *lane, zrt_made *made, uintptr_t results);
