#include <stdint.h>
#include <string.h>

#include "ort.h"
#include "text.h"

/* FillStringTensor would end a string at its first NUL. */
uintptr_t zrt_text_fill(const OrtApi *api, OrtValue *tensor, const char *text, const size_t *lengths, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *place;
        OrtStatus *status = api->GetResizedStringTensorElementBuffer(tensor, i, lengths[i], &place);
        if (status != NULL)
            return (uintptr_t)status;
        memcpy(place, text, lengths[i]);
        text += lengths[i];
    }
    return 0;
}
