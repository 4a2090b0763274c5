"""Options as keyword arguments of the backend: each function allows some, and refuses those that do harm there."""

from __future__ import annotations

from typing import Any

# Without the fields that write files: a model from elsewhere must not choose them.
SESSION = frozenset(
    (
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "execution_mode",
        "execution_order",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "use_deterministic_compute",
        "use_per_session_threads",
    )
)
# Without `terminate` and `training_mode`, which change the result of the run.
RUN = frozenset(("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"))


def apply(options: Any, arguments: dict[str, Any], allowed: frozenset[str]) -> None:
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
