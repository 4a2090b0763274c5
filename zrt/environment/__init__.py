"""The parts of ONNX Runtime that a process has once: environment, devices, provider libraries, threads, log."""
