"""The vendors' modules are imported at the first use of one of their classes."""

import sys

import zrt.providers
import zrt.session.session

FAMILIES = {"tensorrt", "amd", "intel", "qualcomm", "web", "windows", "apple", "huawei", "embedded", "cuda"}


def loaded() -> set[str]:
    return {name for name in FAMILIES if f"zrt.providers.vendors.{name}" in sys.modules}


assert zrt.session.session
assert loaded() == set(), loaded()
zrt.providers.QNN()
assert loaded() == {"qualcomm"}, loaded()
