"""Child processes of a program on the drop-in import it too, and a log message names those that do not."""

import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import processes
from zrt.onnxruntime import children

REACHED = {"PYTHONPATH": os.pathsep.join(("/other", children.FOLDER))}
SHOW = "import importlib.util, sys; spec = importlib.util.find_spec('onnxruntime'); print(spec and spec.origin)"


def run(*command: object, cwd: Path | None = None, **variables: str) -> str:
    """The output of a child whose PYTHONPATH is as in a program on the drop-in, before the given variables."""
    path = os.pathsep.join((children.FOLDER, processes.environment()["PYTHONPATH"]))
    environment = processes.environment() | {"PYTHONPATH": path} | variables
    done = subprocess.run([*map(str, command)], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


class TestReached:
    @pytest.mark.parametrize("when", ["late", "early"])
    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_children_of_multiprocessing(self, script, method: str, when: str) -> None:
        script("start_children.py", method, when)

    @pytest.mark.parametrize("start", ["subprocess", "safe path", "grandchild", "other folder", "posix_spawn"])
    def test_children_that_are_a_program(self, script, start: str) -> None:
        assert script("start_children.py", start).stderr == ""

    @pytest.mark.parametrize("library", ["execnet", "joblib"])
    def test_children_of_libraries(self, script, library: str) -> None:
        pytest.importorskip(library)
        script("start_children.py", library)

    def test_workers_of_pytest(self, tmp_path: Path) -> None:
        (tmp_path / "test_name.py").write_text(
            "import onnxruntime\nimport pytest\n\n"
            "@pytest.mark.parametrize('number', range(4))\n"
            "def test_name(number, worker_id):\n"
            "    assert worker_id != 'master'\n"
            "    assert onnxruntime.__name__ == 'zrt.onnxruntime'\n"
        )
        # pytest-benchmark, where it is installed, warns of other processes.
        options = ("-n", "2", "-p", "no:cacheprovider", "-p", "no:benchmark")
        assert "4 passed" in run(sys.executable, "-m", "zrt.onnxruntime", "-m", "pytest", *options, tmp_path)


class TestStart:
    """A Python that starts with the folder in its PYTHONPATH."""

    def test_path_and_modules_are_as_without_it(self) -> None:
        show = "import sys; print(sys.path, sorted(sys.modules))"
        plain = run(sys.executable, "-c", show, PYTHONPATH=processes.environment()["PYTHONPATH"])
        path, modules = run(sys.executable, "-c", show).split("] [")
        assert path == plain.split("] [")[0]
        assert set(modules.split(", ")) - set(plain.split("] [")[1].split(", ")) <= {"'sitecustomize'"}

    def test_next_sitecustomize_runs(self, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("print('next')")
        path = os.pathsep.join((children.FOLDER, str(tmp_path), processes.environment()["PYTHONPATH"]))
        show = "import sitecustomize, onnxruntime; print(sitecustomize.__file__, onnxruntime.__name__)"
        assert run(sys.executable, "-c", show, PYTHONPATH=path).splitlines() == [
            "next",
            f"{tmp_path / 'sitecustomize.py'} zrt.onnxruntime",
        ]

    def test_error_of_the_next_sitecustomize_is_shown_as_python_shows_it(self, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("raise ValueError('bad')")
        for first in ([], [children.FOLDER]):
            path = os.pathsep.join((*first, str(tmp_path)))
            done = subprocess.run(
                [sys.executable, "-c", "pass"], env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0
            assert done.stderr.splitlines()[-1] == "ValueError: bad"

    @pytest.mark.parametrize("cwd", [Path("/"), processes.ROOT], ids=["elsewhere", "in the source of zrt"])
    def test_environment_without_zrt_is_left_alone(self, tmp_path: Path, cwd: Path) -> None:
        venv.create(tmp_path, with_pip=False, symlinks=True)
        python = tmp_path / "bin" / "python"
        assert run(python, "-c", SHOW, cwd=cwd, PYTHONPATH=children.FOLDER) == "None"

    def test_environment_with_another_zrt_keeps_its_onnxruntime(self, tmp_path: Path) -> None:
        for name in ("zrt", "onnxruntime"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").touch()
        path = os.pathsep.join((children.FOLDER, str(tmp_path)))
        expected = str(tmp_path / "onnxruntime" / "__init__.py")
        for show in (SHOW, "import onnxruntime; print(onnxruntime.__file__)"):
            assert run(sys.executable, "-c", show, cwd=tmp_path, PYTHONPATH=path) == expected

    def test_import_of_the_module_by_its_full_name_does_nothing(self) -> None:
        before = list(sys.meta_path), list(sys.path)
        importlib.import_module("zrt.onnxruntime.children.sitecustomize")
        assert (sys.meta_path, sys.path) == before


class TestNotReached:
    @pytest.mark.parametrize(
        ("command", "environment", "warns"),
        [
            (("python", "-c", "1"), None, True),  # This process has no such PYTHONPATH.
            (("python", "-c", "1"), {}, True),
            (("python", "-c", "1"), {"PYTHONPATH": "/other"}, True),
            (("/usr/bin/python3.12", "-c", "1"), {}, True),
            (("python3.13t",), {}, True),
            (("python", "-c", "1"), REACHED, False),
            (("python", "-c", "1"), {os.fsencode(name): os.fsencode(text) for name, text in REACHED.items()}, False),
            (("python", "-I", "app.py"), REACHED, True),
            (("python", "-uE", "app.py"), REACHED, True),
            (("python", "-X", "dev", "-S", "app.py"), REACHED, True),
            (("python", "-Xdev", "-Wignore", "--check-based-pycs", "-I"), REACHED, False),
            (("python", "-W", "ignore", "-I"), REACHED, True),
            (("python", "-c", "pass", "-I"), REACHED, False),
            (("python", "-mtool", "-I"), REACHED, False),
            (("python", "app.py", "-I"), REACHED, False),
            (("python", "-", "-I"), REACHED, False),
            (("python", "-I", "-m", "zrt.onnxruntime", "app.py"), {}, False),
            (("pythonic", "-I"), {}, False),
            (("sh", "-c", "python -I"), {}, False),
            ((b"python", Path("app.py")), {}, True),
        ],
    )
    def test_is_logged(
        self,
        command: tuple[str | bytes, ...],
        environment: Mapping[str, str] | None,
        warns: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        logged: list[str] = []
        monkeypatch.setattr(children.notices, "once", logged.append)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        children._watch("subprocess.Popen", (command[0], list(command), None, environment))
        children._watch("os.exec", (command[0], command, environment))
        children._watch("os.system", ("python",))
        assert len(logged) == 2 * warns
        assert all("app.py" not in command or message.endswith("app.py") for message in logged)

    def test_program_that_is_an_open_file_is_not_looked_at(self) -> None:
        children._watch("os.exec", (3, ["python", "-I"], {}))

    def test_is_said_by_the_parent(self) -> None:
        code = (
            "import zrt.onnxruntime, subprocess, sys; zrt.onnxruntime.install(); "
            "[subprocess.run([sys.executable, '-I', '-c', 'pass'], close_fds=each) for each in (True, False)]"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=processes.environment(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0
        [line] = done.stderr.splitlines()
        assert line.startswith("a child process has no PYTHONPATH of this one")
        assert line.endswith(f"{sys.executable} -I -c pass")

    def test_is_said_where_python_ignores_its_environment(self) -> None:
        # The packages that zrt needs may come by PYTHONPATH, as in Nix.
        path = [str(processes.ROOT), *sys.path]
        code = f"import sys; sys.path[:] = {path!r}; import zrt.onnxruntime as o; o.install()"
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120)
        assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
        assert done.stderr.startswith("this Python runs with -E, -I or -S")
