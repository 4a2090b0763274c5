"""Models on a cluster of Ray: `pip install "zrt[ray]"` installs the packages that it needs."""

from __future__ import annotations
