"""`Environment`: there is one in a process, so each of these tests runs a step of a script in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.threads import two_cpus


def test_first_session_creates_the_default_environment(script):
    done = script("environment.py", "session_creates_the_default")
    assert done.stdout.strip() == "Environment(log_id='zrt', log_severity=WARNING)"


@pytest.mark.parametrize("step", ["log_severity_before_the_environment", "pools_once"])
def test_drop_in_sets_what_the_environment_will_have(script, step):
    script("environment.py", step)


def test_same_settings_return_the_same_environment_and_others_raise(script):
    lines = script("environment.py", "same_and_other_settings").stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert "this process has its environment already, as Environment(log_id='server', log_severity=ERROR)" in line
    assert "'other' at ERROR cannot be a second one" in lines[0]


def test_settings_after_a_session_raise(script):
    done = script("environment.py", "settings_after_a_session")
    assert "Environment(log_id='zrt', log_severity=WARNING); 'server'" in done.stdout


@pytest.mark.parametrize(("severity", "logged"), [("warning", True), ("error", False)])
def test_log_severity_filters_the_log(script, severity, logged):
    done = script("environment.py", "log_of_a_run", severity)
    assert ("does not match actual shape" in done.stderr) == logged
    assert "my run" in done.stderr


def test_verbose_log_names_the_environment(script):
    done = script("environment.py", "verbose_log")
    assert "[I:onnxruntime:my process" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([5], "DTypeError", "log_id: expected a str, got int 5"),
        (["a\0b"], "ArgumentError", "log_id: 'a\\x00b' holds a NUL character"),
        (["a", "loud"], "ArgumentError", "log_severity: 'loud' is none of VERBOSE, INFO, WARNING, ERROR, FATAL"),
        (["a", 9], "ArgumentError", "log_severity: 9 is none of"),
        (["a", None], "ArgumentError", "log_severity: None is none of"),
    ],
)
def test_bad_arguments_create_no_environment(script, arguments, error, message):
    done = script("environment.py", "bad_arguments", json.dumps(arguments))
    assert done.stdout.startswith(f"{error} {message}")


def test_racing_threads_create_one_environment(script):
    script("environment.py", "race")


def test_process_exits_cleanly_with_objects_alive(script):
    """Sessions, runs, values and bindings that are alive at the interpreter's end, in a reference cycle too."""
    script("environment.py", "objects_alive_at_exit")


def test_config_entries(script):
    done = script("environment.py", "config_entries")
    assert "config_entries={'allow_virtual_devices': '1'}); 'zrt' at WARNING cannot be a second one" in done.stdout


class TestGlobalThreads:
    def test_sessions_share_the_pools(self, script):
        script("global_threads.py", "sessions_share_the_pools")

    @pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux alone lists a process's threads there")
    def test_number_of_threads_in_the_process(self, script):
        script("global_threads.py", "threads_of_the_process")

    def test_pools_without_threads(self, script):
        script("global_threads.py", "no_threads")

    def test_session_needs_an_environment_with_pools(self, script):
        script("global_threads.py", "no_pools")

    def test_equal_options_return_the_same_environment(self, script):
        script("global_threads.py", "equal_options")

    def test_thread_factory_makes_the_threads(self, script):
        assert script("global_threads.py", "factory").stderr == ""

    @pytest.mark.parametrize("before", [0, 1, 2])
    def test_thread_factory_that_raises_leaves_no_environment(self, script, before):
        """`before` threads are made first; the third one belongs to the pool between operators."""
        script("global_threads.py", "factory_that_raises", before)

    def test_affinity(self, script):
        if not two_cpus():
            pytest.skip("this process may not use the first two processors")
        script("global_threads.py", "affinity")

    @pytest.mark.parametrize("zero", [False, True])
    def test_denormals(self, script, zero):
        script("global_threads.py", "denormals", zero)

    def test_bad_options_create_no_environment(self, script):
        script("global_threads.py", "bad_options")


class TestAllocators:
    """Allocators that are registered with the environment."""

    def test_sessions_share_a_registered_allocator(self, script):
        script("environment_allocators.py", "sessions_share_it")

    def test_arena_limit_holds(self, script):
        script("environment_allocators.py", "limit")

    def test_sessions_keep_a_replaced_or_unregistered_allocator(self, script):
        script("environment_allocators.py", "replaced_and_unregistered")

    def test_allocator_without_an_arena(self, script):
        script("environment_allocators.py", "no_arena")

    def test_unsupported_memory_and_wrong_types_are_refused(self, script):
        script("environment_allocators.py", "refused")

    @pytest.mark.gpu
    def test_cuda_allocator(self, script):
        script("environment_allocators.py", "cuda")
