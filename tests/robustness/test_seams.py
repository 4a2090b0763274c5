"""What one area makes in the hands of another: values, weights, threads, logs, policies and runs elsewhere."""

from __future__ import annotations

import os

import pytest

from tests.robustness.conftest import Child
from tests.robustness.race import RACE

# What each script here begins with.
BEGIN = """
import asyncio, gc, logging, signal, weakref
import onnx
from tests.values.test_optional import TENSOR, SEQUENCE, makes

def factory(work):
    return threading.Thread(target=work)

def built(text):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> test {text}')

def own_threads(**fields):
    return zrt.SessionOptions(intra_op_num_threads=3, thread_factory=factory, **fields)

def heard(session, act):
    # What `act` raises in the callback of a future, on the thread that hands out runs and logs.
    said, done = [], threading.Event()
    def called(_):
        try:
            # A future that is done already calls back at once, in the thread that asks.
            if threading.current_thread().name == "zrt-bridge":
                said.append(act())
        except BaseException as error:
            said.append(error)
        done.set()
    while not said:
        done.clear()
        future = session.submit(FEEDS)
        future.add_done_callback(called)
        assert done.wait(60)
    return said[0]

W = np.arange(1024, dtype=np.float32)
WEIGHTED = models.build(
    [models.node("Add", ["x", "w"], ["y"])],
    [models.tensor("x", 1, [1024])], [models.tensor("y", 1, [1024])], {"w": W},
)
LOGGED = logging.getLogger("zrt.test")
LOGGED.propagate = False
LOGGED.setLevel("DEBUG")
"""


def test_absent_optionals_of_runs_elsewhere(child: Child) -> None:
    """An absent output crashes whoever looks at it: it is None however the run was made."""
    child(
        BEGIN,
        """
        for kind in (TENSOR, SEQUENCE):
            made = makes(kind)
            for fill in (False, True) * 3:
                feeds = {"fill": np.array(fill), "x": np.ones(2, np.float32)}
                found = [made.run(feeds), made.prepare(feeds).run(), made.submit(feeds).result(60)]
                found.append(asyncio.run(made.run_async(feeds)))
                found.append(made.submit(feeds, ["o"], zrt.RunOptions()).result(60))
                assert all((each[0] is None) != fill for each in found), found
        """,
    )


def test_environment_in_the_middle_of_its_making(child: Child) -> None:
    """What would wait for itself is refused; the environment comes to be all the same."""
    printed = child(
        BEGIN,
        """
        def meddles(work):
            for act in (session, zrt.Environment):
                try:
                    act()
                except zrt.errors.UnsupportedError as error:
                    print(error, flush=True)
            if hasattr(os, "fork"):
                forked = os.fork()
                if forked == 0:
                    try:
                        session()
                    except zrt.errors.UnsupportedError:
                        os._exit(0)
                    os._exit(1)
                assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
            return factory(work)
        made = zrt.Environment(threading=zrt.ThreadingOptions(intra_op_num_threads=2, thread_factory=meddles))
        one = session(zrt.SessionOptions(use_per_session_threads=False))
        assert np.array_equal(one.submit(FEEDS).result(60)[0], SUM)
        try:
            __import__("copy").copy(made)
        except zrt.errors.NotCopyableError as error:
            print(error)
        """,
    )
    assert "is being created" in printed
    assert printed.endswith("no copy, no pickle\n")


def test_callbacks_that_would_wait_for_themselves(child: Child) -> None:
    child(
        BEGIN,
        """
        one = session()
        for act in (
            lambda: asyncio.run(one.run_async(FEEDS)),
            lambda: one.submit(FEEDS).result(),
            lambda: one.submit(FEEDS).exception(),
        ):
            error = heard(one, act)
            assert type(error) is zrt.errors.UnsupportedError, error
        # What needs no other run's end works there.
        assert np.array_equal(heard(one, lambda: session(own_threads(logger=LOGGED)).run(FEEDS))[0], SUM)
        assert heard(one, zrt.Environment.flush_log) is False
        """,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_global_pools_after_a_fork(child: Child) -> None:
    """Their threads stay in the parent: sessions of the child run on others."""
    child(
        BEGIN,
        """
        zrt.Environment(logger=LOGGED, threading=zrt.ThreadingOptions(intra_op_num_threads=3, thread_factory=factory))
        shared = zrt.SessionOptions(use_per_session_threads=False)
        before = session(shared)
        before.submit(FEEDS).result(60)
        forked = os.fork()
        if forked == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            for one in (before, session(shared), session(own_threads())):
                assert np.array_equal(one.submit(FEEDS).result(30)[0], SUM)
                assert np.array_equal(asyncio.run(one.run_async(FEEDS))[0], SUM)
            zrt.ep_devices()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
        """,
    )


def test_run_options_whose_parts_are_closed(child: Child, tmp_path) -> None:
    """Options keep what they were made of: a run elsewhere takes them as one that is here."""
    child(
        BEGIN,
        """
        model = built("(float[4] x) => (float[4] y) <float[4] w = {1, 1, 1, 1}> { y = Add(x, w) }")
        graph = model.graph
        graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [4]))
        one = zrt.Session(model, QUIET)
        path = sys.argv[1] + "/five.onnx_adapter"
        zrt.save_lora_adapter(path, {"w": np.full(4, 5, np.float32)})
        os.mkdir(sys.argv[1] + "/traces")
        adapter = zrt.LoraAdapter(path)
        options = zrt.RunOptions(adapters=[adapter], profile_file_prefix=sys.argv[1] + "/traces/t")
        adapter.close()
        feeds = {"x": np.zeros(4, np.float32)}
        for found in (
            one.run(feeds, options=options),
            one.submit(feeds, options=options).result(60),
            asyncio.run(one.run_async(feeds, options=options)),
            one.prepare(feeds).run(options),
        ):
            assert found[0].tolist() == [5] * 4
        assert options.profile_files()
        options.close()
        try:
            one.submit(feeds, options=options)
        except zrt.errors.ClosedError:
            pass
        else:
            raise AssertionError
        """,
        arguments=[tmp_path],
    )


def test_weights_in_memory_for_sessions_that_share(child: Child, tmp_path) -> None:
    """Files in memory, replicas over one copy of them, and the caller's own weights before both."""
    child(
        BEGIN,
        """
        folder = sys.argv[1]
        model = onnx.load_from_string(WEIGHTED)
        onnx.save(model, folder + "/m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        data = open(folder + "/w.bin", "rb").read()
        os.rename(folder + "/w.bin", folder + "/elsewhere")
        x = np.ones(1024, np.float32)
        own = {"w": zrt.MappedFile(folder + "/elsewhere").tensor(np.float32, (1024,), 0)}
        for options in (
            zrt.SessionOptions(intra_op_num_threads=1, external_initializer_files={"./w.bin": data}),
            own_threads(initializers=own, external_initializer_files={"w.bin": data}, logger=LOGGED),
        ):
            alone = zrt.Session(folder + "/m.onnx", options, ["CPU"], strict=True)
            futures = [alone.submit({"x": x}) for _ in range(20)]
            alone.close()
            for share in (False, True):
                with zrt.Runtime.replicate(folder + "/m.onnx", 2, options, share_weights=share) as runtime:
                    for lane in runtime:
                        lane.inputs["x"][...] = x
                        lane.run()
                        assert np.array_equal(lane.outputs["y"], W + 1)
            zrt.save_optimized(folder + "/m.onnx", folder + "/o.ort", options)
            assert np.array_equal(zrt.infer(folder + "/o.ort", {"x": x})[0], W + 1)
            assert all(np.array_equal(future.result(60)[0], W + 1) for future in futures)
        short = zrt.SessionOptions(external_initializer_files={"w.bin": data[:-1]})
        try:
            zrt.Runtime.replicate(folder + "/m.onnx", 2, short, share_weights=True)
        except zrt.errors.ModelError as error:
            assert "'w'" in str(error) and "1 bytes too soon" in str(error), error
        else:
            raise AssertionError
        """,
        arguments=[tmp_path],
    )


def test_what_knows_its_session_is_collected(child: Child) -> None:
    """A factory, policy, logger's handler or callback that holds the session keeps nothing in the process."""
    child(
        BEGIN,
        """
        class Keeper(logging.Handler):
            def emit(self, record): pass
            def choose(self, devices, metadata): return devices[:1]
            def make(self, work): return factory(work)
        def cycle():
            keeper = Keeper()
            LOGGED.addHandler(keeper)
            options = zrt.SessionOptions(intra_op_num_threads=3, thread_factory=keeper.make, logger=LOGGED)
            keeper.session = zrt.Session(ADD, options, keeper.choose)
            keeper.future = keeper.session.submit(FEEDS)
            keeper.future.add_done_callback(lambda _, keeper=keeper: keeper)
            keeper.future.result(60)
            keeper.options = [options, zrt.RunOptions(), options.effective_config_entries()]
            for bad in (b"junk", ADD):
                try:
                    zrt.Session(bad, options, ["CPU"] if bad == b"junk" else ["CUDA"])
                except zrt.Error:
                    pass
            LOGGED.removeHandler(keeper)
            return weakref.ref(keeper), weakref.ref(keeper.session)
        gone = cycle()
        zrt.Environment().flush_log()
        while any(each() is not None for each in gone) or threading.active_count() > 2:
            gc.collect()
            time.sleep(0.001)
        """,
        timeout=60,
    )


def test_an_interrupt_in_a_policy_is_not_lost(child: Child) -> None:
    """At whatever bytecode of it Ctrl-C comes: a KeyboardInterrupt, not a load that failed for no reason.

    And whatever was loaded is let go, with its threads.
    """
    child(
        BEGIN,
        """
        from tests.support.interrupts import Storm
        def first(devices, metadata):
            return devices[:1]
        interrupted = 0
        with Storm() as storm:
            while interrupted < 400:
                try:
                    storm.armed = True
                    while True:
                        zrt.Session(ADD, QUIET, first).submit(FEEDS).result(60)
                        session(own_threads())
                except KeyboardInterrupt:
                    interrupted += 1
        while threading.active_count() > 2:
            gc.collect()
            time.sleep(0.001)
        """,
        timeout=60,
    )


def test_everything_at_once(child: Child) -> None:
    """Runs of every kind of value in many ways, over what other threads close, cancel, end and drop."""
    child(
        RACE,
        BEGIN,
        """
        import concurrent.futures
        LOGGED.addHandler(logging.NullHandler())
        SETTINGS = [QUIET, own_threads(logger=LOGGED, log_severity_level="VERBOSE")]
        CHOICES = [None, zrt.DevicePolicy.PREFER_CPU, lambda devices, metadata: devices[:1]]
        strings = built("(string[n] x) => (string[n] y) { y = Identity(x) }")
        sequences = built("(seq(float[n]) s, float[n] x) => (seq(float[n]) t) { t = SequenceInsert(s, x) }")

        class Things:
            def __init__(self, turn):
                self.options = zrt.RunOptions(tag="a")
                self.add = zrt.Session(ADD, SETTINGS[turn % 2], CHOICES[turn % 3])
                self.strings = zrt.Session(strings, SETTINGS[turn % 2])
                self.sequences = zrt.Session(sequences, QUIET)
                self.optional = makes(TENSOR)
                self.future = None

        now = [Things(0)]

        def submit(turn):
            things = now[0]
            things.future = future = things.add.submit(FEEDS, options=things.options if turn % 2 else None)
            same(future.result(60)[0], SUM)

        def wait(turn):
            one = now[0].add
            async def three():
                return await asyncio.gather(*(one.run_async(FEEDS) for _ in range(3)))
            for found in asyncio.run(three()):
                same(found[0], SUM)

        def text(turn):
            given = np.array(["é" * turn, ""], object)
            same(now[0].strings.submit({"x": given}).result(60)[0], given)
            same(now[0].strings.prepare([zrt.Value.from_strings(given)]).run()[0], given)

        def lists(turn):
            feeds = [[np.ones(turn % 5, np.float32)] * 3, np.zeros(2, np.float32)]
            assert len(now[0].sequences.submit(feeds).result(60)[0]) == 4

        def absent(turn):
            feeds = {"fill": np.array(bool(turn % 2)), "x": np.ones(2, np.float32)}
            assert (now[0].optional.submit(feeds).result(60)[0] is None) == (turn % 2 == 0)

        def cancel(turn):
            if now[0].future is not None:
                now[0].future.cancel()

        def end(turn):
            options = now[0].options
            options.terminate()
            options.reset()

        def close(turn):
            former, now[0] = now[0], Things(turn)
            for each in (former.add, former.strings, former.sequences, former.optional, former.options):
                each.close()

        def drop(turn):
            now[0] = Things(turn)
            gc.collect(0)

        errors = (
            zrt.errors.ClosedError, zrt.errors.TerminatedError, zrt.errors.BusyError, concurrent.futures.CancelledError
        )
        counts = race(submit, submit, wait, text, lists, absent, cancel, end, close, drop, turns=25, errors=errors)
        assert counts[-2:] == [25, 25] and all(counts), counts
        """,
    )
