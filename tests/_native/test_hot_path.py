"""lane.c, the hot path, cannot allocate, and the GIL is free while ONNX Runtime runs."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import zrt._native
from tests.support import compiler
from zrt._native import build

NATIVE = Path(zrt._native.__file__).parent


@pytest.mark.skipif(not shutil.which("nm"), reason="no nm on the path, which lists what an object file imports")
def test_lane_imports_only_the_clock_and_the_bounded_arena(tmp_path: Path) -> None:
    module = tmp_path / "lane.o"
    # Switch off what some distributions' compilers add by themselves.
    flags = [*build.COMPILE_ARGS, "-fPIC", "-fno-stack-protector", f"-I{NATIVE}", f"-I{NATIVE / 'src'}"]
    subprocess.run([*compiler.command(), "-c", *flags, "-o", module, NATIVE / "src" / "lane.c"], check=True)
    listing = subprocess.run(["nm", "-u", module], check=True, capture_output=True, text=True).stdout
    imported = {line.split()[-1].removeprefix("_") for line in listing.splitlines()}
    # On ARM the compiler's own library has the atomic instructions; it is linked into the extension.
    atomics = {name for name in imported if re.fullmatch(r"_?aarch64_(cas|swp|ld(add|clr|eor|set))\d_\w+", name)}
    assert imported - atomics - {"GLOBAL_OFFSET_TABLE_"} == {"clock_gettime", "zrt_arena_expect"}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C code that cffi generates around our functions."""
    path = tmp_path_factory.mktemp("generated") / "ort.c"
    build.maker(None, []).emit_c_code(str(path))
    return path.read_text()


@pytest.mark.parametrize("function", ["zrt_lane_run", "zrt_lane_run_with", "zrt_plain_loop"])
def test_gil_is_free_during_a_run(generated: str, function: str) -> None:
    wrapper = generated.partition(f"_cffi_f_{function}(")[2].partition("\n}")[0]
    unlocked = re.search(r"Py_BEGIN_ALLOW_THREADS(.*)Py_END_ALLOW_THREADS", wrapper, re.DOTALL)
    assert unlocked is not None
    assert f"{function}(" in unlocked[1]
