"""`python -m zrt.onnxruntime`: a program runs as python itself runs it, and its onnxruntime is this package."""

import signal
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from tests.support import processes
from zrt.onnxruntime import __main__ as runner

RUNNER = ("-m", "zrt.onnxruntime")
SHOW = """\
import sys, threading
main = sys.modules["__main__"]
print(__name__, __file__ if "__file__" in globals() else None, __package__, __spec__ and __spec__.name, __doc__)
print(main.__dict__ is globals(), {"__builtins__", "__doc__", "__loader__", "__package__"} <= set(globals()))
print(sys.argv)
print(sys.path[:2])
sys.stdout.flush()
# The module stays: a thread needs it after the program's last line.
thread = threading.Thread(target=lambda: (threading.main_thread().join(), print(sys.modules["__main__"] is main)))
thread.start()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=processes.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        # A shell may have this process ignore interrupts, and children inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that show what they are, as a file, a module, a package, a folder and a zip file."""
    (tmp_path / "app.py").write_text(SHOW)
    (tmp_path / "link.py").symlink_to("linked/app.py")
    for folder in ("linked", "package", "plain"):
        (tmp_path / folder).mkdir()
    (tmp_path / "linked" / "app.py").write_text(SHOW)
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "__main__.py").write_text(SHOW)
    (tmp_path / "package" / "module.py").write_text(SHOW)
    (tmp_path / "plain" / "__main__.py").write_text(SHOW)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    return tmp_path


class TestProgram:
    @pytest.mark.parametrize(
        ("options", "program"),
        [
            ((), ("app.py", "-x", "y")),
            ((), ("link.py",)),
            ((), ("package/module.py",)),
            ((), ("plain",)),
            ((), ("app.zip", "z")),
            ((), ("-m", "app", "-m", "y")),
            ((), ("-m", "package", "--help")),
            ((), ("-m", "package.module")),
            ((), ("-c", SHOW, "-c", "x")),
            (("-P",), ("app.py",)),
            (("-P",), ("-c", SHOW)),
        ],
    )
    def test_program_sees_what_python_shows_it(
        self, programs: Path, options: tuple[str, ...], program: tuple[str, ...]
    ) -> None:
        expected, answer = (run(programs, *options, *start, *program) for start in ((), RUNNER))
        assert expected.returncode == 0, expected.stderr
        assert expected.stdout.endswith("\nTrue\n")
        assert (answer.stdout, answer.stderr, answer.returncode) == (expected.stdout, expected.stderr, 0)

    def test_onnxruntime_in_it_is_this_package(self, tmp_path: Path) -> None:
        (tmp_path / "helper.py").write_text("import onnxruntime as ort\n")
        (tmp_path / "app.py").write_text("import helper, sys\nprint(helper.ort.__name__, sys.modules['onnxruntime'])\n")
        done = run(tmp_path, *RUNNER, "app.py")
        assert done.stdout.startswith("zrt.onnxruntime <module 'zrt.onnxruntime' from"), done.stderr

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_its_child_processes_import_this_package(self, tmp_path: Path, method: str) -> None:
        (tmp_path / "app.py").write_text(
            "import multiprocessing, onnxruntime\n"
            "def show(): print(onnxruntime.__name__)\n"
            "if __name__ == '__main__':\n"
            f"    child = multiprocessing.get_context({method!r}).Process(target=show)\n"
            "    child.start(); child.join(); print(child.exitcode)\n"
        )
        done = run(tmp_path, *RUNNER, "app.py")
        assert done.stdout == "zrt.onnxruntime\n0\n", done.stderr


class TestEnd:
    ENDS = (
        "import sys\nsys.exit(3)",
        "import sys\nsys.exit('bye')",
        "def f():\n    raise ValueError('bad')\nf()",
        "raise RuntimeError('two') from KeyError('one')",
        "x = (",
        "import no_such_module",
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)",
    )

    @pytest.mark.parametrize("code", ENDS)
    def test_status_and_error_are_those_of_python(self, tmp_path: Path, code: str) -> None:
        (tmp_path / "app.py").write_text(code)
        expected, answer = (run(tmp_path, *start, "app.py") for start in ((), RUNNER))
        assert expected.returncode != 0
        assert (answer.stderr, answer.returncode) == (expected.stderr, expected.returncode)

    @pytest.mark.parametrize(
        "program",
        [("absent.py",), ("-m", "absent"), ("-m", "absent.module"), ("-m", "package"), ("-m", "package.absent")],
    )
    def test_missing_program_is_the_error_of_python(self, tmp_path: Path, program: tuple[str, ...]) -> None:
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "__init__.py").touch()
        expected, answer = (run(tmp_path, *start, *program) for start in ((), RUNNER))
        assert answer.returncode == expected.returncode
        assert answer.stderr == expected.stderr


class TestUsage:
    @pytest.fixture(autouse=True)
    def kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """This process keeps its onnxruntime."""
        monkeypatch.setattr(runner, "install", lambda: None)

    @pytest.mark.parametrize("argument", ["--help", "-h"])
    def test_usage_is_printed(self, argument: str, capsys: pytest.CaptureFixture[str]) -> None:
        runner.main([argument])
        assert "usage: python -m zrt.onnxruntime FILE" in capsys.readouterr().out

    @pytest.mark.parametrize("arguments", [[], ["-m"], ["-x"]])
    def test_usage_is_printed_as_an_error(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            runner.main(arguments)
        assert "usage: python -m zrt.onnxruntime FILE" in capsys.readouterr().err
