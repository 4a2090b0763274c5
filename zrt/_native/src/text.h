/* Writes strings, which may contain NUL, into a tensor of ONNX Runtime. */
#pragma once

/* Sets element i to the next lengths[i] bytes of `text`. Returns 0 or the address of an OrtStatus. */
uintptr_t zrt_text_fill(const OrtApi *api, OrtValue *tensor, const char *text, const size_t *lengths, size_t count);
