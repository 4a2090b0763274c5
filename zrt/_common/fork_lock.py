"""A lock that a forked child replaces."""

from __future__ import annotations

import os
from _thread import RLock


class ForkLock:
    """A reentrant lock, `now`, and a new one in each forked child: a thread of the parent may have held the old one.

    Take it by ``with lock.now``: where the block itself forks, the child releases the lock that it holds. It is for
    modules, as the process never frees it.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.now = RLock()
