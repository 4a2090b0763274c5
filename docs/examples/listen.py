"""Say when somebody speaks in a WAV file, chunk by chunk, as from a microphone.

pip install --no-deps silero-vad
python listen.py speech.wav
"""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Iterator
from importlib.metadata import distribution

import numpy as np

import zrt

RATE = 16_000
CHUNK = 512  # samples: 32 ms
CONTEXT = 64  # samples of the chunk before, which the model sees again
SPEECH, SILENCE = 0.5, 0.35  # two thresholds, so that an unsure detector does not flicker
PATIENCE = 8  # silent chunks that end an utterance


def chunks(path: str) -> Iterator[np.ndarray]:
    """The file's samples between -1 and 1, a chunk at a time; the last one is padded with silence."""
    with wave.open(path) as file:
        found = file.getnchannels(), file.getsampwidth(), file.getframerate()
        if found != (1, 2, RATE):
            raise ValueError("expected one channel of 16 bits at 16,000 Hz, got {} of {} bytes at {} Hz".format(*found))
        while frames := file.readframes(CHUNK):
            samples = np.frombuffer(frames, "<i2") / np.float32(32768)
            yield np.pad(samples, (0, CHUNK - samples.size))


class Detector:
    """The probability that a chunk of a stream has speech. What the model remembers stays in the lane."""

    def __init__(self, model: str) -> None:
        session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
        shapes = {"input": (1, CONTEXT + CHUNK), "state": (2, 1, 128)}
        self.lane = session.lane(shapes, samples={"sr": RATE}, state={"stateN": "state"})
        self.lane.inputs["sr"][...] = RATE

    def probability(self, chunk: np.ndarray) -> float:
        [window] = self.lane.inputs["input"]
        window[:CONTEXT] = window[-CONTEXT:]
        window[CONTEXT:] = chunk
        self.lane.run()
        return float(self.lane.outputs["output"].item())


def main() -> None:
    parser = argparse.ArgumentParser(description="Say when somebody speaks in a WAV file.")
    parser.add_argument("wav", help="one channel of 16 bits at 16,000 Hz")
    arguments = parser.parse_args()

    detector = Detector(str(distribution("silero-vad").locate_file("silero_vad/data/silero_vad.onnx")))
    speaking, silent = False, 0
    try:
        for number, chunk in enumerate(chunks(arguments.wav)):
            probability = detector.probability(chunk)
            silent = silent + 1 if probability < SILENCE else 0
            if not speaking and probability >= SPEECH:
                speaking = True
                print(f"{number * CHUNK / RATE:6.2f} s: speech", flush=True)
            elif speaking and silent == PATIENCE:
                speaking = False
                print(f"{(number + 1 - PATIENCE) * CHUNK / RATE:6.2f} s: silence", flush=True)
    except (OSError, EOFError, ValueError, wave.Error) as error:
        sys.exit(f"{arguments.wav}: {error}")


if __name__ == "__main__":
    main()
