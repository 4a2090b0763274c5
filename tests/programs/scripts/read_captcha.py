"""ddddocr over a drawn word: prints the text that it reads, and the boxes that it finds on a page, as JSON."""

import io
import json
from typing import Any

import ddddocr
import numpy as np
from page import draw
from PIL import Image, ImageDraw, ImageFont


def png(image: Image.Image) -> bytes:
    """The file of an image."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def word(text: str) -> Image.Image:
    """Black on white."""
    image = Image.new("RGB", (160, 64), "white")
    ImageDraw.Draw(image).text((20, 12), text, fill="black", font=ImageFont.load_default(32))
    return image


def plain(value: Any) -> int:
    """The number for JSON."""
    assert isinstance(value, np.integer)
    return int(value)


read = ddddocr.DdddOcr(show_ad=False).classification(png(word("x7k4")))
boxes = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False).detection(png(Image.fromarray(draw())))
print(json.dumps([read, boxes], default=plain))
