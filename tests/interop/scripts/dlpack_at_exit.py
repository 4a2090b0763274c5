"""Leaves capsules and arrays over them in a cycle that only the end of the process collects."""

import sys

import numpy as np

import zrt

value = zrt.from_dlpack(np.ones(5))
kept: list[object] = [value.__dlpack__(), value.__dlpack__(max_version=(1, 0)), np.from_dlpack(value)]
kept.append(kept)
sys.modules["kept"] = kept
