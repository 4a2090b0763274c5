"""Functions in threads that begin together. A thread that raises or hangs fails the test."""

import threading
from collections.abc import Callable


def in_threads(*functions: Callable[[], object]) -> None:
    """Calls each function in a thread of its own; all begin together."""
    barrier = threading.Barrier(len(functions))
    failures = []

    def begin(function: Callable[[], object]) -> None:
        try:
            barrier.wait(60)
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=begin, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
