"""`SessionOptions.cache` where processes are forked and killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.session.chains import saved


def test_fork_waits_for_the_entry_and_children_hit(tmp_path: Path, python) -> None:
    model, folder = saved(tmp_path), tmp_path / "cache"
    code = f"""
        import os, zrt
        options = zrt.SessionOptions(cache={str(folder)!r}, intra_op_num_threads=1)
        zrt.Session({str(model)!r}, options)
        child = os.fork()
        if child == 0:
            session = zrt.Session({str(model)!r}, options)
            os._exit(session.cache not in ("hit", "miss"))
        print(os.waitpid(child, 0)[1])
    """
    assert python(code).stdout.strip() == "0"


def test_fork_in_a_load_that_the_entry_waits_for(tmp_path: Path, python) -> None:
    """Loads with bounded memory wait for each other, also that of the thread that makes the entry."""
    model, folder = saved(tmp_path), tmp_path / "cache"
    done = python(f"""
        import os, threading, time, zrt
        from zrt.session import cached_load

        def factory(work):
            global child
            if child is None:
                cached_load._making.now.release()
                # Until the other thread has it.
                end = time.monotonic() + 60
                while cached_load._making.now.acquire(blocking=False):
                    cached_load._making.now.release()
                    assert time.monotonic() < end
                    time.sleep(0.001)
                child = os.fork()
                if child == 0:
                    # Its own forks would wait for ever where the lock is not new.
                    os._exit(not cached_load._making.now.acquire(blocking=False))
            return threading.Thread(target=work)

        child = None
        # The entry is begun in the second load.
        cached_load._making.now.acquire()
        zrt.Session({str(model)!r}, zrt.SessionOptions(cache={str(folder)!r}, memory="bounded"))
        options = zrt.SessionOptions(thread_factory=factory, intra_op_num_threads=2, memory="bounded")
        zrt.Session({str(model)!r}, options)
        print(os.waitpid(child, 0)[1])
    """)
    assert done.stdout == "0\n"


@pytest.mark.skipif(sys.platform != "linux", reason="sends a signal to one thread")
def test_interrupted_fork_waits_all_the_same(python) -> None:
    done = python("""
        import signal, threading, time
        from zrt.session import cached_load

        signal.signal(signal.SIGINT, signal.default_int_handler)

        def make():
            with cached_load._making.now:
                held.set()
                time.sleep(0.5)
                events.append("made")

        events = []
        for _ in range(3):
            held = threading.Event()
            maker = threading.Thread(target=make)
            maker.start()
            held.wait()
            main = threading.main_thread().ident
            threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
            try:
                cached_load._before_fork()
            except KeyboardInterrupt:
                events.append("interrupted")
            cached_load._after_fork()
            maker.join()
        print(*events, sep="\\n")
    """)
    assert done.stdout.splitlines() == ["made", "interrupted"] * 3
    assert done.stderr == ""


@pytest.mark.parametrize(("apart", "least"), [(4, 3), pytest.param(1, 15, marks=pytest.mark.slow)])
def test_killed_at_any_step(script, tmp_path: Path, apart: int, least: int) -> None:
    done = json.loads(script("cache_kills.py", saved(tmp_path), tmp_path / "cache", apart).stdout)
    assert done["kills"] > least
    assert (done["failures"], done["last"], done["left"]) == ([], 0, [])
