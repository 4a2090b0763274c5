"""The budget of CPUs: a process has one or none, so most of these tests run in processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import zrt
from tests.support import processes
from tests.support.compiler import shared_library
from tests.support.libc import GLIBC
from zrt.environment import cpu_budget, cpu_limits
from zrt.errors import ArgumentError, DTypeError

STEPS = {
    1: [
        "every_way",
        "ends_while_it_waits",
        "close_while_it_waits",
        "interrupt_while_it_waits",
        "first_in_first_out",
        "run_inside_a_run",
        "child_of_a_fork",
        "computed_after_a_wait",
        "failure_after_a_wait",
        "ends_after_a_wait",
        "interrupt_after_a_wait",
        "operators_run_in_the_thread_of_their_caller",
        "operator_in_c_runs_another_session",
        "ended_run_stays_ended",
        "worker_rounds_as_the_caller",
        "worker_uses_all_cpus",
    ],
    2: ["no_more_than_fit", "computed_after_a_wait", "child_of_a_fork"],
    3: ["several_threads", "loads_in_several_threads", "options"],
}
PROGRAM = """
import numpy as np
import onnxruntime
import zrt

options = onnxruntime.SessionOptions()
{before}
session = onnxruntime.InferenceSession({model!r}, options)
session.run(None, {{session.get_inputs()[0].name: np.zeros((1, 1, 8, 8), np.float32)}})
print(zrt.Environment.cpu_budget()[:4])
"""


@pytest.mark.parametrize("cpus", STEPS)
def test_runs_under_a_budget(script, cpus):
    assert script("cpu_budget.py", cpus, *STEPS[cpus]).stderr == ""


@pytest.mark.parametrize(
    "step",
    [
        "returned_memory_takes_no_place",
        "log_callback_gets_the_lines_of_runs_that_waited",
        "drop_in_with_one_thread",
    ],
)
def test_step_of_a_new_process(script, step, monkeypatch):
    monkeypatch.setenv("ZRT_CPUS", "1")
    assert script("cpu_budget.py", 1, step).stderr == ""


@pytest.mark.skipif(not GLIBC, reason="preloads a library for glibc")
def test_run_that_waits_without_a_thread_raises(tmp_path, script, monkeypatch):
    source = (Path(__file__).parent / "scripts" / "starved.c").read_text()
    monkeypatch.setenv("LD_PRELOAD", str(shared_library(tmp_path / "starved.so", source, "-ldl")))
    script("cpu_budget.py", 1, "no_thread_for_a_worker")


class TestSize:
    def test_auto_is_what_the_process_may_use(self):
        assert cpu_budget.size_of("auto") == cpu_limits.cpus()

    @pytest.mark.parametrize(
        ("cpus", "error"),
        [
            *((bad, ArgumentError) for bad in (0, -1, 1025, "2", "", "AUTO")),
            *((bad, DTypeError) for bad in (True, 1.5, [])),
        ],
    )
    def test_bad_argument_raises(self, cpus, error):
        with pytest.raises(error, match=r"^cpus: "):
            zrt.Environment(cpus=cpus)

    @pytest.mark.parametrize("text", ["0", "-1", "1025", "two", " 2", "٢", "1.5", "9" * 5000])
    def test_bad_variable_raises(self, monkeypatch, text):
        monkeypatch.setenv("ZRT_CPUS", text)
        with pytest.raises(ArgumentError, match=r"^ZRT_CPUS: "):
            zrt.Environment()

    def test_variable(self, monkeypatch):
        for text, size in (("", 0), ("7", 7), ("auto", cpu_limits.cpus())):
            monkeypatch.setenv("ZRT_CPUS", text)
            assert cpu_budget.by_variable() == size

    def test_share_of_another_process(self, monkeypatch):
        assert cpu_budget.variables(4) == {}
        monkeypatch.setenv("ZRT_CPUS", "auto")
        assert [cpu_budget.variables(cpus) for cpus in (2.5, 0.5)] == [{"ZRT_CPUS": "2"}, {"ZRT_CPUS": "1"}]

    def test_this_process_has_none(self):
        assert zrt.Environment.cpu_budget() is None
        assert zrt.Environment().cpus is None


@pytest.mark.parametrize(
    "before", ["", "onnxruntime.set_global_thread_pool_sizes(2, 1); options.use_per_session_threads = False"]
)
def test_variable_sets_the_budget_of_a_program_on_the_drop_in(tmp_path, before, monkeypatch):
    monkeypatch.setenv("ZRT_CPUS", "3")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(before=before, model=str(Path(zrt.__file__).parent / "models" / "digits.onnx")))
    done = processes.run(sys.executable, "-m", "zrt.onnxruntime", program, timeout=120)
    assert (done.stdout, done.stderr) == ("(3, 3, 0, 1)\n", "")
