"""Silero's detector of speech, through its ONNX models: prints the probabilities and the spans of speech as JSON.

Torch's stand-in takes part where torch is not installed.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "stand_ins"))

import silero_vad
import torch
from sound import RATE, speech

model = silero_vad.load_silero_vad(onnx=True)
sound = torch.from_numpy(speech())
iterator = silero_vad.VADIterator(model)
chunks = [sound[start : start + 512] for start in range(0, len(sound) - 511, 512)]
answers = {
    "spans": silero_vad.get_speech_timestamps(sound, model),
    "older export": silero_vad.get_speech_timestamps(sound, silero_vad.load_silero_vad(onnx=True, opset_version=15)),
    "probabilities": model.audio_forward(sound, RATE).numpy().tolist(),
    "events": [event for chunk in chunks if (event := iterator(chunk))],
    "windows at once": silero_vad.get_speech_timestamps_sequence(
        sound.numpy(), silero_vad.load_silero_vad(sequence=True)
    ),
}
print(json.dumps(answers))
