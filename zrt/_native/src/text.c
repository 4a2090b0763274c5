#include "python.h"
#include <stdint.h>
#include <string.h>

#include "ort.h"
#include "handle.h"
#include "code.h"
#include "text.h"

/* The buffer of an element of so many bytes. FillStringTensor would end a string at its first NUL. */
static uintptr_t place_of(const OrtApi *api, OrtValue *tensor, size_t index, size_t length, char **place) {
    return (uintptr_t)api->GetResizedStringTensorElementBuffer(tensor, index, length, place);
}

static uintptr_t write_bytes(const OrtApi *api, OrtValue *tensor, size_t index, const char *text, size_t length) {
    char *place;
    uintptr_t code = place_of(api, tensor, index, length, &place);
    if (code == ZRT_OK)
        memcpy(place, text, length);
    return code;
}

/* The code after Python failed to read a string or an array; clears Python's error. */
static uintptr_t no_text(void) {
    uintptr_t code = PyErr_ExceptionMatches(PyExc_MemoryError) ? ZRT_NO_MEMORY : ZRT_NO_TEXT;
    PyErr_Clear();
    return code;
}

/* As write_bytes, for bytes that may be no UTF-8. */
static uintptr_t write_checked(const OrtApi *api, OrtValue *tensor, size_t index, const char *text, size_t length) {
    PyObject *decoded = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, NULL);
    if (decoded == NULL)
        return no_text();
    Py_DecRef(decoded);
    return write_bytes(api, tensor, index, text, length);
}

/* An element of an array of objects, which is NULL where numpy means None. */
static uintptr_t write_object(const OrtApi *api, OrtValue *tensor, size_t index, PyObject *element) {
    const char *text = NULL;
    Py_ssize_t length = 0;
    if (element == NULL)
        return ZRT_NO_TEXT;
    if (PyBytes_Check(element))
        return PyBytes_AsStringAndSize(element, (char **)&text, &length) != 0
                   ? ZRT_NO_TEXT
                   : write_checked(api, tensor, index, text, (size_t)length);
    if (!PyUnicode_Check(element))
        return ZRT_NO_TEXT;
    text = PyUnicode_AsUTF8AndSize(element, &length);
    if (text == NULL)
        return no_text();
    return write_bytes(api, tensor, index, text, (size_t)length);
}

/* The length of a character in UTF-8, 0 for a surrogate or for no character. */
static inline size_t utf8_length(uint32_t character) {
    if (character < 0x80)
        return 1;
    if (character < 0x800)
        return 2;
    if (character < 0x10000)
        return character >= 0xD800 && character < 0xE000 ? 0 : 3;
    return character < 0x110000 ? 4 : 0;
}

/* Writes a character of so many bytes. */
static inline char *utf8(uint32_t character, size_t length, char *place) {
    if (length == 1) {
        *place = (char)character;
        return place + 1;
    }
    for (size_t i = length - 1; i > 0; i--, character >>= 6)
        place[i] = (char)(0x80 | (character & 0x3F));
    /* The first byte begins with as many ones as there are bytes. */
    *place = (char)(0xF00u >> length | character);
    return place + length;
}

/* Characters of an array, at any address. A thread without the GIL may change them at any moment. */
typedef const uint32_t __attribute__((aligned(1))) ucs4;

static uintptr_t write_ascii(const OrtApi *api, OrtValue *tensor, size_t index, ucs4 *characters, size_t width) {
    char *place;
    uintptr_t code = place_of(api, tensor, index, width, &place);
    for (size_t i = 0; code == ZRT_OK && i < width; i++)
        place[i] = (char)(characters[i] & 0x7F);
    return code;
}

/* An element of an array of numpy's type "U": UCS-4, filled up with NULs. */
static uintptr_t write_ucs4(const OrtApi *api, OrtValue *tensor, size_t index, ucs4 *characters, size_t width) {
    while (width > 0 && characters[width - 1] == 0)
        width--;
    uint32_t all = 0;
    for (size_t i = 0; i < width; i++)
        all |= characters[i];
    if (all < 0x80)
        return write_ascii(api, tensor, index, characters, width);
    size_t length = 0;
    for (size_t i = 0; i < width; i++) {
        size_t one = utf8_length(characters[i]);
        if (one == 0)
            return ZRT_NO_TEXT;
        length += one;
    }
    char *place;
    uintptr_t code = place_of(api, tensor, index, length, &place);
    for (size_t i = 0; code == ZRT_OK && i < width; i++) {
        /* It is read once: another one than that which was counted may not fit. */
        uint32_t character = *(const volatile ucs4 *)&characters[i];
        size_t one = utf8_length(character);
        if (one == 0 || one > length)
            return ZRT_NO_TEXT;
        place = utf8(character, one, place);
        length -= one;
    }
    return code;
}

static uintptr_t write_element(
    const OrtApi *api, OrtValue *tensor, size_t index, char kind, const char *element, size_t size) {
    if (kind == 'O')
        return write_object(api, tensor, index, *(PyObject *const *)element);
    if (kind == 'w')
        return write_ucs4(api, tensor, index, (ucs4 *)element, size / sizeof(uint32_t));
    while (size > 0 && element[size - 1] == 0)
        size--;
    return write_checked(api, tensor, index, element, size);
}

/* The last letter of a buffer's format, which is one of objects, UCS-4 or bytes in the machine's byte order; else 0. */
static char kind_of(const Py_buffer *view) {
    const char *format = view->format;
    size_t length = format == NULL ? 0 : strlen(format);
    if (length == 0 || *format == '<' || *format == '>' || *format == '!')
        return 0;
    /* That of an array of structures ends with a brace. */
    char kind = format[length - 1];
    return kind == 'O' || kind == 'w' || kind == 's' ? kind : 0;
}

/* numpy describes strings of no characters by an item of no bytes. */
static size_t count_of(const Py_buffer *view) {
    size_t count = 1;
    for (int i = 0; i < view->ndim; i++)
        count *= (size_t)view->shape[i];
    return count;
}

uintptr_t zrt_text_write(const OrtApi *api, OrtValue *tensor, uintptr_t array) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_buffer view;
    uintptr_t code = ZRT_NO_TEXT;
    if (PyObject_GetBuffer((PyObject *)array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0) {
        char kind = kind_of(&view);
        if (kind != 0) {
            size_t count = count_of(&view), size = (size_t)view.itemsize;
            const char *element = view.buf;
            code = ZRT_OK;
            for (size_t i = 0; i < count && code == ZRT_OK; i++, element += size)
                code = write_element(api, tensor, i, kind, element, size);
        }
        PyBuffer_Release(&view);
    } else {
        code = no_text();
    }
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}

/* Puts the strings, which end where the next ones begin, into an array of objects. */
static uintptr_t decode(const char *text, size_t total, const size_t *starts, size_t count, PyObject **objects) {
    for (size_t i = 0; i < count; i++) {
        size_t end = i + 1 < count ? starts[i + 1] : total;
        PyObject *decoded = PyUnicode_DecodeUTF8(text + starts[i], (Py_ssize_t)(end - starts[i]), "surrogateescape");
        if (decoded == NULL)
            return ZRT_NO_TEXT;
        PyObject *former = objects[i];
        objects[i] = decoded;
        Py_DecRef(former);
    }
    return ZRT_OK;
}

uintptr_t zrt_text_objects(const OrtApi *api, const OrtValue *tensor, size_t count, void *objects) {
    size_t total;
    OrtStatus *status = api->GetStringTensorDataLength(tensor, &total);
    if (status != NULL)
        return (uintptr_t)status;
    size_t *starts = PyMem_Malloc(count * sizeof *starts + total);
    if (starts == NULL)
        return ZRT_NO_TEXT;
    char *text = (char *)(starts + count);
    status = api->GetStringTensorContent(tensor, text, total, starts, count);
    uintptr_t code = status != NULL ? (uintptr_t)status : decode(text, total, starts, count, objects);
    PyMem_Free(starts);
    return code;
}

uintptr_t zrt_text_read(const OrtApi *api, const OrtValue *tensor, uintptr_t array) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_buffer view;
    uintptr_t code = ZRT_NO_TEXT;
    if (PyObject_GetBuffer((PyObject *)array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) == 0) {
        if (kind_of(&view) == 'O') {
            size_t count = count_of(&view);
            code = zrt_text_objects(api, tensor, count, view.buf);
        }
        PyBuffer_Release(&view);
    }
    PyErr_Clear();
    PyGILState_Release(state);
    return code;
}
