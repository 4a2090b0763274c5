"""Computes one result of the model in argument 1 with zrt, and prints the class."""

import sys

import numpy as np

import zrt

session = zrt.Session(sys.argv[1], zrt.SessionOptions(intra_op_num_threads=1))
[answer] = session.run([np.full((1, 1, 8, 8), 0.5, "float32")])
print(answer.argmax())
