"""The functions of ONNX Runtime that came after API version 27, each guarded by the version that brought it.

src/later.h declares them. A table is never read beyond its end: `later` compares the library's version first.
"""

from __future__ import annotations

from typing import Any

from zrt._native import ffi
from zrt._native.library import api, library
from zrt.errors import UnsupportedError

__all__ = ["LATER", "later"]


# The API version that brought each function, the struct of src/later.h that declares it, and the function of `OrtApi`
# that gives its table, if that is another one.
LATER = {
    "SessionOptionsSetWeightlessSourceModelBuffer": (29, "zrt_later_api", None),
    "ModelCompilationOptions_SetWeightlessEnabled": (29, "zrt_later_compile_api", "GetCompileApi"),
    "ModelCompilationOptions_SetOutputModelExternalInitializersAlignment": (
        31,
        "zrt_later_compile_api",
        "GetCompileApi",
    ),
}


def later(function: str, subject: str) -> Any:
    """A function of `LATER`, which `subject` needs; raises `UnsupportedError` if the library has not got it."""
    since, struct, give = LATER[function]
    loaded = library()
    if loaded.api_version < since:
        raise UnsupportedError(
            f"{subject}: it needs ONNX Runtime 1.{since} or later, and the library is {loaded.version}"
        )
    table = api() if give is None else getattr(api(), give)()
    return getattr(ffi.cast(f"const {struct} *", table), function)
