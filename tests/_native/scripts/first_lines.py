"""Makes the environment with the log id "mine" at argument 2, or else everything; logs to argument 1."""

import logging
import sys

import zrt

# Its first use makes an environment on another thread.
session = zrt.Session
where, *severity = sys.argv[1:]
logging.basicConfig(stream=sys.stdout, level=1, format="%(logid)s %(location)s %(message)s")
zrt.Environment("mine", severity[0] if severity else "VERBOSE", "ort" if where == "logger" else None)
zrt.Environment.flush_log(60)
