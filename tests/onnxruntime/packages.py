"""The packages under test: the official one, which is the reference, and zrt's in its place."""

from importlib import metadata

import pytest

PACKAGES = {"official": "onnxruntime", "zrt": "zrt.onnxruntime"}

# Marks a test of zrt's package alone, where the official one behaves in another way.
ours = pytest.mark.parametrize("ort", ["zrt"], indirect=True)


def since(minor: int) -> pytest.MarkDecorator:
    """Marks a test of names that release 1.`minor` brought: the official package is the reference from then on."""
    try:
        version = metadata.version("onnxruntime")
    except metadata.PackageNotFoundError:
        version = "0.0"
    older = pytest.mark.skipif(int(version.split(".")[1]) < minor, reason=f"the official package is {version}")
    return pytest.mark.parametrize("ort", [pytest.param("official", marks=older), "zrt"], indirect=True)
