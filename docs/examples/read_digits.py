"""Give a model paths of images as its input: an operator in Python opens them inside the graph.

pip install pillow onnx
python read_digits.py first.png second.png
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import as_file, files

import numpy as np
from PIL import Image

import zrt
from zrt.custom_ops import KernelContext

SIZE = 8  # of the images that the model reads


class ReadImage(zrt.CustomOp):
    """Brightness from 0 to 1, [n, 1, 8, 8], of the n images with these paths."""

    inputs = ("string",)
    outputs = ("float32",)

    def compute(self, context: KernelContext) -> None:
        [paths] = context.inputs
        images = context.output(0, (paths.size, 1, SIZE, SIZE))

        def read(index: int) -> None:
            with Image.open(paths[index]) as file:
                grey = file.convert("L").resize((SIZE, SIZE), Image.Resampling.BOX)
            images[index] = np.asarray(grey) / np.float32(255)

        # On the threads of the session: Pillow decodes without the GIL.
        context.parallel_for(read, paths.size)


def session_over_paths() -> zrt.Session:
    """The digit classifier that ships with zrt, with the operator before it."""
    options = zrt.SessionOptions(custom_ops=[zrt.CustomOpDomain("images", [ReadImage()])], log_severity_level="FATAL")
    with as_file(files("zrt.models") / "digits.onnx") as model:
        edit = zrt.edit(model, options)
        edit.remove_input("image")
        paths = edit.input("paths", "string", ("batch",))
        edit.op("ReadImage", paths, domain="images", outputs="image")
        return edit.finalize()


def main() -> None:
    parser = argparse.ArgumentParser(description="Read handwritten digits, bright on dark, from images.")
    parser.add_argument("images", nargs="+")
    arguments = parser.parse_args()
    try:
        [probabilities] = session_over_paths().run({"paths": arguments.images})
    except zrt.errors.CallbackError as error:
        sys.exit(f"ReadImage: {error.__cause__}")
    for image, row in zip(arguments.images, probabilities, strict=True):
        print(f"{image}: {row.argmax()} ({row.max():.0%})")


if __name__ == "__main__":
    main()
