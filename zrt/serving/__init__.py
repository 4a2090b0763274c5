"""Serves models over HTTP by the Open Inference Protocol: `application` makes an ASGI application.

It needs starlette, uvicorn and prometheus-client: ``pip install "zrt-onnx[serve]"``.
"""

from __future__ import annotations

from zrt.serving.asgi import Application, Served, application

__all__ = ["Application", "Served", "application"]
