"""Ctrl-C at any moment: the exception comes after the run, and everything is usable."""

from __future__ import annotations

import pytest

from tests.robustness.conftest import Child
from tests.robustness.race import RACE

INTERRUPTED = """
feeds = {"turns": np.array(300_000), "start": np.zeros(2, np.float32)}
made = counting.lane()
bound = counting.binding()
for name, feed in feeds.items():
    made.inputs[name][...] = feed
    bound.bind_input(name, feed)
result = np.zeros(2, np.float32)
bound.bind_output("end", result)
made.outputs["end"][...] = 0
under_way = {"lane": made.audit, "binding": bound.outputs}[sys.argv[1]]

def interrupt():
    # The signal comes when the run is under way: then looking at what it uses is refused.
    while True:
        try:
            under_way()
        except zrt.errors.BusyError:
            break
    os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=interrupt)
try:
    thread.start()
    # Until a run has been caught in its midst.
    while True:
        try:
            made.run() if sys.argv[1] == "lane" else bound.run()
        except zrt.errors.BusyError:
            # The other thread was looking.
            continue
except KeyboardInterrupt:
    print("interrupted")
thread.join()
"""


@pytest.mark.parametrize("way", ["lane", "binding"])
def test_interrupt_comes_after_the_run(child: Child, way: str) -> None:
    """Ctrl-C during a run: the run goes to its end, then the exception comes, and everything is usable."""
    output = child(
        RACE,
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)",
        INTERRUPTED,
        """
        same(made.outputs["end"] if sys.argv[1] == "lane" else result, [300_000] * 2)
        for each in (made.inputs["turns"], feeds["turns"]):
            each[...] = 3
        made.run()
        bound.run()
        same(made.outputs["end"], [3, 3])
        same(result, [3, 3])
        same(counting.run(feeds)[0], [3, 3])
        print("usable")
        """,
        arguments=[way],
    )
    assert output.split() == ["interrupted", "usable"]


def test_many_interrupts(child: Child) -> None:
    """Signals at any moment of any call: KeyboardInterrupt or nothing, and at the end everything works."""
    child(
        RACE,
        """
        from tests.support.interrupts import Storm

        one = session()
        prepared = one.prepare(FEEDS)
        made = lane(one)
        bound = binding(one)
        dynamic = zrt.DynamicRuntime(one, max_buckets=2)
        interrupted = turn = 0
        with Storm() as storm:
            while interrupted < 1000:
                try:
                    storm.armed = True
                    while True:
                        turn += 1
                        one.run(FEEDS)
                        prepared.run()
                        made.run()
                        made.audit()
                        bound.run()
                        bound.numpy()
                        lane(one).run()
                        one.run([FEEDS["x"][:turn % 4], FEEDS["y"][:turn % 4]])
                        zrt.Value.from_array(FEEDS["x"]).numpy()
                        dynamic.lane({"x": turn % 4, "y": turn % 4}).run()
                        if not turn % 10:
                            session().run(FEEDS)
                except KeyboardInterrupt:
                    interrupted += 1
        gc.collect()
        same(one.run(FEEDS)[0], SUM)
        same(prepared.run()[0], SUM)
        made.run()
        made.audit()
        same(made.outputs["z"], SUM)
        bound.run()
        same(bound.numpy()["z"], SUM)
        dynamic.lane({"x": 4, "y": 4}).run()
        """,
    )
