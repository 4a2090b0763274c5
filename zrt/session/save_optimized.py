"""`save_optimized`: write the optimized model to a file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from zrt._common.arguments import boolean, entries, integer, path_bytes, text, wrong_type
from zrt._common.config_keys import SessionConfigKey
from zrt._common.files import plain_name, replacing
from zrt._common.public import public
from zrt._native.library import library
from zrt.errors import ArgumentError, InvalidGraphError, UnsupportedError
from zrt.loading import model_source, origin
from zrt.loading.model_contents import model_files
from zrt.loading.model_source import Model
from zrt.loading.session_options import SessionOptions
from zrt.providers.default_selection import parse
from zrt.providers.selection import ProvidersLike
from zrt.session.session import Session
from zrt.types import GraphOptimizationLevel

ORT_SUFFIX = ".ort"
# The API version since which ONNX Runtime writes weights inside the body of a loop or a branch right into other files.
BODIES_SINCE = 31


@public
def save_optimized(
    model: Model,
    path: str | os.PathLike[str],
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    *,
    weights_file: str | None = None,
    weights_from: int = 1024,
    in_place: bool = False,
    external_data_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Loads a model and writes the optimized graph, which loads faster.

    A `path` that ends in ``.ort`` gets ONNX Runtime's own format, any other path ONNX. Without `options` the
    optimization level is ``ENABLE_EXTENDED``, whose result runs on any CPU; that of ``ENABLE_ALL`` may run on this CPU
    only. The optimizer can be disabled when the result is loaded.

    With `weights_file`, the name of a file beside `path`, weights of `weights_from` bytes and more go there: a model
    file holds at most 2 GB. Existing files are replaced as a whole at the end; sessions that read the old files are not
    affected. Only with `in_place` may they be the model's own file and those of its weights; a link stays, and the file
    that it leads to is replaced.

    Raises the same errors as `Session`, `ArgumentError` if the files cannot be written, or are the model's, and
    `UnsupportedError` if ONNX Runtime is older than 1.31 and writes `weights_file` so that the result does not load: it
    does so with large weights in the body of a loop or a branch.
    """
    target = os.fsdecode(path_bytes(path, "path"))
    if options is not None and not isinstance(options, SessionOptions):
        raise wrong_type("options", "SessionOptions", options)
    chosen = options or SessionOptions(graph_optimization_level=GraphOptimizationLevel.ENABLE_EXTENDED)
    if chosen.optimized_model_filepath is not None:
        raise ArgumentError("options: they have an optimized_model_filepath of their own; path says where it goes")
    settings = {key.decode(): entry.decode() for key, entry in entries(chosen.config_entries, "config_entries")}
    in_ort_format = os.path.abspath(target).lower().endswith(ORT_SUFFIX)
    settings[SessionConfigKey.SAVE_MODEL_FORMAT] = "ONNX"
    if weights_file is not None:
        text(weights_file, "weights_file")
        if in_ort_format:
            raise ArgumentError(
                f"weights_file: {weights_file!r}: a model in ONNX Runtime's own format keeps its weights"
            )
        plain_name(weights_file, target, "weights_file")
        settings[SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_FILE_NAME] = weights_file
        smallest = str(integer(weights_from, "weights_from"))
        settings[SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_MIN_SIZE_IN_BYTES] = smallest
    kept: list[str] = []
    if boolean(in_place, "in_place"):
        target = os.path.realpath(target)
    else:
        entries_of_load = dict(settings)
        if external_data_dir is not None:
            folder = os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))
            entries_of_load[SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH] = folder
        with model_source.Source(model) as source:
            kept = model_files(source, entries_of_load)
    beside = [] if weights_file is None else [weights_file]
    with replacing(target, *beside, inputs=kept) as (written, *_):
        optimized = f"{written}.onnx" if in_ort_format else written
        writing = replace(chosen, optimized_model_filepath=optimized, config_entries=settings)
        Session(model, writing, providers, external_data_dir=external_data_dir).close()
        with model_source.Source(model) as source:
            level, asked = chosen.graph_optimization_level, parse(providers).asked()
            made = origin.written(source, target, level, chosen.config_entries, asked, external_data_dir)
        origin.append(optimized, made, f"path: {target!r}")
        of_the_model: dict[str, Any] = {
            "initializers": {},
            "optional_initializers": [],
            "external_initializer_files": {},
        }
        loading = replace(chosen, **of_the_model, config_entries={}, profile_file_prefix=None, cache=False)
        if in_ort_format:
            # The origin can be put behind an ONNX model alone, whose metadata ONNX Runtime writes into its own format.
            settings |= {SessionConfigKey.SAVE_MODEL_FORMAT: "ORT", SessionConfigKey.LOAD_MODEL_FORMAT: "ONNX"}
            converting = replace(
                loading,
                graph_optimization_level=GraphOptimizationLevel.DISABLE_ALL,
                optimized_model_filepath=written,
                config_entries=settings,
            )
            Session(optimized, converting, providers).close()
            os.remove(optimized)
        if weights_file is not None and library().api_version < BODIES_SINCE:
            try:
                Session(written, loading, providers).close()
            except InvalidGraphError as error:
                raise UnsupportedError(
                    f"weights_file: ONNX Runtime {library().version} writes weights in the body of a loop or a branch "
                    "so that the result does not load: leave weights_file out, define the weights outside the body, or "
                    "take ONNX Runtime 1.31 or later"
                ) from error
