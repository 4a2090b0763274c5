"""`check`: whether a library loads a model, and what keeps it from that. The model is never run."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from zrt._common.arguments import require_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.public import public
from zrt._native import ort_messages
from zrt._native.library import library
from zrt.diagnosis import int8
from zrt.diagnosis.operators import Operator, operators_of, versions_of
from zrt.diagnosis.report import ERROR, NOTE, WARNING, Check, Findings
from zrt.diagnosis.trials import Limits, Trials, limits
from zrt.environment.devices import ep_devices
from zrt.errors import (
    Error,
    ModelError,
    ModelNotFoundError,
    NotImplementedByOrtError,
    OrtError,
    ShapeError,
    UnsupportedError,
)
from zrt.graph.model_proto import circle_of_functions, package, parse, subgraphs
from zrt.loading.caller_weights import left, mapping
from zrt.loading.external_weights import WeightFiles, with_zeros
from zrt.loading.initializers import ONNX_DOMAIN, Initializer, list_initializers
from zrt.loading.model_source import LARGEST_IN_MEMORY, Model, Source
from zrt.loading.session_options import WRITING_NOTHING, SessionOptions
from zrt.providers.base import available_providers
from zrt.providers.default_selection import CPU_NAME
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session
from zrt.types import ElementType, LogSeverity
from zrt.values.type_info import ValueInfo, format_shape, type_name

# The newest version of ONNX's operators and of its IR that releases of ONNX Runtime read, as each of them says.
RELEASES = ((26, 13, "1.27"), (28, 14, "1.32"))

# Domains of operators, and what brings them.
BRINGS = {
    "ai.onnx.contrib": "the package onnxruntime-extensions has its operators: register its library",
    "com.microsoft": "it is ONNX Runtime's own domain: another release may have this operator",
    "com.microsoft.nchwc": "ONNX Runtime wrote this model for the CPU that it ran on: take the model before that",
    "org.pytorch.aten": "PyTorch wrote an operator that ONNX has not: export the model with dynamo=True",
    "trt.plugins": "it is a plugin of TensorRT: load the model with that provider and the plugin's library",
    "mmdeploy": "the package mmdeploy has its operators: register its library",
}
# Providers that say nothing of a machine: every library has the CPU's, and the operators of the other one call servers.
COMMON = (CPU_NAME, "AzureExecutionProvider")
REGISTER = "register its operators: SessionOptions.custom_ops or custom_op_libraries"


@public
def check(model: Model, options: SessionOptions | None = None, providers: ProvidersLike = None) -> Check:
    """Whether the loaded ONNX Runtime takes a model with these options and providers, and what keeps it from that.

    The model is loaded, never run. Without `providers` each other provider at hand is asked for too, in a session of
    its own. Where the model does not load, each distinct operator of its graph is loaded by itself with its types: so
    every one that is missing is named, not the first alone. Weights that cannot be read count as zeros.

    A model that cannot be read gets a `Check` too. Raises `UnsupportedError` without the onnx package, the errors of
    `Session` for wrong arguments, and `ModelNotFoundError` where there is no such file. A damaged model may end the
    process, by faults of ONNX Runtime (docs/security.md): ``zrt check`` loads it in a process of its own.
    """
    package()
    require_type(options, SessionOptions | None, "options", "SessionOptions")
    chosen = options or SessionOptions()
    chosen._check()
    settings = replace(chosen, record_placement=True, log_severity_level=LogSeverity.FATAL, **WRITING_NOTHING)
    found = Findings(_name(model), "", library().version)
    weights: tuple[Initializer, ...] = ()
    proto = None
    with ExitStack() as stack:
        try:
            source = stack.enter_context(Source(model))
            found.subject = source.subject
            weights = list_initializers(model)
            proto = _read(model, source)
        except ModelNotFoundError:
            raise
        except UnsupportedError:
            found.add(NOTE, "the graph", "it is not examined: the model is in ONNX Runtime's own format")
        except ModelError as error:
            # Also an empty file, or a folder.
            found.add(ERROR, "the file", found.plain(error))
            return found.result()
        unreadable = _unreadable(source, weights, settings, found)
        loading, nodes, in_part = settings, None, False
        inputs: tuple[ValueInfo, ...] = ()
        session = _load(model, settings, providers, found)
        for location, reason, _ in unreadable:
            # A library may not read weights that no node takes.
            found.add(NOTE if session else ERROR, f"the weights in {location!r}", reason)
        if session is None and unreadable:
            found.refused = None
            loading = with_zeros(settings, [weight for _, _, group in unreadable for weight in group])
            # Two weights of one name may have two shapes.
            with suppress(ShapeError):
                session = _load(model, loading, providers, found)
        if session is not None:
            with session:
                inputs = session.inputs
                nodes, in_part = _placed(session, found)
        if providers is None:
            _ask_others(model, loading, found)
        circle = [] if proto is None else circle_of_functions(proto)
        if circle:
            found.add(ERROR, f"function {circle[0]}", f"it calls itself: {', '.join(circle)}")
        elif proto is not None:
            _examine(proto, settings, nodes, found)
        for info in () if proto is None else inputs:
            if info.shape is None or not all(isinstance(size, int) for size in info.shape):
                reason = f"its shape {format_shape(info.shape)} is open: the feeds of each run settle it"
                found.add(NOTE, f"input {info.name!r}", reason)
        return found.result(nodes, in_part)


def _placed(session: Session, found: Findings) -> tuple[dict[str, int], bool]:
    """How many nodes each provider runs, and whether the CPU runs some for which another provider was asked."""
    placement, first = session.placement(), session.providers[0]
    on_cpu = [node for node in placement.nodes if node.provider == CPU_NAME]
    if not on_cpu or first == CPU_NAME:
        return placement.providers, False
    reason = f"{len(on_cpu)} of {len(placement.nodes)} nodes run on the CPU"
    names = tuple(node.name or node.op_type for node in on_cpu)
    found.add(WARNING, first, reason, "Session(strict=True) refuses that", names)
    return placement.providers, True


def _name(model: Model) -> str:
    """The model in the result: its path, or words for one in memory."""
    return os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else "model in memory"


def _read(model: Model, source: Source) -> Any:
    """The model as an ``onnx.ModelProto``."""
    size = 0 if source.path is None else os.path.getsize(source.path)
    if size > LARGEST_IN_MEMORY:
        raise ModelError(
            f"it has {size / 1e9:.1f} GB, and protobuf reads 2 GB at most: save it with its weights in another file"
        )
    return parse(model)[0]


def _unreadable(
    source: Source, weights: tuple[Initializer, ...], settings: SessionOptions, found: Findings
) -> list[tuple[str, str, list[Initializer]]]:
    """The files of weights that are missing, too short or not in a trusted folder: each with the reason and weights."""
    folder = settings.config_entries.get(SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH)
    given = mapping(settings.initializers, "initializers", "arrays")
    files_given = mapping(settings.external_initializer_files, "external_initializer_files", "bytes")
    by_location: dict[str, list[Initializer]] = {}
    for weight in left(weights, given, files_given):
        by_location.setdefault(weight.location or "", []).append(weight)
    missing = []
    with WeightFiles(source, folder, settings.trusted_folders) as files:
        for location, group in by_location.items():
            try:
                files.values(group, source.subject)
            except ModelError as error:
                missing.append((location, found.plain(error), group))
    return missing


def _load(model: Model, settings: SessionOptions, providers: ProvidersLike, found: Findings) -> Session | None:
    """The session; None where the library does not load the model."""
    try:
        return Session(model, settings, providers)
    except (OrtError, ModelError) as error:
        found.refused = error
        return None


def _ask_others(model: Model, settings: SessionOptions, found: Findings) -> None:
    """Finds how many nodes each provider runs in sessions that ask for another one that is at hand."""
    for name, asked in _at_hand().items():
        try:
            with Session(model, settings, asked) as session:
                found.others[name] = session.placement().providers
        except Error as error:
            if found.refused is None or found.plain(error) != found.plain(found.refused):
                found.add(NOTE, name, f"no session with it loads the model here: {found.plain(error)}")


def _at_hand() -> dict[str, list[Any]]:
    """The other providers: those of registered libraries and of the library, each as the argument of a session."""
    at_hand: dict[str, list[Any]] = {}
    for device in ep_devices():
        at_hand.setdefault(device.provider, []).append(device)
    at_hand |= {name: [name] for name in available_providers()}
    return {name: asked for name, asked in at_hand.items() if name not in COMMON}


def _examine(proto: Any, settings: SessionOptions, nodes: dict[str, int] | None, found: Findings) -> None:
    """Finds the problems of a graph; `nodes` are those of each provider, None for a model that does not load."""
    versions = versions_of(proto)
    newest = limits(versions)
    operators = operators_of(proto)
    found.operators = len(operators)
    trials = Trials(
        {domain: min(version, newest.opsets[domain] or version) for domain, version in versions.items()},
        min(proto.ir_version, newest.ir_version or proto.ir_version),
        settings,
    )
    if nodes is None:
        _check_versions(proto.ir_version, versions, newest, found)
        for operator in operators:
            # The nodes of its subgraphs are there by themselves.
            if not any(True for _ in subgraphs(operator.node)):
                _check_operator(operator, trials, found)
    elif CPU_NAME in nodes:
        _check_casts(operators, trials, found)
        int8.check(proto, settings, found)


def _check_versions(ir_version: int, versions: dict[str, int], newest: Limits, found: Findings) -> None:
    later = "or take ONNX Runtime {} or later"
    if newest.ir_version is not None and ir_version > newest.ir_version:
        releases = [later.format(release) for _, ir, release in RELEASES if ir >= ir_version][:1]
        remedy = ", ".join([f"set the model's ir_version to {newest.ir_version}", *releases])
        found.add(ERROR, f"IR version {ir_version}", f"this library reads {newest.ir_version} and older", remedy)
    for domain, version in versions.items():
        limit = newest.opsets[domain]
        if limit is not None and version > limit:
            releases = [later.format(release) for opset, _, release in RELEASES if not domain and opset >= version][:1]
            remedy = ", ".join([f"convert it: onnx.version_converter.convert_version(model, {limit})", *releases])
            subject = f"opset {version} of {domain or ONNX_DOMAIN}"
            found.add(ERROR, subject, f"this library reads {limit} and older", remedy)


def _check_operator(operator: Operator, trials: Trials, found: Findings) -> None:
    """Finds the reason why the library does not load an operator by itself, if it does not."""
    nodes = tuple(operator.nodes)
    if operator.version is None:
        reason = f"the model imports no version of its domain {operator.domain or ONNX_DOMAIN!r}"
        found.add(ERROR, operator.name, reason, "add the domain to the model's opset_import", nodes)
        return
    error = trials.error(operator)
    if error is None:
        return
    if ort_messages.UNKNOWN_OPERATOR.matches(error):
        reason, remedy = _unknown(operator)
        found.add(ERROR, operator.name, reason, remedy, nodes)
    elif operator.typed and isinstance(error, NotImplementedByOrtError):
        kinds = operator.element_types, trials.types_with_kernels(operator)
        own, others = (", ".join(map(type_name, each)) for each in kinds)
        remedy = f"cast its inputs: it has one for {others}" if others else ""
        found.add(ERROR, operator.name, f"this library has no kernel for {own} on the CPU", remedy, nodes)
    elif operator.typed:
        found.add(ERROR, operator.name, found.plain(error), "", nodes)


def _unknown(operator: Operator) -> tuple[str, str]:
    """Why a library does not know an operator, and what mends it."""
    name, domain = operator.node.op_type, operator.domain
    if domain not in ("", "ai.onnx.ml"):
        return "this library does not know it", BRINGS.get(domain, REGISTER)
    schemas = package().defs.get_all_schemas_with_history()
    history = [schema for schema in schemas if (schema.name, schema.domain) == (name, domain)]
    first = min((schema.since_version for schema in history), default=None)
    if first is None:
        return "ONNX has no operator of this name", ""
    if first > (operator.version or 0):
        return f"ONNX has it since opset {first}, the model imports {operator.version}", f"convert it to opset {first}"
    dropped = min((schema.since_version for schema in history if schema.deprecated), default=None)
    return f"this library does not know it{f': ONNX dropped it in opset {dropped}' if dropped else ''}", ""


def _check_casts(operators: list[Operator], trials: Trials, found: Findings) -> None:
    """Finds operators of 16 bits that the CPU computes in 32."""
    for kind in (ElementType.FLOAT16, ElementType.BFLOAT16):
        cast = [each for each in operators if kind in each.element_types and each.typed and trials.is_cast(each)]
        if cast:
            names = ", ".join(sorted({each.node.op_type for each in cast}))
            found.add(
                WARNING,
                f"values of {type_name(kind)}",
                f"the CPU computes these operators in float32, between casts: {names}",
                "convert the model to float32, or give it a provider with such kernels",
                tuple(node for each in cast for node in each.nodes),
            )
