"""The handwritten digits that ship with the classifier, which it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zrt.cli.common import shipped

INPUT: Final = "image"
SHADES: Final = " ░▒▓█"
PLAIN_SHADES: Final = " .:*#"
GREATEST_PIXEL: Final = 16
SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Digits:
    """Pictures of digits and their labels."""

    images: np.ndarray[Any, np.dtype[np.uint8]]
    labels: np.ndarray[Any, np.dtype[np.uint8]]

    @property
    def feed(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """All pictures as an input of the classifier."""
        return (self.images[:, np.newaxis] / np.float32(GREATEST_PIXEL)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Reading:
    """The classifier's predictions of known digits."""

    known: Digits
    predicted: np.ndarray[Any, np.dtype[np.int64]]
    probability: np.ndarray[Any, np.dtype[np.float32]]
    """The probability of each prediction."""

    @classmethod
    def of(cls, known: Digits, probabilities: np.ndarray[Any, Any]) -> Reading:
        """From the classifier's output."""
        return cls(known, probabilities.argmax(axis=1), probabilities.max(axis=1))

    @property
    def right(self) -> int:
        """The number of right predictions."""
        return int((self.predicted == self.known.labels).sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "predicted": self.predicted.tolist(),
            "labels": self.known.labels.tolist(),
            "right": self.right,
            "count": len(self.predicted),
        }

    def shown(self) -> list[int]:
        """The indices of the digits to show: the first ones, and the first wrong prediction."""
        wrong = np.flatnonzero(self.predicted != self.known.labels)[:1]
        first = [index for index in range(SHOWN) if index not in wrong]
        return [*first[: SHOWN - len(wrong)], *map(int, wrong)]

    def caption(self, index: int) -> str:
        """The prediction, its probability, and the label if that differs."""
        predicted, label = self.predicted[index], self.known.labels[index]
        text = f"{predicted} ({self.probability[index] * 100:.1f} %)"
        return text if predicted == label else f"{text}, it is {label}"


def held_back() -> Digits:
    """The digits that the classifier never saw in training."""
    with np.load(shipped("digits.npz")) as file:
        return Digits(file["images"], file["labels"])


def draw(image: np.ndarray[Any, np.dtype[np.uint8]], shades: str = SHADES) -> list[str]:
    """A picture in block characters, line by line; each pixel is two characters wide."""
    scaled = np.rint(image * ((len(shades) - 1) / GREATEST_PIXEL)).astype(int)
    return ["".join(shades[level] * 2 for level in row) for row in scaled]
