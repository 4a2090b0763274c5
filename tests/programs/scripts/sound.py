"""Sound for the programs: syllables between silence, made from pulses of a voice and the formants of vowels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import signal

RATE = 16_000
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240))
BANDWIDTHS = (80, 90, 120)


def speech(seconds: float = 3.0) -> np.ndarray[Any, Any]:
    """A voice that says vowels for the middle of that time; mono, float32, 16 kHz."""
    generator = np.random.default_rng(0)
    sound = 0.0005 * generator.standard_normal(int(seconds * RATE))
    start = len(sound) // 4
    for index in range(int(seconds / 2 / 0.2)):
        said = _syllable(VOWELS[index % len(VOWELS)], 0.16, generator)
        sound[start : start + len(said)] += said
        start += int(0.2 * RATE)
    return sound.astype(np.float32)


def _syllable(formants: tuple[int, ...], seconds: float, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    count = int(seconds * RATE)
    pitch = 120 + 15 * np.sin(np.linspace(0, 3, count))
    pulses = np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0)
    voice = signal.lfilter([1], [1, -0.95], pulses) + 0.01 * generator.standard_normal(count)
    for formant, bandwidth in zip(formants, BANDWIDTHS, strict=True):
        radius = np.exp(-np.pi * bandwidth / RATE)
        angle = 2 * np.pi * formant / RATE
        voice = signal.lfilter([1 - radius], [1, -2 * radius * np.cos(angle), radius**2], voice)
    voice *= np.hanning(count)
    return 0.4 * voice / np.abs(voice).max()
