"""The interpreter ends although a receiver never returns, and with an argument although standard error is closed."""

import os
import sys
import threading

from tests.support.log_queue import log, logger
from zrt._native import bridge

bridge.EXIT_PATIENCE = 0.1
held = threading.Event()
logger.addFilter(lambda record: held.set() or threading.Event().wait())
for count in range(100):
    log(f"line {count}")
held.wait()
if sys.argv[1:]:
    os.close(2)
