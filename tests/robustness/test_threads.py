"""Several threads at once: the right result or a typed error, no crash.

The scripts do not depend on timing: threads wait for each other, and races are repeated many times.
"""

from __future__ import annotations

import sys

import pytest

from tests.robustness.conftest import Child


def test_session_used_in_eight_threads_while_others_close_and_replace_it(child: Child) -> None:
    child("threads/session_replaced.py")


def test_session_closed_during_runs_in_eight_threads(child: Child) -> None:
    child("threads/session_closed.py")


def test_run_options_terminate_runs_of_several_threads(child: Child) -> None:
    child("threads/terminate.py")


def test_run_options_closed_and_terminated_by_other_threads(child: Child) -> None:
    child("threads/run_options.py")


def test_objects_closed_by_another_thread(child: Child) -> None:
    child("threads/closed.py")


def test_lane_used_in_eight_threads_is_whole_or_refused(child: Child) -> None:
    child("threads/one_lane.py")


def test_eight_lanes_in_eight_threads(child: Child) -> None:
    child("threads/eight_lanes.py")


def test_binding_used_in_several_threads_is_whole_or_refused(child: Child) -> None:
    child("threads/one_binding.py")


def test_dynamic_runtime_used_in_several_threads(child: Child) -> None:
    child("threads/dynamic_runtime.py")


def test_dynamic_runtime_refuses_reentrant_calls(child: Child) -> None:
    child("threads/reentrant_dynamic_runtime.py")


def test_sessions_loaded_and_dropped_in_threads(child: Child) -> None:
    child("threads/sessions.py")


def test_profiling_ended_by_another_thread(child: Child, tmp_path: object) -> None:
    child("threads/profiling.py", arguments=[tmp_path])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are those of Linux")
@pytest.mark.parametrize("field", ["intra_op_num_threads", "inter_op_num_threads"])
def test_more_threads_than_the_system_has_are_refused(child: Child, field: str) -> None:
    """ONNX Runtime hangs or crashes where a thread cannot be started: zrt must refuse such a number."""
    output = child("threads/too_many_threads.py", arguments=[field], timeout=60)
    assert output == "refused\n"


@pytest.mark.slow
def test_small_thread_stack_holds_a_model_with_many_inputs(child: Child) -> None:
    child("threads/small_stack.py")
