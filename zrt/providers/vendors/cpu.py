"""The CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from zrt._native.handle import Handle
from zrt.errors import ProviderError
from zrt.providers.attach import Attach
from zrt.providers.base import Provider, provider


def _not_appended(options: Handle, name: str, settings: Mapping[str, str]) -> None:
    """ORT itself adds the CPU execution provider, as the last one."""
    if settings:
        raise ProviderError(f"{name} takes no options, got {', '.join(settings)}")


@provider
class CPU(Provider):
    """ONNX Runtime's own kernels on the CPU: every session has this provider, as the last one."""

    name = "CPUExecutionProvider"
    comes_with = "Every library has it"
    attach: ClassVar[Attach] = _not_appended
