"""A page for the programs that read."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LINES = ("Invoice 2026-0417", "Total: 128.50 EUR", "Thank you for your order")


def draw() -> np.ndarray[Any, Any]:
    """Black lines of text on white: [height, width, 3] of uint8."""
    image = Image.new("RGB", (640, 320), "white")
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(28)
    for row, text in enumerate(LINES):
        pen.text((40, 40 + 80 * row), text, fill="black", font=font)
    return np.asarray(image)
