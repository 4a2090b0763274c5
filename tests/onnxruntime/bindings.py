"""A binding for the tests of `IOBinding`, and the result of its run."""

from typing import Any

import numpy as np

ONES = np.ones(4, np.float32)


def bound(session: Any, x: Any = ONES, y: Any = ONES) -> Any:
    """A binding of both inputs of the fixture `session`, and of its output."""
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_cpu_input("y", y)
    binding.bind_output("z")
    return binding


def result(session: Any, binding: Any) -> Any:
    """The elements of the first output after a run."""
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0].tolist()
