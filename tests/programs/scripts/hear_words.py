"""All wake words of openwakeword over a stream of sound: prints the scores of each chunk as JSON.

The package asks for CUDA first, which the official package skips with a warning where it has no CUDA.
"""

import json

import numpy as np
from openwakeword.model import Model
from sound import speech

model = Model()
sound = (speech() * 32767).astype(np.int16)
scores = [model.predict(sound[start : start + 1280]) for start in range(0, len(sound) - 1279, 1280)]
print(json.dumps([{word: float(score) for word, score in chunk.items()} for chunk in scores]))
