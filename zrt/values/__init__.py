"""ONNX Runtime's values: `Value`, which owns or borrows one of any kind, their types and their copies."""
