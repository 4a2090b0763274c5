"""`OnnxRuntimeBackendRep`: a prepared model, as ONNX's backend interface runs it."""

from __future__ import annotations

from typing import Any

from onnx.backend.base import BackendRep

from zrt.onnxruntime import RunOptions
from zrt.onnxruntime.backend import allowed


class OnnxRuntimeBackendRep(BackendRep):
    """An `InferenceSession` under the interface of `onnx.backend.base.BackendRep`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model on a list of inputs in the model's order, or on the single input of a model that has one.

        Keyword arguments set fields of `RunOptions`: those about logging, and `only_execute_path_to_fetches`. Others of
        its fields raise `RuntimeError`; unknown names are ignored. Returns the list of the outputs.
        """
        options = RunOptions()
        allowed.apply(options, kwargs, allowed.RUN)
        names = [node.name for node in self._session.get_inputs()]
        if isinstance(inputs, list):
            feeds = {name: inputs[index] for index, name in enumerate(names)}
        elif len(names) == 1:
            feeds = {names[0]: inputs}
        else:
            raise RuntimeError(f"Model expect {len(names)} inputs")
        return self._session.run(None, feeds, options)
