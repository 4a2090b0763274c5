"""Prints the providers of a session that the policy of the given name chooses."""

import sys
from importlib.resources import files

import zrt

session = zrt.Session(files("zrt.models") / "digits.onnx", providers=zrt.DevicePolicy[sys.argv[1]])
print(*session.providers)
