"""The names of the official package's extension module, each imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.homes import STATE, serve

if TYPE_CHECKING:
    from zrt.onnxruntime._typed import *  # noqa: F403
    from zrt.onnxruntime.errors import DeviceReset as DeviceReset
    from zrt.onnxruntime.errors import EngineError as EngineError
    from zrt.onnxruntime.errors import EPFail as EPFail
    from zrt.onnxruntime.errors import Fail as Fail
    from zrt.onnxruntime.errors import InvalidArgument as InvalidArgument
    from zrt.onnxruntime.errors import InvalidGraph as InvalidGraph
    from zrt.onnxruntime.errors import InvalidProtobuf as InvalidProtobuf
    from zrt.onnxruntime.errors import ModelLoadCanceled as ModelLoadCanceled
    from zrt.onnxruntime.errors import ModelLoaded as ModelLoaded
    from zrt.onnxruntime.errors import ModelRequiresCompilation as ModelRequiresCompilation
    from zrt.onnxruntime.errors import NoModel as NoModel
    from zrt.onnxruntime.errors import NoSuchFile as NoSuchFile
    from zrt.onnxruntime.errors import NotFound as NotFound
    from zrt.onnxruntime.errors import NotImplemented as NotImplemented
    from zrt.onnxruntime.errors import RuntimeException as RuntimeException
    from zrt.onnxruntime.forms import *  # noqa: F403
    from zrt.onnxruntime.options import SessionObjectInitializer as SessionObjectInitializer
    from zrt.onnxruntime.options import get_default_session_options as get_default_session_options
    from zrt.onnxruntime.options import get_session_initializer as get_session_initializer
    from zrt.onnxruntime.quantize import *  # noqa: F403
    from zrt.onnxruntime.sparse import SparseBlockSparseView as SparseBlockSparseView
    from zrt.onnxruntime.sparse import SparseCooView as SparseCooView
    from zrt.onnxruntime.sparse import SparseCsrView as SparseCsrView
    from zrt.onnxruntime.values import OrtValueVector as OrtValueVector
    from zrt.onnxruntime.values import is_dlpack_uint8_tensor as is_dlpack_uint8_tensor
else:
    # A list that type checkers cannot read would hide these names from them.
    __all__ = list(STATE)


def __getattr__(name: str) -> Any:
    value = globals()[name] = serve(__name__, name, STATE)
    return value


def __dir__() -> list[str]:
    return sorted(STATE)
