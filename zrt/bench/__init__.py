"""The measuring harness, used by ``zrt bench`` and by the benchmarks of the repository.

It must not load zrt's ONNX Runtime: `zrt.bench.official_contenders`, a module of this package, also runs in a process
that uses only the official package.
"""
