"""`save_optimized`: write the optimized model to a file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from zrt._common.arguments import boolean, entries, integer, path_bytes, paths, require_type, text
from zrt._common.config_keys import SessionConfigKey
from zrt._common.files import is_same, plain_name, replacing
from zrt._common.public import public
from zrt._native.library import library
from zrt.errors import ArgumentError, InvalidGraphError, UnsupportedError
from zrt.loading import model_source, origin
from zrt.loading.model_contents import contents_of, model_files
from zrt.loading.model_source import EXTERNAL_DATA_DIR, Model
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
    file holds at most 2 GB. Without it, weights that the model has in other files go into the new file; a new ONNX file
    in the model's own folder shares these files with the model, where none of them is a link out of the folder.

    Existing files are replaced as a whole at the end; sessions that read the old files are not affected. Only with
    `in_place` may they be the model's own file and those of its weights; a link stays, and the file that it leads to is
    replaced.

    Raises the same errors as `Session`, `FileError` if the files cannot be written, `ArgumentError` if they are the
    model's, and `UnsupportedError` if ONNX Runtime is older than 1.31 and writes `weights_file` so that the result does
    not load: it does so with large weights in the body of a loop or a branch; or if it leaves such weights in files
    that the result would not find.
    """
    target = os.fsdecode(path_bytes(path, "path"))
    require_type(options, SessionOptions | None, "options", "SessionOptions")
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
        # A weight without elements would get a place that is none.
        smallest = str(max(1, integer(weights_from, "weights_from")))
        settings[SessionConfigKey.OPTIMIZED_MODEL_EXTERNAL_INITIALIZERS_MIN_SIZE_IN_BYTES] = smallest
    boolean(in_place, "in_place")
    entries_of_load = dict(settings)
    if external_data_dir is not None:
        entries_of_load[EXTERNAL_DATA_DIR] = os.fsdecode(path_bytes(external_data_dir, "external_data_dir"))
    with model_source.Source(model) as source:
        kept = model_files(source, entries_of_load)
        own = "" if source.path is None else os.fsdecode(source.path)
    folder = entries_of_load.get(EXTERNAL_DATA_DIR) or os.path.dirname(own) or os.curdir
    place = os.path.realpath(target) if in_place else target
    # In the model's own place the new file is loaded as the model is, perhaps with weights from elsewhere.
    in_its_place = bool(own) and is_same(own, target)
    new_folder = folder if in_its_place else os.path.dirname(place) or os.curdir
    outside = kept[1:] if own else kept
    # The model may be a link, and have weights where the link leads; the new file is none.
    shares = is_same(folder, new_folder) and (in_its_place or all(_is_below(each, new_folder) for each in outside))
    moves = bool(outside) and weights_file is None and (in_ort_format or not shares)
    if moves:
        # The new model would look for these files in its own folder: weights that zrt brings go into it.
        trusted = map(os.fsdecode, paths(chosen.trusted_folders, "trusted_folders"))
        chosen = replace(chosen, trusted_folders=[folder, *trusted])
    if in_place:
        if weights_file is not None:
            _require_beside(place, [own, target] if in_its_place else [target], folder if in_its_place else "")
        target, kept = place, []
    beside = [] if weights_file is None else [weights_file]
    with replacing(target, *beside, inputs=[*kept, *chosen._libraries()]) as (written, *_):
        optimized = f"{written}.onnx" if in_ort_format else written
        writing = replace(chosen, optimized_model_filepath=optimized, config_entries=settings)
        Session(model, writing, providers, external_data_dir=external_data_dir).close()
        with model_source.Source(model) as source:
            level, asked = chosen.graph_optimization_level, parse(providers).asked()
            made = origin.written(source, target, level, chosen, asked, external_data_dir)
        if moves:
            _require_weights(optimized)
        origin.append(optimized, made, target, "path")
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


def _require_beside(place: str, names: list[str], folder: str) -> None:
    """Raises where weights beside `place` would not be found: by a link among its names, or in the model's `folder`."""
    beside, advice = os.path.dirname(place), "leave weights_file out, or save the model under another path"
    for name in names:
        if os.path.realpath(os.path.dirname(name)) != beside:
            raise ArgumentError(
                f"weights_file: {name!r} leads to {place!r}, and a load looks for weights beside the link: {advice}"
            )
    if folder and os.path.realpath(folder) != beside:
        raise ArgumentError(
            f"weights_file: a load with weights in {folder!r} would not find those beside {place!r}: {advice}"
        )


def _is_below(file: str, folder: str) -> bool:
    """Whether a file lies below a folder, also where its links lead."""
    return os.path.realpath(file).startswith(os.path.join(os.path.realpath(folder), ""))


def _require_weights(model: str) -> None:
    """Raises for a written model with weights in files, which it would look for in its own folder."""
    with model_source.Source(model) as source:
        outside = contents_of(source).outside
    if outside:
        raise UnsupportedError(
            f"path: ONNX Runtime leaves weights in {', '.join(map(repr, outside))}, where the new model would not find "
            "them: give weights_file, or save an ONNX file in the folder of these files"
        )
