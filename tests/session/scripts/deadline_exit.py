"""The interpreter ends while runs with deadlines are under way."""

from __future__ import annotations

import threading

import numpy as np

import zrt
from tests.support import models

counting = zrt.Session(models.counting_loop(), zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL"))
feeds = {"turns": np.array(2**40), "start": np.zeros(2, np.float32)}
for _ in range(4):
    counting.submit(feeds, timeout=1000)
for seconds in (0.05, 1000):
    threading.Thread(target=counting.run, args=(feeds, None, None, seconds), daemon=True).start()
print("ending")
