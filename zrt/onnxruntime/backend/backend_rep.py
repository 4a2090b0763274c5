"""`OnnxRuntimeBackendRep`: a prepared model, as ONNX's backend interface runs it."""

from __future__ import annotations

from typing import Any

from onnx.backend.base import BackendRep

from zrt.onnxruntime import RunOptions
from zrt.onnxruntime.homes import words

# Without the fields that write files: a model from elsewhere must not choose them.
SESSION_FIELDS = frozenset(
    words(
        "enable_cpu_mem_arena enable_mem_pattern enable_mem_reuse execution_mode execution_order "
        "graph_optimization_level inter_op_num_threads intra_op_num_threads log_severity_level log_verbosity_level "
        "logid use_deterministic_compute use_per_session_threads"
    )
)
# Without `terminate` and `training_mode`, which change the result of the run.
RUN_FIELDS = frozenset(("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"))


def apply_fields(options: Any, arguments: dict[str, Any], allowed: frozenset[str]) -> None:
    """Set the allowed fields of `options`; names that `options` does not have are for others.

    Raises `RuntimeError` for a field that is not allowed.
    """
    for name, value in arguments.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            raise RuntimeError(
                f"{type(options).__name__} attribute '{name}' is not permitted via the backend API. "
                f"Allowed attributes: {', '.join(sorted(allowed))}"
            )


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
        apply_fields(options, kwargs, RUN_FIELDS)
        names = [node.name for node in self._session.get_inputs()]
        if isinstance(inputs, list):
            feeds = {name: inputs[index] for index, name in enumerate(names)}
        elif len(names) == 1:
            feeds = {names[0]: inputs}
        else:
            raise RuntimeError(f"Model expect {len(names)} inputs")
        return self._session.run(None, feeds, options)
