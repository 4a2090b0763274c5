"""Combinations of areas: values, weights, threads, logs and policies in every kind of run."""

import asyncio
import concurrent.futures
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from tests.robustness.conftest import Child
from tests.robustness.race import race
from tests.robustness.seams import LOGGED, WEIGHTED, W, own_threads
from tests.robustness.sums import ADD, FEEDS, QUIET, SUM, same
from tests.support import models
from tests.values.test_optional import makes
from zrt.errors import BusyError, ClosedError, ModelError, TerminatedError


def test_environment_being_created_refuses_reentrant_use(child: Child) -> None:
    printed = child("seams/reentrant_environment.py")
    assert "is being created" in printed
    assert printed.endswith("no copy, no pickle\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_global_thread_pools_after_a_fork(child: Child) -> None:
    """The pools' threads stay in the parent: sessions in the child run without them."""
    child("seams/forked_global_pools.py")


def test_callback_objects_that_hold_their_session_are_collected(child: Child) -> None:
    child("seams/collected_callbacks.py", timeout=60)


def test_interrupt_in_a_policy_raises_and_leaks_nothing(child: Child) -> None:
    """Ctrl-C at any bytecode of a policy raises KeyboardInterrupt, and the loaded session is released."""
    child("seams/interrupted_policy.py", timeout=60)


@pytest.mark.parametrize("content", ["tensor", "sequence"])
def test_absent_optional_is_none_in_every_kind_of_run(content: str) -> None:
    """Reading an absent output crashes: it must be None however the run is made."""
    one = makes(content)
    for fill in (False, True) * 3:
        feeds = {"fill": np.array(fill), "x": np.ones(2, np.float32)}
        runs = (
            one.run(feeds),
            one.prepare(feeds).run(),
            one.submit(feeds).result(60),
            asyncio.run(one.run_async(feeds)),
            one.submit(feeds, ["o"], zrt.RunOptions()).result(60),
        )
        assert [results[0] is None for results in runs] == [not fill] * 5


def test_run_options_keep_closed_adapters(tmp_path: Path) -> None:
    model = models.parse("(float[4] x, float[4] w) => (float[4] y) <float[4] w = {1, 1, 1, 1}> { y = Add(x, w) }")
    one = zrt.Session(model, QUIET)
    zrt.save_lora_adapter(tmp_path / "five", {"w": np.full(4, 5, np.float32)})
    (tmp_path / "traces").mkdir()
    with zrt.LoraAdapter(tmp_path / "five") as adapter:
        options = zrt.RunOptions(adapters=[adapter], profile_file_prefix=tmp_path / "traces" / "t")
    feeds = {"x": np.zeros(4, np.float32)}
    for results in (
        one.run(feeds, options=options),
        one.submit(feeds, options=options).result(60),
        asyncio.run(one.run_async(feeds, options=options)),
        one.prepare(feeds).run(options),
    ):
        same(results[0], [5] * 4)
    assert options.profile_files()
    options.close()
    with pytest.raises(ClosedError):
        one.submit(feeds, options=options)


@pytest.mark.parametrize("initializers", [False, True], ids=["external data", "initializers"])
def test_sessions_share_weights_in_memory(tmp_path: Path, initializers: bool) -> None:
    """External weights in memory: replicas with and without sharing, and the caller's own initializers."""
    path, output = models.save_apart(WEIGHTED, tmp_path / "m.onnx", "w.bin"), tmp_path / "o.ort"
    weights = (tmp_path / "w.bin").rename(tmp_path / "elsewhere")
    data, x = weights.read_bytes(), np.ones(1024, np.float32)
    if initializers:
        own = {"w": zrt.MappedFile(weights).tensor(np.float32, (1024,), 0)}
        options = own_threads(initializers=own, external_initializer_files={"w.bin": data}, logger=LOGGED)
    else:
        options = zrt.SessionOptions(intra_op_num_threads=1, external_initializer_files={"./w.bin": data})
    with zrt.Session(path, options, ["CPU"], strict=True) as alone:
        futures = [alone.submit({"x": x}) for _ in range(20)]
    for share in (False, True):
        with zrt.Runtime.replicate(path, 2, options, share_weights=share) as runtime:
            for lane in runtime:
                lane.inputs["x"][...] = x
                lane.run()
                same(lane.outputs["y"], W + 1)
    zrt.save_optimized(path, output, options)
    same(zrt.infer(output, {"x": x})[0], W + 1)
    for future in futures:
        same(future.result(60)[0], W + 1)
    short = zrt.SessionOptions(external_initializer_files={"w.bin": data[:-1]})
    with pytest.raises(ModelError, match=r"'w'.*1 bytes too soon"):
        zrt.Runtime.replicate(path, 2, short, share_weights=True)


class Objects:
    """Sessions over values of every kind."""

    def __init__(self, turn: int) -> None:
        options = [QUIET, own_threads(logger=LOGGED, log_severity_level="VERBOSE")][turn % 2]
        providers = [None, zrt.DevicePolicy.PREFER_CPU, lambda devices, metadata: devices[:1]][turn % 3]
        self.options = zrt.RunOptions(tag="a")
        self.add = zrt.Session(ADD, options, providers)
        self.strings = zrt.Session(models.parsed("(string[n] x) => (string[n] y) { y = Identity(x) }"), options)
        self.sequences = zrt.Session(
            models.parsed("(seq(float[n]) s, float[n] x) => (seq(float[n]) t) { t = SequenceInsert(s, x) }"), QUIET
        )
        # A session of its own, which may be closed.
        self.optional = makes.__wrapped__("tensor")
        self.future: Any = None

    def close(self) -> None:
        for item in (self.add, self.strings, self.sequences, self.optional, self.options):
            item.close()


def test_all_kinds_of_runs_race_with_close_and_cancel() -> None:
    """Runs of every kind of value in many ways, while other threads close, cancel, terminate and drop."""
    now = [Objects(0)]

    def submit(turn: int) -> None:
        held = now[0]
        held.future = future = held.add.submit(FEEDS, options=held.options if turn % 2 else None)
        same(future.result(60)[0], SUM)

    def wait(turn: int) -> None:
        one = now[0].add

        async def three() -> list[Any]:
            return await asyncio.gather(*(one.run_async(FEEDS) for _ in range(3)))

        for results in asyncio.run(three()):
            same(results[0], SUM)

    def text(turn: int) -> None:
        strings = np.array(["é" * turn, ""], object)
        same(now[0].strings.submit({"x": strings}).result(60)[0], strings)
        same(now[0].strings.prepare([zrt.Value.from_strings(strings)]).run()[0], strings)

    def lists(turn: int) -> None:
        feeds = [[np.ones(turn % 5, np.float32)] * 3, np.zeros(2, np.float32)]
        assert len(now[0].sequences.submit(feeds).result(60)[0]) == 4

    def absent(turn: int) -> None:
        feeds = {"fill": np.array(bool(turn % 2)), "x": np.ones(2, np.float32)}
        assert (now[0].optional.submit(feeds).result(60)[0] is None) == (turn % 2 == 0)

    def cancel(turn: int) -> None:
        if now[0].future is not None:
            now[0].future.cancel()

    def end(turn: int) -> None:
        options = now[0].options
        options.terminate()
        options.reset()

    def close(turn: int) -> None:
        former, now[0] = now[0], Objects(turn)
        former.close()

    def drop(turn: int) -> None:
        now[0] = Objects(turn)
        gc.collect(0)

    errors = (ClosedError, TerminatedError, BusyError, concurrent.futures.CancelledError)
    counts = race(submit, submit, wait, text, lists, absent, cancel, end, close, drop, turns=25, errors=errors)
    assert counts[-2:] == [25, 25]
    assert all(counts)
