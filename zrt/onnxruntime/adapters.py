"""LoRA adapters: their files (`AdapterFormat`), and loaded ones for run options."""

from __future__ import annotations

import os
from typing import Any, Final

from zrt.loading import lora
from zrt.onnxruntime import conversions, errors
from zrt.onnxruntime.values import OrtValue
from zrt.onnxruntime.wrapper import NotPickled, accessors, itself
from zrt.values.value import Value


class AdapterFormat(NotPickled):
    """The content of a LoRA adapter's file, to read and to write."""

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        if adapter is not None:
            conversions.instance(adapter, AdapterFormat, "adapter")
        self._versions: dict[str, int] = {"adapter": 0, "model": 0} if adapter is None else adapter._versions
        self._parameters: dict[str, OrtValue] = {} if adapter is None else adapter._parameters

    def __copy__(self) -> AdapterFormat:
        return AdapterFormat(self)

    @staticmethod
    def read_adapter(file_path: str) -> AdapterFormat:
        """The content of a file."""
        path = conversions.string(file_path, "file_path")
        try:
            with open(path, "rb") as file, errors.as_runtime_error(f"{path}: "):
                adapter_version, model_version, arrays = lora.read_lora_adapter(file.read())
        except OSError as error:
            raise RuntimeError(f"{path}: {os.strerror(error.errno or 0)}") from error
        adapter = AdapterFormat()
        adapter._versions = {"adapter": adapter_version, "model": model_version}
        adapter._parameters = {name: OrtValue._of(Value.from_array(array.copy())) for name, array in arrays.items()}
        return adapter

    def export_adapter(self, file_path: str) -> None:
        """Writes a file."""
        path = conversions.string(file_path, "file_path")
        with errors.as_runtime_error():
            lora.save_lora_adapter(
                path,
                {str(name): value._to_zrt().numpy() for name, value in self._parameters.items()},
                adapter_version=self._versions["adapter"],
                model_version=self._versions["model"],
            )

    def get_format_version(self) -> int:
        """The version of the file's format."""
        return lora.FORMAT_VERSION

    def set_adapter_version(self, adapter_version: int) -> None:
        """Sets the version of the adapter, which is for its users."""
        self._versions["adapter"] = conversions.integer(adapter_version, "adapter_version")

    def get_adapter_version(self) -> int:
        """The version that the author gave the adapter."""
        return self._versions["adapter"]

    def set_model_version(self, model_version: int) -> None:
        """Sets the version of the model that the adapter is for."""
        self._versions["model"] = conversions.integer(model_version, "model_version")

    def get_model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return self._versions["model"]

    def set_parameters(self, params: dict[str, OrtValue]) -> None:
        """Sets the values, by the names of the model's inputs that they replace."""
        self._parameters = {name: value._get_c_value() for name, value in params.items()}

    def get_parameters(self) -> dict[str, OrtValue]:
        """The values by name."""
        return dict(self._parameters)

    format_version: Final[int] = accessors(get_format_version)
    adapter_version: int = accessors(get_adapter_version, set_adapter_version)
    model_version: int = accessors(get_model_version, set_model_version)
    parameters: dict[str, OrtValue] = accessors(get_parameters, set_parameters)
    _adapter = property(itself)


class LoraAdapter(NotPickled):
    """An adapter for `RunOptions.add_active_adapter`; `Load` reads it from its file."""

    def __init__(self) -> None:
        self._adapter: lora.LoraAdapter | None = None

    def Load(self, path: str, /) -> None:  # noqa: N802
        """Maps the file into memory."""
        file = conversions.string(path, "path")
        with errors.as_runtime_error():
            self._adapter = lora.LoraAdapter(file)

    def _to_zrt(self) -> Any:
        if self._adapter is None:
            raise RuntimeError("this LoraAdapter has loaded no file")
        return self._adapter
