"""LoRA adapters: their files, and loaded ones for run options."""

from __future__ import annotations

import os
from typing import Any

from zrt.errors import Error
from zrt.loading.lora import FORMAT_VERSION, read_lora_adapter, save_lora_adapter
from zrt.loading.lora import LoraAdapter as Loaded
from zrt.onnxruntime.state.arguments import INT32, TEXT, take
from zrt.onnxruntime.state.devices import NotPickled, runtime_error
from zrt.onnxruntime.state.values import OrtValue
from zrt.values import Value


class AdapterFormat(NotPickled):
    """The content of an adapter's file: two versions, and values by the names of a model's inputs."""

    __slots__ = ("_versions", "parameters")

    parameters: dict[str, OrtValue]
    """The values by name."""

    def __init__(self, *arguments: Any) -> None:
        take("__init__", {"": ()}, arguments)
        self._versions = {"adapter": 0, "model": 0}
        self.parameters = {}

    @property
    def format_version(self) -> int:
        """The version of the file's format."""
        return FORMAT_VERSION

    @property
    def adapter_version(self) -> int:
        """The version that the author gave the adapter."""
        return self._versions["adapter"]

    @adapter_version.setter
    def adapter_version(self, version: Any) -> None:
        self._set("adapter", version)

    @property
    def model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return self._versions["model"]

    @model_version.setter
    def model_version(self, version: Any) -> None:
        self._set("model", version)

    def _set(self, which: str, version: Any) -> None:
        _, (self._versions[which],) = take("", {"": (INT32,)}, (version,))

    def export_adapter(self, *arguments: Any) -> None:
        """Writes the file."""
        _, (path,) = take("export_adapter", {"": (TEXT,)}, arguments)
        try:
            save_lora_adapter(
                path,
                {str(name): value._to_zrt().numpy() for name, value in self.parameters.items()},
                adapter_version=self.adapter_version,
                model_version=self.model_version,
            )
        except Error as error:
            raise runtime_error(error) from error

    @staticmethod
    def read_adapter(*arguments: Any) -> AdapterFormat:
        """The content of a file."""
        _, (path,) = take("read_adapter", {"": (TEXT,)}, arguments)
        try:
            with open(path, "rb") as file:
                adapter_version, model_version, arrays = read_lora_adapter(file.read())
        except OSError as error:
            raise RuntimeError(f"{path}: {os.strerror(error.errno or 0)}") from error
        except Error as error:
            raise runtime_error(error) from error
        made = AdapterFormat()
        made._versions = {"adapter": adapter_version, "model": model_version}
        made.parameters = {name: OrtValue._of(Value.from_array(array.copy())) for name, array in arrays.items()}
        return made


class LoraAdapter(NotPickled):
    """An adapter for `RunOptions.add_active_adapter`; `Load` reads it from its file."""

    __slots__ = ("_loaded",)

    _loaded: Loaded | None

    def __init__(self, *arguments: Any) -> None:
        take("__init__", {"": ()}, arguments)
        self._loaded = None

    def Load(self, *arguments: Any) -> None:  # noqa: N802
        """Maps the file into memory."""
        _, (path,) = take("Load", {"": (TEXT,)}, arguments)
        try:
            self._loaded = Loaded(path)
        except Error as error:
            raise runtime_error(error) from error

    def _to_zrt(self) -> Loaded:
        if self._loaded is None:
            raise RuntimeError("this LoraAdapter has loaded no file")
        return self._loaded
