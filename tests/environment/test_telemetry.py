"""ONNX Runtime's telemetry, which Microsoft's builds have since 1.29: zrt switches it off."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import zrt
from tests.conftest import official_problem
from tests.support import compiler, models, processes
from zrt.environment import cuda_parts, telemetry

SCRIPTS = Path(__file__).parent / "scripts"
ZRT, OFFICIAL = SCRIPTS / "no_telemetry.py", SCRIPTS / "onnxruntime_program.py"
# The module that takes the place of the one that OFFICIAL names.
DROP_IN = Path(zrt.__file__).parent / "onnxruntime" / "capi" / "onnxruntime_pybind11_state.py"
SWITCHED_ON = {"ORT_DISABLE_TELEMETRY": "0"}

# The values of variables, and the variable that switches telemetry off with them.
SWITCHES = [
    ({"ORT_DISABLE_TELEMETRY": "1"}, "ORT_DISABLE_TELEMETRY"),
    ({"ORT_DISABLE_TELEMETRY": " Yes\n"}, "ORT_DISABLE_TELEMETRY"),
    ({"ORT_DISABLE_TELEMETRY": "y", "CI": "1"}, "ORT_DISABLE_TELEMETRY"),
    ({"ORT_DISABLE_TELEMETRY": "0"}, None),
    ({"ORT_DISABLE_TELEMETRY": ""}, None),
    ({"ORT_DISABLE_TELEMETRY": "t"}, None),
    ({**SWITCHED_ON, "CI": "n"}, "CI"),
    ({**SWITCHED_ON, "CI": " OFF "}, None),
    ({**SWITCHED_ON, "ORT_RUNNING_UNIT_TESTS": "2"}, "ORT_RUNNING_UNIT_TESTS"),
    ({**SWITCHED_ON, "BUILDKITE": "true"}, "BUILDKITE"),
    ({**SWITCHED_ON, "SYSTEM_TEAMFOUNDATIONCOLLECTIONURI": "false"}, None),
]


def run(command, variables):
    """Runs a child with these variables; returns its output."""
    options = {"cwd": processes.ROOT, "env": variables, "stdin": subprocess.DEVNULL, "timeout": 120}
    done = processes.run(sys.executable, *command, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "add.onnx"
    path.write_bytes(models.add([4]))
    return path


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
def test_telemetry_starts_no_thread_and_writes_no_file(tmp_path, model):
    assert run([ZRT, model], processes.plain_environment(tmp_path)) == "0"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("chosen", ["0", "1", ""])
def test_telemetry_variable_of_the_user_stays(tmp_path, chosen):
    variables = processes.plain_environment(tmp_path) | {"ORT_DISABLE_TELEMETRY": chosen}
    code = "import os, zrt; zrt.Session; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    assert run(["-c", code], variables) == chosen


@pytest.mark.parametrize(("variables", "switch"), SWITCHES)
def test_variable_that_switches_off(monkeypatch, variables, switch):
    for name in telemetry.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert telemetry.switched_off_by() == switch


@pytest.mark.parametrize(("variables", "switch"), SWITCHES)
def test_library_leaves_files_only_if_it_can_report_and_no_variable_switches_it_off(tmp_path, variables, switch):
    able = telemetry.can_report(cuda_parts.core_file())
    if not able and variables != SWITCHED_ON:
        pytest.skip("this library has no telemetry, with which these variables make no difference")
    code = "from zrt.environment import environment; environment.current()"
    run(["-c", code], processes.plain_environment(tmp_path) | variables)
    assert bool(list(tmp_path.iterdir())) is (able and switch is None)


def test_library_that_can_report_has_the_collectors_address(tmp_path):
    file = tmp_path / "library.so"
    assert telemetry.can_report(str(file)) is None
    file.write_bytes(b"")
    assert telemetry.can_report(str(file)) is None
    file.write_bytes(b"\x7fELF" + bytes(5000))
    assert telemetry.can_report(str(file)) is False
    file.write_bytes(bytes(5000) + b"https://mobile.events.data.microsoft.com/OneCollector/1.0/\0")
    assert telemetry.can_report(str(file)) is True


class Program:
    """A child whose calls to a network are recorded, and whose folders are empty at its start."""

    def __init__(self, folder: Path, recorder: Path, command: list[object], variables: dict[str, str]) -> None:
        self.home, self._calls = folder / "home", folder / "calls"
        self.home.mkdir(parents=True)
        own = {"LD_PRELOAD": str(recorder), "ZRT_NETWORK_CALLS": str(self._calls)}
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=self.home,
            env=processes.plain_environment(self.home) | own | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.line = ""

    def wait_for_runs(self) -> None:
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().strip()
        assert self.line, self.process.communicate()

    def calls(self) -> set[str]:
        return set(self._calls.read_text("utf-8").split()) if self._calls.exists() else set()

    def end(self) -> None:
        _, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors


@pytest.fixture(scope="module")
def programs(tmp_path_factory, model) -> dict[str, Program]:
    """Programs that have ended. Those that must not report lived for longer than those that do took to try it."""
    if sys.platform != "linux":
        pytest.skip("the recorder names Linux's calls")
    folder = tmp_path_factory.mktemp("programs")
    recorder = compiler.shared_library(folder / "recorder.so", (SCRIPTS / "network_calls.c").read_text("utf-8"))
    commands: dict[str, tuple[list[object], dict[str, str]]] = {
        "zrt": ([ZRT, model], {}),
        "drop-in": (["-m", "zrt.onnxruntime", OFFICIAL, model], {}),
        "zrt, switched on": ([ZRT, model], SWITCHED_ON),
    }
    if official_problem() is None:
        commands["onnxruntime"] = ([OFFICIAL, model], {})
    started: dict[str, Program] = {}
    with ExitStack() as stack:
        for name, (command, variables) in commands.items():
            started[name] = program = Program(folder / name, recorder, command, variables)
            stack.enter_context(program.process)
            program.wait_for_runs()
        reporting = [started["zrt, switched on"]] if telemetry.can_report(cuda_parts.core_file()) else []
        if "onnxruntime" in started and telemetry.can_report(started["onnxruntime"].line):
            reporting.append(started["onnxruntime"])
        # ONNX Runtime sends its first report after some 9 seconds.
        end = time.monotonic() + 60
        while not all("connect" in program.calls() for program in reporting) and time.monotonic() < end:
            time.sleep(0.05)
        for program in started.values():
            program.end()
    return started


@pytest.mark.parametrize(("name", "line"), [("zrt", "0"), ("drop-in", str(DROP_IN))])
def test_no_program_connects_or_leaves_a_file(programs, name, line):
    program = programs[name]
    assert program.line == line
    assert program.calls() == set()
    assert list(program.home.rglob("*")) == []


@pytest.mark.parametrize("name", ["zrt, switched on", pytest.param("onnxruntime", marks=pytest.mark.official)])
def test_recorder_sees_the_reports_of_a_program_with_telemetry(programs, name):
    program = programs[name]
    file = program.line if name == "onnxruntime" else cuda_parts.core_file()
    if not telemetry.can_report(file):
        pytest.skip(f"there is no telemetry in {file}")
    assert "connect" in program.calls()
    assert [path.name for path in program.home.rglob("onnxruntime.db")]
