"""Arenas of every accepted configuration allocate memory, shrink, and grow again."""

import itertools

import numpy as np

import zrt
from tests.support import models

environment = zrt.Environment()
names = [
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
    "max_mem",
]
values = [[0, 1], [1, 1000, 1 << 20], [1, 1 << 20], [256, 768], [256, 768, 1 << 20], [1 << 22, 1 << 30]]
for chosen in itertools.product(*values):
    environment.register_allocator(arena=zrt.ArenaConfig(**dict(zip(names, chosen, strict=True))))
    session = zrt.Session(models.add(), zrt.SessionOptions(intra_op_num_threads=1, use_env_allocators=True))
    allocator = session.allocator()
    for _ in range(2):
        held = [allocator.allocate(size) for size in (1, 1000, 5000, 300000)]
        for each in held:
            each.numpy()[...] = 1
        held.clear()
        session.run([np.ones(4, np.float32)] * 2, options=zrt.RunOptions(shrink_arenas=[zrt.MemoryInfo.cpu()]))
    assert allocator.stats().bytes_limit == chosen[-1]
