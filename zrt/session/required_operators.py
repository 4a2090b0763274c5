"""Which operators of ONNX Runtime a model needs: for an engine that has no others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from zrt._common.config_keys import SessionConfigKey
from zrt._common.files import temporary_folder
from zrt.loading.initializers import ONNX_DOMAIN
from zrt.loading.model_contents import Contents, contents_of
from zrt.loading.model_source import Model, Source
from zrt.loading.session_options import WRITING_NOTHING, SessionOptions
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session
from zrt.types import GraphOptimizationLevel, LogSeverity

# With these the optimizer replaces convolutions and what is between them. Which ones it replaces depends on the CPU.
_BLOCKED_LAYOUT = ("com.microsoft.nchwc", 1)
_BLOCKED = {
    *("AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput"),
    "Upsample",
}
_HEAD = "# The operators that models need, as ONNX Runtime's reduced build reads them: domain;opset;operators\n"


def required_operators(model: Model, options: SessionOptions, providers: ProvidersLike = None) -> str:
    """The operators of a model as it is, and as each level of optimization leaves it, as text.

    The optimizer computes constant parts of a model when a session loads it, so a session needs the operators of the
    model as it is too. Each line has a domain, a version of its operator set, and operators: the form that ONNX
    Runtime's build reads. Texts of several models may be joined. The text is the same on each CPU of an architecture.

    Raises the same errors as `Session`, and `UnsupportedError` for a model in ONNX Runtime's own format.
    """
    found: dict[tuple[str, int], set[str]] = {}
    with Source(model) as source:
        contents = contents_of(source)
        # The optimizer inlines functions of the model, but for those that have a kernel's name.
        _collect(contents, contents.operators.keys() - contents.functions, found)
    for level in GraphOptimizationLevel:
        with temporary_folder("zrt-operators-") as folder:
            graph = os.path.join(folder, "optimized.onnx")
            # Weights beside the graph: a model file holds at most 2 GB.
            entries = {
                SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME: "weights",
                SessionConfigKey.SAVE_MODEL_FORMAT: "ONNX",
            }
            saving = replace(
                options,
                graph_optimization_level=level,
                config_entries={**options.config_entries, **entries},
                **(WRITING_NOTHING | {"optimized_model_filepath": graph}),
                # ORT warns that the highest level is for this CPU.
                log_severity_level=LogSeverity.ERROR,
            )
            Session(model, saving, providers).close()
            with Source(graph) as source:
                contents = contents_of(source)
                _collect(contents, contents.operators, found)
    if any(domain == ONNX_DOMAIN and "Conv" in names for (domain, _), names in found.items()):
        found[_BLOCKED_LAYOUT] = _BLOCKED
    lines = (f"{domain};{version};{','.join(sorted(names))}\n" for (domain, version), names in sorted(found.items()))
    return _HEAD + "".join(lines)


def _collect(contents: Contents, operators: Iterable[str], found: dict[tuple[str, int], set[str]]) -> None:
    for operator in operators:
        domain, _, name = operator.rpartition("::")
        version = contents.opsets.get(domain)
        # A function may be of a domain that the model does not import, and is no kernel then.
        if version is not None:
            found.setdefault((domain or ONNX_DOMAIN, version), set()).add(name)
