"""Where releases of ONNX Runtime differ: the facts on which tests depend, by the version that brought each of them.

`docs/building.md` has the same differences in words.
"""

from zrt._native.library import library


def _release(version: str) -> list[int]:
    return [int(number) for number in version.split(".")[:2]]


def since(version: str) -> bool:
    """Whether the library in use is of that version's release ("1.28") or of a later one."""
    return _release(library().version) >= _release(version)


COUNTS_REQUESTED_BYTES = since("1.28")
"""Allocators count the bytes that were asked of them, without padding."""

COMPILES_WITH_A_LOCATOR = not since("1.29") or since("1.30")
"""A function of the caller's can place the weights of a compiled model; 1.29 then writes each node twice."""

ADAPTERS_HAVE_NUMBERS_ONLY = since("1.30")
"""LoRA adapters with parameters of type BOOL or STRING do not load."""

BORROWS_FILES_IN_MEMORY = since("1.31")
"""The config entry ``session.use_external_initializer_file_buffers_directly`` lets sessions borrow external files."""

CREATES_BY_C_ENUM = since("1.31")
"""Functions that create tensors read the element type as a value of the C enum, no longer as ONNX's own code."""

COMPILES_BODIES = since("1.31")
"""The compiled form of a model with weights in the body of a loop or a branch loads."""

TAKES_BACK_FAILED_REGISTRATIONS = since("1.31")
"""A provider library whose registration fails half-way leaves no devices in ONNX Runtime's list."""

ESCAPES_NAMES_IN_TRACES = since("1.31")
"""Quotes, backslashes and control characters in a trace's names are escaped, as JSON demands."""
