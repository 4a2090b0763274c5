"""The names of the drop-in are imported at their first use."""

from __future__ import annotations

import pytest


def test_unknown_name_raises_attribute_error(ort) -> None:
    with pytest.raises(AttributeError, match=f"module {ort.__name__!r} has no attribute 'no_such_name'"):
        ort.no_such_name  # noqa: B018
