"""Builds the extension module `zrt._native._ort`: the cffi declarations in decl/ and the C files in src/.

Run `python zrt/_native/build.py` for a build in place; the packaging hook calls `build` too. It imports
nothing from zrt, which cannot be imported before it is built.

Two modes. **Exact**, where ``ZRT_ORT_INCLUDE_DIR`` names official headers of ONNX Runtime: the C code
includes those, and cffi checks every declaration of ours against them. **Portable**, elsewhere: the C code
includes ours.

``ZRT_ORT_LINK_ARGS`` (whitespace-separated, as for a shell) links a static core of ONNX Runtime in; it wants
exact mode, with the headers of that core.

``ZRT_TARGET`` names a platform of `TARGETS` to compile for, by the Python package ziglang.
``ZRT_FREE_THREADED_INCLUDE`` names the headers of the free-threaded Python that the module is for, in place of the
Python that builds it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
import sysconfig
import tempfile
from pathlib import Path

import cffi

HERE = Path(__file__).resolve().parent
NAME = "zrt._native._ort"

# The API version of the headers that decl/ follows: ZRT_API_VERSION of src/library.h.
DECLARED_VERSION = 27

# Python uses nothing that these declare, and cffi does not know the types in them.
LEFT_OUT = ("src/ort.h", "src/python.h", "src/wait.h")
# Our headers to which others refer.
FIRST = ("src/handle.h", "src/allocated.h", "src/log.h")
# The declarations of ONNX Runtime, and our own headers: each file after those that it refers to.
DECLARATIONS = (
    *re.findall(r'^#include "(decl/.*)"$', (HERE / "src" / "ort.h").read_text(), re.MULTILINE),
    *FIRST,
    *sorted({f"src/{path.name}" for path in HERE.glob("src/*.h")} - {*LEFT_OUT, *FIRST}),
)
SOURCES = tuple(sorted(f"src/{path.name}" for path in HERE.glob("src/*.c")))

# The functions of `OrtApi` that Python calls in the first answer of a process, with the drop-in too. cffi makes the
# types of all functions of a struct at the first use of one: `zrt_load_api` is `OrtApi` with these alone, so that no
# first answer waits for the others.
LOAD_FUNCTIONS = (
    "AddSessionConfigEntry",
    "AllocatorFree",
    "CloneSessionOptions",
    "CreateEnvWithOptions",
    "CreateKeyValuePairs",
    "CreateMemoryInfo",
    "CreateRunOptions",
    "CreateSession",
    "CreateSessionFromArray",
    "CreateSessionOptions",
    "GetAllocatorWithDefaultOptions",
    "GetAvailableProviders",
    "GetBuildInfoString",
    "HasSessionConfigEntry",
    "ReleaseAvailableProviders",
    "ReleaseEnv",
    "ReleaseKeyValuePairs",
    "ReleaseMemoryInfo",
    "ReleaseRunOptions",
    "ReleaseSession",
    "ReleaseSessionOptions",
    "SetInterOpNumThreads",
    "SetIntraOpNumThreads",
    "SetSessionGraphOptimizationLevel",
    "SetSessionLogSeverityLevel",
)

# Functions in Python that C calls: by function pointers that Python sets, or by name.
CALLBACKS = """
extern "Python" int zrt_thread_asked(void *python, zrt_thread *thread);
extern "Python" int zrt_policy_asked(void *python, const OrtEpDevice **devices, size_t count,
    const OrtKeyValuePairs *model, const OrtEpDevice **chosen, size_t capacity, size_t *chosen_count);
extern "Python" int zrt_compile_chunk(void *python, const void *data, size_t size);
extern "Python" int zrt_compile_initializer(void *python, const char *name, const OrtValue *value,
    const OrtExternalInitializerInfo *there, OrtExternalInitializerInfo **placed);
extern "Python+C" {
    int zrt_python_create(void *op, const OrtKernelInfo *info, zrt_kernel *kernel, OrtStatus **status);
    int zrt_python_compute(void *kernel, OrtKernelContext *context, const zrt_op_tensor *inputs, size_t input_count,
        size_t output_count, OrtStatus **status);
    int zrt_python_destroy(void *kernel);
    int zrt_python_infer(void *op, OrtShapeInferContext *context);
    int zrt_python_turn(void *python, size_t index);
    int zrt_run_noted(size_t key, const zrt_noted_run *noted);
}
"""

# The platforms of the released wheels, by their names in a wheel's tag: zig's names of the same targets.
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_10_15_x86_64": "x86_64-macos.10.15",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}

COMPILE_ARGS = (
    "-O3",
    "-std=gnu11",
    "-fvisibility=hidden",
    # Debug information contains the name of the scratch folder, and two builds should give the same bytes.
    "-g0",
    # In exact mode a wrong declaration shows as a function pointer of another type. Only this and the next warning are
    # errors, since cffi's generated code is compiled too; tests/_native/test_warnings.py checks ours with all of them.
    "-Werror=incompatible-pointer-types",
    # C takes an undeclared function to return an int, which cuts a pointer in half.
    "-Werror=implicit-function-declaration",
)

PREAMBLE = "\n".join(
    ["#include <stdint.h>", '#include "src/ort.h"']
    + [f'#include "{name}"' for name in DECLARATIONS if not name.startswith("decl/")]
    + ["typedef OrtApi zrt_load_api;"]
)


def declarations(folder: Path = HERE) -> str:
    """The text for `cffi.FFI.cdef`: our headers without the preprocessor's directives."""
    text = "\n".join((folder / name).read_text() for name in DECLARATIONS)
    return re.sub(r"^#(?!define).*$", "", text, flags=re.MULTILINE)


def load_api(text: str) -> str:
    """The declaration of `zrt_load_api`, made of slots of `OrtApi`."""
    body = text[text.index("struct OrtApi {") :]
    slots = {name: slot for slot, name in re.findall(r"^(    \w[^;(]*\(\*(\w+)\)[^;]*;\n)", body, re.MULTILINE)}
    wanted = "".join(slots[name] for name in LOAD_FUNCTIONS)
    return f"typedef struct {{\n{wanted}    ...;\n}} zrt_load_api;\n"


def is_later(header: str) -> bool:
    """Whether `header` is that of a later release than the declarations."""
    version = re.search(r"^#define ORT_API_VERSION (\d+)$", header, re.MULTILINE)
    return version is not None and int(version[1]) > DECLARED_VERSION


def as_in(header: str, text: str) -> str:
    """Our declarations as `header` has them: the type of one argument differs between 1.27.0 and 1.27.1, and the
    structs of later releases may go on after what we declare of them.
    """
    slot = re.search(r"AddInitializerToGraph,[^;]*;", header)
    if slot and "const OrtValue" not in slot[0]:
        text = re.sub(r"(\(\*AddInitializerToGraph\)[^;]*)const OrtValue", r"\1OrtValue", text)
    if is_later(header):
        text = re.sub(r"(struct Ort\w+ \{.*?\n)\};", r"\1    ...;\n};", text, flags=re.DOTALL)
    return text


def proof(header: str, text: str) -> str:
    """C code that compiles if the structs of `header` have their fields where our declarations have them.

    cffi compares them too, at the first use of a struct.
    """
    ffi = cffi.FFI()
    ffi.cdef(text)
    size = ">=" if is_later(header) else "=="
    lines = ["#include <stddef.h>"]
    for struct in re.findall(r"struct (Ort\w+) \{", text):
        declared = ffi.typeof(f"struct {struct}")
        lines.append(f'_Static_assert(sizeof(struct {struct}) {size} {ffi.sizeof(declared)}, "wrong size: {struct}");')
        for name, field in declared.fields:
            place = f"offsetof(struct {struct}, {name}) == {field.offset}"
            lines.append(f'_Static_assert({place}, "wrong offset: {struct}.{name}");')
    return "\n".join(lines)


def target() -> str | None:
    """The platform that `ZRT_TARGET` names; None for that of this machine."""
    name = os.environ.get("ZRT_TARGET") or None
    if name is not None and name not in TARGETS:
        raise ValueError(f"ZRT_TARGET={name} is none of {', '.join(TARGETS)}")
    return name


def free_threaded_headers() -> Path | None:
    """The folder that `ZRT_FREE_THREADED_INCLUDE` names."""
    name = os.environ.get("ZRT_FREE_THREADED_INCLUDE") or None
    if name is None:
        return None
    if not Path(name, "patchlevel.h").is_file():
        raise FileNotFoundError(f"ZRT_FREE_THREADED_INCLUDE={name}: no patchlevel.h there")
    if target() is None:
        raise ValueError("ZRT_FREE_THREADED_INCLUDE needs ZRT_TARGET: the platform of that Python")
    # cffi compiles from within the scratch folder.
    return Path(name).absolute()


def abi3() -> bool:
    """Whether the module is for Pythons with the limited API, so that it serves all later versions too."""
    return not (free_threaded_headers() or sysconfig.get_config_var("Py_GIL_DISABLED"))


def python_version() -> tuple[int, int]:
    """The version of the Python that the module is for."""
    headers = free_threaded_headers()
    if headers is None:
        return sys.version_info[:2]
    text = (headers / "patchlevel.h").read_text()
    major, minor = re.findall(r"^#define PY_M(?:AJ|IN)OR_VERSION\s+(\d+)$", text, re.MULTILINE)
    return int(major), int(minor)


def extension_filename() -> str:
    """The module's file name, with the suffix that the Python imports that it is for."""
    platform = target()
    if abi3():
        suffix = ".abi3.so"
    elif platform is None:
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
    else:
        major, minor = python_version()
        system = "darwin" if platform.startswith("macosx") else TARGETS[platform].partition(".")[0]
        suffix = f".cpython-{major}{minor}t-{system}.so"
    return NAME.rpartition(".")[2] + suffix


def use_zig(platform: str) -> None:
    """Lets setuptools compile for `platform` with zig."""
    if importlib.util.find_spec("ziglang") is None:
        raise ModuleNotFoundError(
            f"ZRT_TARGET={platform} needs the Python package ziglang, which compiles for it: pip install ziglang, and "
            "build without isolation (--no-isolation, or pip's --no-build-isolation)"
        )
    compiler = shlex.join([sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[platform]])
    # Without `-s` the module keeps the paths of zig's own C library. macOS wants leave for Python's symbols.
    link = "-shared -s" + (" -undefined dynamic_lookup" if platform.startswith("macosx") else "")
    os.environ |= {"CC": compiler, "LDSHARED": f"{compiler} {link}"}


def maker(include_dir: str | None, link_args: list[str], folder: Path = HERE) -> cffi.FFI:
    """The configured cffi builder; `include_dir` holds official headers or is None for portable mode."""
    text, source = declarations(folder), PREAMBLE
    if include_dir:
        header = (Path(include_dir) / "onnxruntime_c_api.h").read_text("utf-8")
        source = f"{source}\n{proof(header, text)}"
        text = as_in(header, text)
    ffi = cffi.FFI()
    ffi.cdef(text + load_api(text) + CALLBACKS)
    macros: list[tuple[str, str | None]] = []
    include_dirs = [str(folder), str(folder / "src")]
    headers, platform = free_threaded_headers(), target()
    if abi3():
        # The limited API of 3.10: with a later one Python.h leaves out C headers that cffi 2.0 needs.
        macros.append(("Py_LIMITED_API", "0x030A0000"))
    else:
        macros.append(("_CFFI_NO_LIMITED_API", ""))
    if headers:
        # Both kinds of a Python's build have the same headers, but for this line of pyconfig.h.
        macros.append(("Py_GIL_DISABLED", "1"))
        include_dirs.append(str(headers))
    if include_dir:
        macros.append(("ZRT_EXACT", None))
        include_dirs.append(include_dir)
    if link_args:
        macros.append(("ZRT_STATIC_CORE", None))
    darwin = platform.startswith("macosx") if platform else sys.platform == "darwin"
    ffi.set_source(
        NAME,
        source,
        sources=[str(folder / name) for name in SOURCES],
        include_dirs=include_dirs,
        define_macros=macros,
        extra_compile_args=list(COMPILE_ARGS),
        extra_link_args=link_args + ([] if darwin else ["-ldl", "-lm", "-Wl,-z,noexecstack"]),
        py_limited_api=abi3(),
    )
    return ffi


def compiled(ffi: cffi.FFI, scratch: str) -> Path:
    """Compiles the module into the folder `scratch`; returns its path."""
    try:
        return Path(ffi.compile(tmpdir=scratch, target="*"))
    except cffi.VerificationError as error:
        folders = (sysconfig.get_path("include"), sysconfig.get_config_var("INCLUDEPY"))
        headers = [Path(folder, "Python.h") for folder in folders]
        if any(header.is_file() for header in headers):
            raise
        raise FileNotFoundError(
            f"{error}. The headers of this Python are missing: there is no {headers[0]}. Linux distributions have "
            "them in a package of their own, such as python3-dev"
        ) from error


def build(target_folder: Path = HERE, folder: Path = HERE) -> Path:
    """Compiles the module from the sources in `folder` into `target_folder`; returns its path."""
    include_dir = os.environ.get("ZRT_ORT_INCLUDE_DIR") or None
    if include_dir and not (Path(include_dir) / "onnxruntime_c_api.h").is_file():
        raise FileNotFoundError(f"ZRT_ORT_INCLUDE_DIR={include_dir}: no onnxruntime_c_api.h there")
    if include_dir:
        # cffi compiles from within the scratch folder.
        include_dir = os.path.abspath(include_dir)
    try:
        link_args = shlex.split(os.environ.get("ZRT_ORT_LINK_ARGS", ""))
    except ValueError as error:
        raise ValueError(f"ZRT_ORT_LINK_ARGS: {error}") from None
    if link_args and not include_dir:
        raise ValueError("ZRT_ORT_LINK_ARGS needs ZRT_ORT_INCLUDE_DIR: the headers of the core that is linked in")
    ffi = maker(include_dir, link_args, folder)
    platform = target()
    if platform is not None:
        use_zig(platform)
    built = target_folder / extension_filename()
    # Replace the file, do not overwrite it: a running process may have the old one mapped.
    with tempfile.TemporaryDirectory(dir=target_folder) as scratch:
        module = compiled(ffi, scratch)
        module.chmod(0o755)
        return module.replace(built)


if __name__ == "__main__":
    print(build())
