"""Daemon threads log until the process ends."""

import os
import threading
import time

from tests.support.log_queue import log


def forever():
    while True:
        log("more")
        time.sleep(0.0001)


for _ in range(4):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
