"""The kernel of one node, as its calls in Python see it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from zrt._native.library import api
from zrt.custom_ops.info import KernelInfo


class Kernel:
    """A node's kernel in Python.

    C holds it weakly: its state may refer back to the session, a cycle that only the GC sees. The strong reference is
    in `home`, a set that the session owns.
    """

    __slots__ = (
        "__weakref__",
        "aliased",
        "api",
        "compute",
        "home",
        "info",
        "lock",
        "needed",
        "on_device",
        "state",
    )

    def __init__(
        self,
        info: KernelInfo,
        compute: Callable[[Any], None],
        lock: threading.RLock | None,
        aliased: Mapping[int, int],
        on_device: bool,
        home: set[object],
    ) -> None:
        self.api = api()
        self.info = info
        self.compute = compute
        self.lock = lock
        self.aliased = aliased
        self.on_device = on_device
        self.home = home
        self.state: Any = None
        # The outputs that the model uses: `compute` must make each of them.
        self.needed = frozenset(index for index, name in enumerate(info.output_names) if name)
