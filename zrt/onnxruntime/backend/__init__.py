"""`onnxruntime.backend`: the interface of ONNX's backends (`onnx.backend.base`) over `InferenceSession`."""

from __future__ import annotations

from zrt.onnxruntime.backend.backend import is_compatible as is_compatible
from zrt.onnxruntime.backend.backend import prepare as prepare
from zrt.onnxruntime.backend.backend import run as run
from zrt.onnxruntime.backend.backend import supports_device as supports_device
