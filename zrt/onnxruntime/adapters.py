"""`AdapterFormat` as programs use it."""

from __future__ import annotations

import os
from typing import Any

from zrt.onnxruntime.state import adapters as state
from zrt.onnxruntime.values import OrtValue


class AdapterFormat:
    """The content of a LoRA adapter's file, to read and to write."""

    def __init__(self, adapter: state.AdapterFormat | None = None) -> None:
        self._adapter: Any = state.AdapterFormat() if adapter is None else adapter

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """The content of a file."""
        return AdapterFormat(state.AdapterFormat.read_adapter(file_path))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Writes a file."""
        self._adapter.export_adapter(file_path)

    def get_format_version(self) -> int:
        """The version of the file's format."""
        return int(self._adapter.format_version)

    def set_adapter_version(self, adapter_version: int) -> None:
        """Sets the version of the adapter, which is for its users."""
        self._adapter.adapter_version = adapter_version

    def get_adapter_version(self) -> int:
        """The version that the author gave the adapter."""
        return int(self._adapter.adapter_version)

    def set_model_version(self, model_version: int) -> None:
        """Sets the version of the model that the adapter is for."""
        self._adapter.model_version = model_version

    def get_model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return int(self._adapter.model_version)

    def set_parameters(self, params: dict[str, OrtValue]) -> None:
        """Sets the values, by the names of the model's inputs that they replace."""
        self._adapter.parameters = {name: value._ortvalue for name, value in params.items()}

    def get_parameters(self) -> dict[str, OrtValue]:
        """The values by name."""
        return {name: OrtValue(value) for name, value in self._adapter.parameters.items()}
