"""Bindings of a session with inputs and outputs that are bound already."""

from collections.abc import Mapping
from typing import Any

import zrt


def bind(session: zrt.Session, feeds: Mapping[str, Any], *outputs: str, **places: Any) -> zrt.IoBinding:
    """A binding of these feeds, of `outputs` that ORT allocates, and of outputs in given `places`, in this order."""
    binding = session.binding()
    for name, feed in feeds.items():
        binding.bind_input(name, feed)
    for name in outputs:
        binding.bind_output(name)
    for name, place in places.items():
        binding.bind_output(name, place)
    return binding


def ran(binding: zrt.IoBinding) -> dict[str, Any]:
    """The numbers of the outputs after one more run."""
    binding.run()
    return {name: array.tolist() for name, array in binding.numpy().items()}
