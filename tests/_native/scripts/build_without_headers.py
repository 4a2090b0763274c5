"""Builds the extension module in a Python that has no headers, as distributions pack it; takes a folder for both."""

import sys
import sysconfig
from pathlib import Path

from zrt._native import build

# sysconfig and setuptools derive the folder of the headers from these.
sys.base_prefix = sys.base_exec_prefix = sys.argv[1]
sysconfig.get_config_vars().update(
    dict.fromkeys(("INCLUDEPY", "CONFINCLUDEPY", "installed_base", "installed_platbase"), sys.argv[1])
)
build.build(Path(sys.argv[1]))
