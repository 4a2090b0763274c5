"""`Environment`: there is one in a process, so each of these tests runs a step of a script in a process of its own."""

from pathlib import Path

import pytest

from tests.support.threads import two_cpus


@pytest.mark.parametrize(
    "step",
    [
        "session_creates_the_default",
        "same_and_other_settings",
        "variables_that_change_later",
        "config_entries",
        # The drop-in sets these before there is an environment.
        "log_severity_before_the_environment",
        "pools_once",
        # Threads that race make one environment.
        "race",
    ],
)
def test_step_of_a_process(script, step):
    script("environment.py", step)


@pytest.mark.parametrize(
    ("severity", "info", "warning"), [("verbose", True, True), ("warning", False, True), ("error", False, False)]
)
def test_log_severity_filters_the_log(script, severity, info, warning):
    log = script("environment.py", "log_of_a_run", severity).stderr
    assert ("[I:onnxruntime:my process" in log) == info
    assert ("does not match actual shape" in log) == warning
    assert "my run" in log


class TestGlobalThreads:
    @pytest.mark.parametrize(
        "step",
        [
            "sessions_share_the_pools",
            "no_threads",
            "no_pools",
            "equal_options",
            "factory",
            "factory_that_raises",
            "bad_options",
        ],
    )
    def test_pools_of_the_environment(self, script, step):
        assert script("global_threads.py", step).stderr == ""

    @pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux alone lists a process's threads there")
    def test_number_of_threads_in_the_process(self, script):
        script("global_threads.py", "threads_of_the_process")

    def test_affinity(self, script):
        if not two_cpus():
            pytest.skip("this process may not use the first two processors")
        script("global_threads.py", "affinity")

    @pytest.mark.parametrize("zero", [False, True])
    def test_denormals(self, script, zero):
        script("global_threads.py", "denormals", zero)
