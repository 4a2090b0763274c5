/* Strings into a tensor of ONNX Runtime's, NULs and all. */
#pragma once

/* Element i becomes the next lengths[i] bytes of `text`. Returns 0 or the address of an OrtStatus. */
uintptr_t zrt_text_fill(const OrtApi *api, OrtValue *tensor, const char *text, const size_t *lengths, size_t count);
