"""Read the text in the images of a folder.

pip install pillow scipy
pip install --no-deps rapidocr-onnxruntime
python read_pages.py pages
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

import zrt

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
INK = 0.3  # the least probability of a pixel to be part of a text
SURE = 0.6  # the least mean probability of a line
HEIGHT = 48  # of the lines that the second model reads
LARGEST = 1536  # the longest side of a page; larger ones are made smaller


class Reader:
    """Two models of rapidocr-onnxruntime: one finds lines of text, one reads a line."""

    def __init__(self) -> None:
        folder = Path(str(distribution("rapidocr-onnxruntime").locate_file("rapidocr_onnxruntime/models")))
        # Pages are read beside each other, on a thread each. "bounded" gives the memory of a large one back.
        options = zrt.SessionOptions(intra_op_num_threads=1, memory="bounded")
        self.finder = zrt.Session(folder / "ch_PP-OCRv4_det_infer.onnx", options)
        self.reader = zrt.Session(folder / "ch_PP-OCRv4_rec_infer.onnx", options)
        characters = self.reader.metadata.custom_metadata_map["character"].splitlines()
        self.characters = np.array(["", *characters, " "])  # the first one separates equal letters

    def boxes(self, page: Image.Image) -> Iterator[tuple[int, int, int, int]]:
        """The left, upper, right and lower edges of the lines, from top to bottom. They have to be horizontal."""
        scale = min(1.0, LARGEST / max(page.size))
        width, height = (max(32, round(size * scale / 32) * 32) for size in page.size)
        [[[ink]]] = self.finder.run({"x": pixels(page.resize((width, height)))})
        lines, _ = ndimage.label(ink > INK)
        for number, (rows, columns) in enumerate(ndimage.find_objects(lines), 1):
            if ink[rows, columns][lines[rows, columns] == number].mean() < SURE:
                continue
            corners = np.array([[columns.start, rows.start], [columns.stop, rows.stop]])
            margin = 0.8 / np.sum(1 / np.diff(corners, axis=0))  # the model marks the middle of the letters
            corners = np.add(corners, [[-margin], [margin]]) * np.divide(page.size, (width, height))
            left, upper, right, lower = corners.round().clip(0, page.size).astype(int).ravel().tolist()
            yield left, upper, right, lower

    def line(self, image: Image.Image) -> str:
        image = image.resize((max(HEIGHT, round(image.width * HEIGHT / image.height)), HEIGHT))
        [[scores]] = self.reader.run({"x": pixels(image)})
        best = scores.argmax(axis=1)
        return "".join(self.characters[best[np.diff(best, prepend=0) != 0]])

    def page(self, path: Path) -> list[str]:
        with Image.open(path) as image:
            page = image.convert("RGB")
        return [self.line(page.crop(box)) for box in self.boxes(page)]


def pixels(image: Image.Image) -> np.ndarray:
    """[1, 3, height, width] between -1 and 1, blue before green before red, as the models were trained."""
    return np.asarray(image, np.float32)[None, :, :, ::-1].transpose(0, 3, 1, 2) / 127.5 - 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Read the text in the images of a folder.")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is no folder")

    files = sorted(file for file in arguments.folder.iterdir() if file.suffix.lower() in SUFFIXES)
    reader, failed = Reader(), False
    pool = ThreadPoolExecutor(os.cpu_count())
    pages = [pool.submit(reader.page, file) for file in files]
    try:
        for file, page in zip(files, pages, strict=True):
            try:
                print(f"{file.name}:", *page.result(), sep="\n  ")
            except (OSError, Image.DecompressionBombError) as error:
                failed = True
                print(f"{file.name}: {error}", file=sys.stderr)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the other pages
    sys.exit(failed)


if __name__ == "__main__":
    main()
