"""`OnnxRuntimeBackend`: prepares and runs models, as ONNX's backend interface asks for it."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable
from typing import Any, ClassVar

from onnx import helper
from onnx.backend.base import Backend
from onnx.checker import check_model

from zrt.onnxruntime import InferenceSession, SessionOptions, get_available_providers, get_device
from zrt.onnxruntime.backend.backend_rep import SESSION_FIELDS, OnnxRuntimeBackendRep, apply_fields


class OnnxRuntimeBackend(Backend):
    """The interface of `onnx.backend.base.Backend` over `InferenceSession`."""

    # ONNX Runtime's name. 0 in the variable lets models use operator sets that are not released yet.
    allowReleasedOpsetsOnly: ClassVar[bool] = os.getenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "1") == "1"  # noqa: N815

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether the library runs on that device, by default its own; the model is not looked at."""
        return cls.supports_device(get_device() if device is None else device)

    @classmethod
    def is_opset_supported(cls, model: Any) -> tuple[bool, str]:
        """Whether ONNX has released all operator sets that the model imports, and a message about one that it has not.

        Always True where the variable `ALLOW_RELEASED_ONNX_OPSET_ONLY` was 0 at the import of this module.
        """
        for opset in model.opset_import if cls.allowReleasedOpsetsOnly else ():
            domain = opset.domain or "ai.onnx"
            if (domain, opset.version) not in helper.OP_SET_ID_VERSION_MAP:
                return False, (
                    "Skipping this test as only released onnx opsets are supported."
                    "To run this test set env variable ALLOW_RELEASED_ONNX_OPSET_ONLY to 0."
                    f" Got Domain '{domain}' version '{opset.version}'."
                )
        return True, ""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the library was built for that device; `CUDA` is another name for `GPU`."""
        wanted = "GPU" if device == "CUDA" else device
        present = get_device()
        return wanted == present or f"-{wanted}" in present or f"{wanted}-" in present

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> OnnxRuntimeBackendRep:
        """Load a model: a path, bytes, an `onnx.ModelProto`, an `InferenceSession`, or a result of this method.

        Keyword arguments set fields of `SessionOptions`, except those that write files, which raise `RuntimeError`;
        unknown names are ignored. A `ModelProto` is checked first, and one of an unreleased operator set raises
        `unittest.SkipTest`. The variable `ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS` names providers to leave out, with commas
        between them.
        """
        if isinstance(model, OnnxRuntimeBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return OnnxRuntimeBackendRep(model)
        if not isinstance(model, (str, bytes)):
            proto, model = model, model.SerializeToString()
            check_model(model)
            supported, message = cls.is_opset_supported(proto)
            if not supported:
                raise unittest.SkipTest(message)
        options = SessionOptions()
        apply_fields(options, kwargs, SESSION_FIELDS)
        excluded = os.getenv("ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS", "").split(",")
        providers = [provider for provider in get_available_providers() if provider not in excluded]
        session = InferenceSession(model, sess_options=options, providers=providers)
        # A test must see the failure of a provider.
        session.disable_fallback()
        if device is not None and not cls.supports_device(device):
            raise RuntimeError(f"Incompatible device expected '{device}', got '{get_device()}'")
        return OnnxRuntimeBackendRep(session)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """Load a model as `prepare` does, and run it as `OnnxRuntimeBackendRep.run` does, with the same arguments."""
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Not there: raises `NotImplementedError`. Run a model of one node."""
        raise NotImplementedError("It is much more efficient to run a whole model than every node independently.")


is_compatible: Callable[..., bool] = OnnxRuntimeBackend.is_compatible
prepare: Callable[..., OnnxRuntimeBackendRep] = OnnxRuntimeBackend.prepare
run: Callable[..., Any] = OnnxRuntimeBackend.run_model
supports_device: Callable[[str], bool] = OnnxRuntimeBackend.supports_device
