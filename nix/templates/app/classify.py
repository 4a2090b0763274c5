"""Reads handwritten digits: classify.py MODEL FILE. The file is an .npz with images of 8 by 8 numbers from 0 to 16."""

import sys

import numpy as np

import zrt

model, file = sys.argv[1:]
images = (np.load(file)["images"] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
[probabilities] = zrt.Session(model).run({"image": images})
print(*probabilities.argmax(axis=1))
