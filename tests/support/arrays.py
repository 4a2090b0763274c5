"""Arrays for tests: small ones, random ones, and ones that weak references can observe."""

import numpy as np

import zrt


def f32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.float32)


def random(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def on_host(value: zrt.Value) -> list[float]:
    """The float32 numbers of a value, which may lie on a device."""
    back = np.empty(value.shape, np.float32)
    zrt.copy(value, back)
    return back.tolist()


class Tracked(np.ndarray):
    """An array that accepts weak references, so that a test sees when it is freed."""
