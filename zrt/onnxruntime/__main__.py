"""`python -m zrt.onnxruntime`: runs a program in which `import onnxruntime` is this package."""

from __future__ import annotations

import io
import os
import runpy
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import CodeType, ModuleType, TracebackType

from zrt.onnxruntime import install

USAGE = """\
usage: python -m zrt.onnxruntime FILE [ARGUMENT ...]
       python -m zrt.onnxruntime -m MODULE [ARGUMENT ...]
       python -m zrt.onnxruntime -c CODE [ARGUMENT ...]

Runs a program as python does; `import onnxruntime` in it, and in all that it imports, is zrt.onnxruntime."""


def main(arguments: list[str]) -> None:
    """Run the program that these arguments name, in the place of this module.

    `runpy` puts this module back when the program's main thread ends; its other threads still need theirs.
    """
    install()
    match arguments:
        case ["-h" | "--help"]:
            print(USAGE)
            return
        case ["-m", name, *rest]:
            program, code = _module(name)
            first = str(program.__file__)
        case ["-c", text, *rest]:
            program, code = ModuleType("__main__"), compile(text, "<string>", "exec", dont_inherit=True)
            first = "-c"
            _search_first("")
        case [first, *rest] if not first.startswith("-"):
            program, code = _file(first)
        case _:
            print(USAGE, file=sys.stderr)
            sys.exit(2)
    sys.argv[:] = [first, *rest]
    sys.modules["__main__"] = program
    exec(code, program.__dict__)


def _module(name: str) -> tuple[ModuleType, CodeType]:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        sys.exit(
            f"{sys.executable}: Error while finding module specification for {name!r} (ModuleNotFoundError: {error})"
        )
    if spec is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    if spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
        if spec is None:
            missing = f"No module named {name}.__main__; {name!r} is a package and cannot be directly executed"
            sys.exit(f"{sys.executable}: {missing}")
    return _found(spec)


def _file(path: str) -> tuple[ModuleType, CodeType]:
    """A file of Python code, or a folder or zip file with a module `__main__`."""
    path = os.path.abspath(path)
    spec = PathFinder.find_spec("__main__", [path])
    if spec is not None:
        _search_first(path)
        return _found(spec)
    _search_first(os.path.dirname(os.path.realpath(path)))
    program = ModuleType("__main__")
    program.__file__, program.__loader__ = path, SourceFileLoader("__main__", path)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        reason = f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: {reason}", file=sys.stderr)
        sys.exit(2)
    return program, compile(source, path, "exec", dont_inherit=True)


def _found(spec: ModuleSpec) -> tuple[ModuleType, CodeType]:
    program = ModuleType("__main__")
    program.__file__, program.__loader__, program.__package__ = spec.origin, spec.loader, spec.parent
    program.__spec__ = spec
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    return program, code


def _search_first(folder: str) -> None:
    """Look for modules in this folder first, as python does unless the option `-P` forbids it."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an uncaught exception without the frames that started the program."""
    starters = (__file__, runpy.run_path.__code__.co_filename)
    while trace is not None and trace.tb_frame.f_code.co_filename in starters:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    sys.excepthook = _show
    main(sys.argv[1:])
