"""Eight threads load the library; prints the numbers of searches, of results and of different results as JSON."""

import json
import threading
import time

from zrt._native import library

find, searches = library.find, []


def slow_find():
    searches.append(1)
    time.sleep(0.05)
    return find()


library.find = slow_find
start, results = threading.Barrier(8), []


def load():
    start.wait()
    results.append((int(library.ffi.cast("uintptr_t", library.api())), library.library().path))


threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps([len(searches), len(results), len(set(results))]))
