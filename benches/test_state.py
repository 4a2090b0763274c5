"""The cost of a state that a lane carries: a step of a voice detector and of decoders, a switch between states.

onnxruntime is measured in the two ways in which its users write such a loop: `run`, with the state passed by hand, and
a binding with `OrtValue`s. The voice detector is in a package: `pip install --no-deps --group real`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from time import perf_counter_ns as clock
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

import zrt
from benches import real
from benches.models.decoder import decoder
from benches.support import ONE_THREAD, Array, Compare, Entry, Feeds, Group, contender, ort_session
from zrt._native import lib
from zrt.bench.harness import python_contender

LAYERS, HEADS, HEAD, WIDTH, WORDS, CAPACITY = 12, 12, 64, 768, 256, 2048
TOKEN = 7
# A decoder's steps in a row before it starts again, so that its length stays near the wanted one.
IN_A_ROW = 8

DECODERS = {
    "concat": {"hidden": 0},
    "concat_wide": {"hidden": 3072},
    "in_place": {"hidden": 0, "grouped": True},
    "in_place_wide": {"hidden": 3072, "grouped": True},
}
STEPS = (64, 512, 2000)
WAYS = ("ort_run", "ort_run_with_iobinding", "lane")

CACHES = [f"{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]
PAST = [f"past_key_values.{name}" for name in CACHES]
PRESENT = [f"present.{name}" for name in CACHES]


class Sessions(NamedTuple):
    """A decoder in both libraries, and a lane that takes one step."""

    theirs: Any
    lane: zrt.StatefulLane
    grouped: bool


@pytest.fixture(scope="module", params=DECODERS)
def sessions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    options = DECODERS[request.param]
    onnx.save_model(decoder(LAYERS, HEADS, HEAD, WIDTH, words=WORDS, **options), path)
    grouped = bool(options.get("grouped"))
    session = zrt.Session(path, zrt.SessionOptions(**ONE_THREAD, log_severity_level="ERROR"))
    lane = session.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(session, CAPACITY, in_place=grouped))
    lane.inputs["input_ids"][...] = TOKEN
    yield Sessions(ort_session(path), lane, grouped)
    path.unlink()


@pytest.fixture(scope="module", params=STEPS)
def decoding(request: pytest.FixtureRequest, sessions: Sessions) -> Group:
    steps = request.param
    generator = np.random.default_rng(0)
    caches = {name: generator.standard_normal((1, HEADS, steps, HEAD), np.float32) for name in PAST}
    expected = sessions.theirs.run(["logits"], {**_inputs(steps, sessions.grouped), **caches})[0]
    return Group(
        f"a step of a decoder after {steps}",
        [
            _ort_run(sessions, steps, caches, expected),
            _ort_binding(sessions, steps, caches, expected),
            _lane(sessions, steps, caches, expected),
        ],
    )


def _inputs(steps: int, grouped: bool) -> Feeds:
    """Everything but the caches, after so many steps."""
    inputs = {"input_ids": np.array([[TOKEN]]), "position_ids": np.array([[steps]])}
    if not grouped:
        return inputs | {"attention_mask": np.ones((1, steps + 1), np.int64)}
    return inputs | {
        "seqlens_k": np.array([steps], np.int32),
        "total_sequence_length": np.array(steps + 1, np.int32),
    }


def _stepping(key: str, expected: Array, start: Callable[[], Any], step: Callable[[Any], Any], read: Any) -> Entry:
    """Times steps in a row; ``start()`` returns what the first one takes, each returns what the next one takes."""

    def batch(runs: int) -> int:
        took = 0
        for first in range(0, runs, IN_A_ROW):
            current = start()
            begun = clock()
            for _ in range(min(IN_A_ROW, runs - first)):
                current = step(current)
            took += clock() - begun
        return took

    def check() -> None:
        np.testing.assert_allclose(read(step(start())), expected, rtol=1e-3, atol=1e-3)

    return Entry(contender(key, batch), check)


def _ort_run(sessions: Sessions, steps: int, caches: Feeds, expected: Array) -> Entry:
    theirs, grouped = sessions.theirs, sessions.grouped

    def step(current: tuple[int, Feeds, Any]) -> tuple[int, Feeds, Any]:
        held, past, _ = current
        logits, *present = theirs.run(None, {**_inputs(held, grouped), **past})
        return held + 1, dict(zip(PAST, present, strict=True)), logits

    return _stepping("ort_run", expected, lambda: (steps, caches, None), step, lambda current: current[2])


def _ort_binding(sessions: Sessions, steps: int, caches: Feeds, expected: Array) -> Entry:
    ort = pytest.importorskip("onnxruntime")
    theirs, grouped = sessions.theirs, sessions.grouped
    over = ort.OrtValue.ortvalue_from_numpy
    first = {name: over(array) for name, array in caches.items()}
    logits = over(np.zeros_like(expected))
    binding = theirs.io_binding()

    def step(current: tuple[int, Any]) -> tuple[int, Any]:
        held, past = current
        # The values borrow the arrays, and must outlive the run.
        values = {name: over(array) for name, array in _inputs(held, grouped).items()}
        for name, value in (*values.items(), *past.items()):
            binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output("logits", logits)
        for name in PRESENT:
            binding.bind_output(name, "cpu")
        theirs.run_with_iobinding(binding)
        return held + 1, dict(zip(PAST, binding.get_outputs()[1:], strict=True))

    return _stepping("ort_run_with_iobinding", expected, lambda: (steps, first), step, lambda _: logits.numpy())


def _lane(sessions: Sessions, steps: int, caches: Feeds, expected: Array) -> Entry:
    lane = sessions.lane
    state = lane.state
    run = lane.run

    def start() -> None:
        # Only the count changes: the content of the caches does not matter to the time.
        lib.zrt_state_restart(state._open().pointer, steps, 0)

    def fill() -> None:
        state.reset()
        if sessions.grouped:
            for name, array in caches.items():
                state[name][:, :, :steps] = array
            start()
        else:
            state.write(caches)

    entry = _stepping("lane", expected, start, lambda _: run(), lambda _: lane.outputs["logits"])

    def check() -> None:
        fill()
        run()
        np.testing.assert_allclose(lane.outputs["logits"], expected, rtol=1e-3, atol=1e-3)

    return Entry(entry.contender, check)


@pytest.mark.parametrize("way", WAYS)
def test_decoder(compare: Compare, decoding: Group, sessions: Sessions, request: Any, way: str) -> None:
    decoding.name = f"{decoding.name.split(':')[0]}: {request.node.callspec.params['sessions']}"
    compare(decoding, way)


@cache
def _detector() -> real.Model:
    return next(model for model in real.MODELS if model.file.endswith("silero_vad_16k_op15.onnx"))


@pytest.fixture(scope="module")
def detecting() -> Group:
    """A step of 32 ms: the state goes back by hand, or stays in the lane."""
    try:
        path = _detector().path
    except FileNotFoundError as error:
        pytest.skip(str(error))
    feeds = _detector().make_feeds(np.random.default_rng(0))
    theirs = ort_session(path)
    session = zrt.Session(path, zrt.SessionOptions(**ONE_THREAD))
    shapes = {name: array.shape for name, array in feeds.items() if name != "state"}
    lane = session.lane({**shapes, "state": feeds["state"].shape}, state={"stateN": "state"})
    for name in shapes:
        lane.inputs[name][...] = feeds[name]
    held = {"state": feeds["state"]}
    others = {name: feeds[name] for name in shapes}

    def by_hand(run: Callable[[Feeds], Any]) -> Callable[[], Array]:
        def step() -> Array:
            answer, held["state"] = run({**others, **held})
            output: Array = answer
            return output

        return step

    theirs_by_hand = by_hand(lambda feeds: theirs.run(None, feeds))
    ours_by_hand = by_hand(session.run)

    def start() -> None:
        held["state"] = feeds["state"]
        lane.state.reset()

    def stepped(step: Callable[[], Any], read: Callable[[Any], Array]) -> list[Array]:
        start()
        return [read(step()).copy() for _ in range(5)]

    expected = stepped(theirs_by_hand, lambda answer: answer)

    def entry(key: str, step: Callable[[], Any], read: Callable[[Any], Array]) -> Entry:
        def check() -> None:
            for result, wanted in zip(stepped(step, read), expected, strict=True):
                np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)

        return Entry(python_contender(key, key, step), check)

    return Group(
        "a step of a voice detector",
        [
            entry("ort_run", theirs_by_hand, lambda answer: answer),
            entry("session_run", ours_by_hand, lambda answer: answer),
            entry("lane", lane.run, lambda _: lane.outputs["output"]),
        ],
    )


@pytest.mark.parametrize("way", ["ort_run", "session_run", "lane"])
def test_voice_detector(compare: Compare, detecting: Group, way: str) -> None:
    compare(detecting, way)


@pytest.fixture(scope="module")
def switching(tmp_path_factory: pytest.TempPathFactory) -> Group:
    """A run of the smallest model: on one state, on another one each time, without state; and a copy of a kilobyte."""
    text = "(float[256] x, float[256] h) => (float[256] hn) { hn = Add(h, x) }"
    path: Path = tmp_path_factory.mktemp("counter") / "counter.onnx"
    onnx.save_model(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> counter {text}'), path)
    session = zrt.Session(path, zrt.SessionOptions(**ONE_THREAD))
    lane, plain = session.lane(state={"hn": "h"}), session.lane()
    states = [lane.new_state() for _ in range(1000)]
    run, run_plain = lane.run, plain.run
    one, other = np.zeros(256, np.float32), np.zeros(256, np.float32)

    def batch(way: Callable[[zrt.State], Any], runs: int) -> int:
        turns = (states * (runs // len(states) + 1))[:runs]
        begun = clock()
        for state in turns:
            way(state)
        return clock() - begun

    def nothing() -> None:
        return None

    ways: dict[str, Callable[[zrt.State], Any]] = {
        "one_state": lambda _: run(states[0]),
        "thousand_states": lambda state: run(state),
        "without_state": lambda _: run_plain(),
        "copy_of_a_kilobyte": lambda _: np.copyto(one, other),
    }
    return Group(
        "a run on a state of 1 KiB",
        [Entry(contender(key, partial(batch, way)), nothing) for key, way in ways.items()],
    )


@pytest.mark.parametrize("way", ["one_state", "thousand_states", "without_state", "copy_of_a_kilobyte"])
def test_switch(compare: Compare, switching: Group, way: str) -> None:
    compare(switching, way)
