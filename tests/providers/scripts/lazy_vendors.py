"""The vendors' modules are imported at the first use of one of their classes."""

import sys

import zrt.providers
import zrt.session.session
from zrt.providers import known


def loaded() -> set[str]:
    return {home for home, _ in known.HOMES.values() if f"zrt.providers.vendors.{home}" in sys.modules}


assert zrt.session.session
assert loaded() <= {"cpu"}, loaded()
zrt.providers.QNN()
assert loaded() - {"cpu"} == {"qualcomm"}, loaded()
