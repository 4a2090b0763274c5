"""The lines that install what is missing, from a clone and from a wheel; the errors about an incomplete zrt."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import zrt
from zrt._common import installation

Run = Callable[..., subprocess.CompletedProcess[str]]

FIRST_USE = "import zrt; zrt.Session"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a copy of zrt, as pip unpacks a wheel."""
    built = shutil.ignore_patterns("__pycache__", "hatch_build.py")
    shutil.copytree(Path(zrt.__file__).parent, tmp_path / "site" / "zrt", ignore=built)
    return tmp_path / "site"


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Runs Python with that copy in front of the installed zrt."""

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    return start


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("clone", [False, True])
def test_lines_name_the_clone_or_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clone: bool) -> None:
    (tmp_path / "_native").mkdir()
    if clone:
        (tmp_path / "_native" / "hatch_build.py").touch()
    monkeypatch.setattr(installation, "_PACKAGE", str(tmp_path))
    package = f'-e "{tmp_path.parent}' if clone else '"zrt-onnx'
    assert installation.install_line("score") == f'pip install {package}[score]"'
    error = installation.unusable_module(ImportError("No module named '_ort'", name="_ort"))
    assert str(error).startswith("the compiled module of zrt cannot be imported (No module named ")
    if clone:
        assert f'Compile it: pip install -e "{tmp_path.parent}".' in str(error)
        assert str(error).endswith("start Python in another folder, and it imports that one")
    else:
        assert str(error).endswith("Install zrt again, for this Python: pip install --force-reinstall zrt-onnx")


class TestCompiledModule:
    @pytest.mark.parametrize("missing", [True, False])
    def test_error_has_the_reason_and_the_name_of_the_module(self, run: Run, site: Path, missing: bool) -> None:
        [module] = (site / "zrt" / "_native").glob("_ort*.so")
        if missing:
            module.unlink()
        else:
            module.write_bytes(b"")
        script = "try: from zrt import Session\nexcept ImportError as error: print(error.name, error.path, error)"
        reason = "zrt._native._ort None" if missing else f"_ort {module}"
        told = "No module named 'zrt._native._ort'" if missing else f"{module}: "
        printed = run("-c", script).stdout
        assert printed.startswith(f"{reason} the compiled module of zrt cannot be imported (")
        assert told in printed


class TestNamesake:
    """Somebody else's package `zrt` in the same folder; it has a file zrt/__init__.py too."""

    def test_import_beside_it_warns_the_importing_line(self, run: Run, site: Path, tmp_path: Path) -> None:
        (site / "zrt-0.1.2.dist-info").mkdir()
        (tmp_path / "program.py").write_text("\nimport zrt\nprint(zrt.Session.__name__)\n")
        done = run("program.py")
        assert done.stdout == "Session\n"
        [warning] = [line for line in done.stderr.splitlines() if "Warning" in line]
        assert warning.startswith(f"{tmp_path / 'program.py'}:2: UserWarning: another package, zrt-0.1.2, is installed")
        assert warning.endswith("pip uninstall zrt; pip install --force-reinstall --no-deps zrt-onnx")

    def test_import_is_silent_without_it(self, run: Run, site: Path) -> None:
        for name in ("zrt_onnx-0.1.0", "zrt_other-1.0", "zrtx-1.0"):
            (site / f"{name}.dist-info").mkdir()
        done = run("-W", "error", "-c", FIRST_USE)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize(
        "arguments", [["-m", "zrt", "info"], ["-c", "import zrt.onnxruntime as ort; ort.InferenceSession"]]
    )
    def test_use_under_its_init_file_raises(self, run: Run, site: Path, arguments: list[str]) -> None:
        init = site / "zrt" / "__init__.py"
        init.write_text('__version__ = "0.1.2"\n')
        check_replaced(run(*arguments), init)

    def test_use_without_an_init_file_raises(self, run: Run, site: Path) -> None:
        """Its uninstallation removed the file."""
        init = site / "zrt" / "__init__.py"
        init.unlink()
        # An installed zrt elsewhere, which has the file, would come first.
        alone = (
            "import os, sys; sys.path = [each for each in sys.path if not os.path.isfile(f'{each}/zrt/__init__.py')]"
        )
        check_replaced(run("-c", f"{alone}; import zrt._native.library"), init)


def check_replaced(done: subprocess.CompletedProcess[str], init: Path) -> None:
    error = last_line(done)
    assert error.startswith(f"ImportError: {init} is not the file of zrt-onnx: another package named zrt was installed")
    assert error.endswith("pip uninstall zrt; pip install --force-reinstall --no-deps zrt-onnx")
