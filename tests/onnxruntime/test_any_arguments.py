"""No arguments of any kind, in any method, end the process."""

import pytest


@pytest.mark.parametrize("seed", range(2))
def test_calls_return_or_raise(script, seed) -> None:
    assert script("any_arguments.py", seed, 2000).stdout == "all calls returned or raised\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_more_calls_return_or_raise(script, seed) -> None:
    assert script("any_arguments.py", seed, 10_000).stdout == "all calls returned or raised\n"
