"""The lock that a forked child replaces."""

import os

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_child_has_a_free_lock_beside_one_that_its_block_holds(python):
    python("""
        import os
        import threading
        from zrt._common.fork_lock import ForkLock

        free = []
        lock = ForkLock()
        with lock.now:
            child = os.fork()
            other = threading.Thread(target=lambda: free.append(lock.now.acquire(timeout=0)))
            other.start()
            other.join()
        if child == 0:
            os._exit(10 + free[0])
        assert not free[0]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11
    """)
