import numpy as np
import pytest

from zrt.cli import digits
from zrt.cli.digits import Digits, Reading


def test_picture_is_as_dark_as_its_pixels():
    image = np.array([[0, 16], [8, 4]], np.uint8)
    assert digits.draw(image) == ["  ██", "▒▒░░"]
    assert digits.draw(image, digits.PLAIN_SHADES) == ["  ##", "::.."]


@pytest.mark.parametrize(
    ("predicted", "shown"),
    [([1, 2, 3, 4, 5, 0], [0, 1, 2, 5]), ([1, 0, 3, 4, 5, 0], [0, 2, 3, 1]), ([1, 2, 3, 4, 5, 6], [0, 1, 2, 3])],
)
def test_first_digits_and_one_wrong_prediction_are_shown(predicted, shown):
    known = Digits(np.zeros((6, 8, 8), np.uint8), np.arange(1, 7, dtype=np.uint8))
    assert Reading.of(known, np.eye(10, dtype=np.float32)[predicted]).shown() == shown
