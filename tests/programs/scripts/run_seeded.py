"""Runs the Python file in argument 1 as a program, after seeding numpy: its random numbers are the same each time."""

import runpy
import sys

import numpy as np

np.random.seed(0)
runpy.run_path(sys.argv[1], run_name="__main__")
