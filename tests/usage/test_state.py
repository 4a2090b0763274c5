"""Programs that run a model in a loop, as users write them."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import zrt
from benches.models.decoder import decoder

RATE = 16_000
CHUNK, BEFORE = 512, 64


def detector_file() -> Path:
    """The voice detector inside the package silero-vad, which the group `real` has."""
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no package silero-vad: run `pip install --no-deps --group real`")
    return Path(spec.submodule_search_locations[0], "data", "silero_vad.onnx")


def sound(seconds: float) -> np.ndarray:
    """Silence, then a voice-like buzz, then silence."""
    times = np.arange(int(seconds * RATE)) / RATE
    buzz = sum(np.sin(2 * np.pi * 140 * k * times) / k for k in range(1, 20))
    loud = (times > seconds / 3) & (times < 2 * seconds / 3)
    noise = 0.001 * np.random.default_rng(0).standard_normal(times.size)
    return (0.3 * buzz * loud * (1 + np.sin(2 * np.pi * 4 * times)) + noise).astype(np.float32)


def windows(samples: np.ndarray) -> np.ndarray:
    """Chunks of 32 ms, each after the last 4 ms of the chunk before."""
    padded = np.concatenate([np.zeros(BEFORE, np.float32), samples])
    count = samples.size // CHUNK
    return np.stack([padded[place : place + BEFORE + CHUNK] for place in range(0, count * CHUNK, CHUNK)])


def test_voice_detector_listens_to_a_stream():
    session = zrt.Session(detector_file(), zrt.SessionOptions(intra_op_num_threads=1))
    shapes = {"input": (1, BEFORE + CHUNK), "state": (2, 1, 128), "sr": ()}
    lane = session.lane(shapes, state={"stateN": "state"})
    lane.inputs["sr"][...] = RATE
    speech = []
    for chunk in windows(sound(1.5)):
        lane.inputs["input"][...] = chunk
        lane.run()
        speech.append(float(lane.outputs["output"][0, 0]))

    state, expected = np.zeros((2, 1, 128), np.float32), []
    for chunk in windows(sound(1.5)):
        probability, state = session.run({"input": chunk[None], "state": state, "sr": np.array(RATE)})
        expected.append(float(probability[0, 0]))
    np.testing.assert_allclose(speech, expected, atol=1e-5)
    np.testing.assert_allclose(lane.state["state"], state, atol=1e-5)
    lane.state.reset()
    assert not lane.state["state"].any()


def test_threads_serve_many_callers():
    """Each thread has a lane; each caller has a state, and waits for its turn."""
    session = zrt.Session(decoder(), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="ERROR"))
    runtime = zrt.Runtime(session, 2, shapes={"input_ids": (1, 1)}, state=zrt.kv_cache(session, 8))
    lanes = [lane for lane in runtime if isinstance(lane, zrt.StatefulLane)]
    states = [lanes[0].new_state() for _ in range(20)]
    answers: dict[int, list[int]] = {}

    def serve(which: int) -> None:
        lane = lanes[which]
        for caller in range(which, len(states), len(lanes)):
            token, answers[caller] = caller % 5, []
            for _ in range(8):
                lane.inputs["input_ids"][...] = token
                lane.run(states[caller])
                token = int(lane.outputs["logits"].argmax())
                answers[caller].append(token)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(serve, range(2)))
    assert len(answers) == 20
    assert all(answers[caller] == answers[caller % 5] for caller in range(20))
