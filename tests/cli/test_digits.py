from __future__ import annotations

import numpy as np

from zrt.cli import digits
from zrt.cli.digits import Digits, Reading


def reading(known: Digits, predicted: list[int]) -> Reading:
    return Reading.of(known, np.eye(10, dtype=np.float32)[predicted])


def some(labels: list[int]) -> Digits:
    return Digits(np.zeros((len(labels), 8, 8), np.uint8), np.array(labels, np.uint8))


def test_the_held_back_digits_are_there():
    known = digits.held_back()
    assert known.feed.shape == (360, 1, 8, 8)
    assert known.feed.dtype == np.float32
    assert 0 <= known.feed.min() < known.feed.max() <= 1


def test_picture_is_as_dark_as_its_pixels():
    image = np.array([[0, 16], [8, 4]], np.uint8)
    assert digits.draw(image) == ["  ██", "▒▒░░"]
    assert digits.draw(image, digits.PLAIN_SHADES) == ["  ##", "::.."]


def test_picked_digits_are_the_first_and_one_wrong_prediction():
    known = some([1, 2, 3, 4, 5, 6])
    assert digits.picked(known, reading(known, [1, 2, 3, 4, 5, 0])) == [0, 1, 2, 5]
    assert digits.picked(known, reading(known, [1, 0, 3, 4, 5, 0])) == [0, 2, 3, 1]
    assert digits.picked(known, reading(known, [1, 2, 3, 4, 5, 6])) == [0, 1, 2, 3]


def test_caption_of_a_wrong_prediction_has_the_label():
    known = some([1, 2])
    found = reading(known, [1, 7])
    assert digits.caption(known, found, 0) == "1 (100.0 %)"
    assert digits.caption(known, found, 1) == "7 (100.0 %), it is 2"
    assert found.right == 1
