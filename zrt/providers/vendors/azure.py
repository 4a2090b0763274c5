"""Operators that call models in the cloud."""

from __future__ import annotations

from typing import ClassVar

from zrt._common.public import public_in
from zrt._common.records import record
from zrt.providers.base import Provider


@public_in("zrt.providers")
@record(frozen=True, kw_only=True, repr=False)
class Azure(Provider):
    """Operators that call models in the cloud; all other nodes run on the CPU. It has no options."""

    name: ClassVar[str] = "AzureExecutionProvider"
    comes_with: ClassVar[str] = (
        "It comes with the onnxruntime package for the CPU, or with a build of ONNX Runtime with --use_azure"
    )
    source: ClassVar[str] = "onnxruntime/core/providers/azure/azure_execution_provider.h"
