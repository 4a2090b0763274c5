"""Names that the scripts of the robustness tests import: those of `sums`. A failure in a thread fails the script."""

import faulthandler
import os
import sys
import threading

from tests.robustness.sums import ADD, FEEDS, QUIET, SUM, binding, lane, same, session

__all__ = ["ADD", "FEEDS", "QUIET", "SUM", "binding", "lane", "same", "session"]


def fail(failed):
    """Ends the process with status 9 when a thread raises."""
    sys.__excepthook__(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(9)


faulthandler.enable()
threading.excepthook = fail
