"""Eight threads log at once: each thread's lines arrive complete and in their order."""

import threading

from tests.support.log_queue import log, received
from zrt._native import bridge


def many(thread):
    for count in range(1000):
        log(f"{thread} {count}")


threads = [threading.Thread(target=many, args=(thread,)) for thread in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert bridge.flush(60)
assert len(received) == 8000
for thread in range(8):
    own = [record.getMessage() for record in received if record.getMessage().startswith(f"{thread} ")]
    assert own == [f"{thread} {count}" for count in range(1000)]
