"""Fails unless an installed distribution's requirements are met: check-requirements.py DISTRIBUTION"""

import sys
from importlib.metadata import PackageNotFoundError, requires, version

from pip._vendor.packaging.requirements import Requirement

for line in requires(sys.argv[1]) or []:
    requirement = Requirement(line)
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        continue
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        sys.exit(f"{line}: not installed")
    if not requirement.specifier.contains(found, prereleases=True):
        sys.exit(f"{line}: {found} is installed")
