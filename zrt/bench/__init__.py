"""The measuring harness, used by ``zrt bench`` and by the benchmarks of the repository.

Light to import, as is everything that `zrt.bench.official_contenders` needs: that module also runs in a process which
must not load zrt's own ONNX Runtime.
"""
