"""Ahead-of-time compilation: the nodes that a provider compiles at load, written into a model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from zrt._common.arguments import boolean, choose, integer, path_bytes, text, wrong_type
from zrt._common.files import plain_name, replacing
from zrt._common.public import public
from zrt._native import ffi, lib, status
from zrt._native.callback_errors import Carrier, Load, callback
from zrt._native.cdata import address_of, buffer_at, sizeof
from zrt._native.handle import Handle
from zrt._native.later import later
from zrt._native.library import api, library
from zrt.environment.environment import current
from zrt.environment.pool_options import PoolOptions
from zrt.errors import ArgumentError, CallbackError, ClosedError, Error, UnsupportedError
from zrt.loading import model_source, origin
from zrt.loading.initializers import Initializer
from zrt.loading.load import data_of, load_error, load_model, prepare_options, settle_threads
from zrt.loading.model_contents import model_files
from zrt.loading.session_options import SessionOptions
from zrt.memory import arrays
from zrt.memory.allocators import allocation_block, default_allocator
from zrt.providers.default_selection import parse
from zrt.providers.selection import ProvidersLike
from zrt.types import ElementType, GraphOptimizationLevel, nbytes

Read: TypeAlias = "Callable[[], np.ndarray[Any, Any]]"
Writer: TypeAlias = "Callable[[bytes], Any]"
Locator: TypeAlias = "Callable[[Initializer, Read], tuple[str, int] | None]"
Output: TypeAlias = "str | os.PathLike[str] | Writer | None"

# Of ``OrtCompileApiFlags``. ONNX Runtime writes beside the output file, so whether that exists is checked here.
NO_NODES_COMPILED = 1


@public
def compile(
    model: Any,
    output: Output = None,
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    *,
    graph_optimization_level: GraphOptimizationLevel | int | str | None = None,
    embed_compiled_data_into_model: bool | None = None,
    ep_context_binaries: tuple[str | os.PathLike[str], str] | None = None,
    external_initializers_file: str | None = None,
    external_initializers_size_threshold: int = 1024,
    external_initializers_alignment: int = 0,
    get_initializer_location_func: Locator | None = None,
    weightless: bool = False,
    error_if_no_nodes_compiled: bool = False,
    error_if_output_file_exists: bool = False,
    external_data_dir: str | os.PathLike[str] | None = None,
) -> bytes | None:
    """Lets the providers compile a model, and writes the model with the compiled nodes.

    `model`, `options`, `providers` and `external_data_dir` are as for `Session`, but the options `memory`,
    `memory_limit` and `cache` have no effect; a `Graph`, or another object with ``to_onnx()``, is a model too. `output`
    is the path to write to, or a function that is called with each piece of the model (`bytes`) in turn; without it the
    model is returned as `bytes`. Nodes that no provider compiles stay unchanged. With `error_if_no_nodes_compiled` it
    is an error if no node is compiled, which is always so with the CPU execution provider alone: use `save_optimized`
    there.

    The output file and the files that providers write beside it are replaced as a whole; none of them may be a file of
    the model that is compiled. With `error_if_output_file_exists` an existing output or `external_initializers_file`
    raises `ArgumentError`. `graph_optimization_level` is the level at which the graph is optimized first; None means
    ``DISABLE_ALL``, also if the options have a level. `embed_compiled_data_into_model` stores the compiled data in the
    model rather than in files beside it; for an output that is no path, `ep_context_binaries` gives the folder for
    these files and the model's name, from which their names are derived.

    The model contains the weights. With `external_initializers_file`, the name of a file beside `output`, weights of
    `external_initializers_size_threshold` bytes and more go there. With `external_initializers_alignment`, a power of
    two, each of them begins at a multiple of it, so that the file can be mapped (since ONNX Runtime 1.31). Or
    `get_initializer_location_func` is called for each weight, with an `Initializer` (its name, type, shape and size;
    `location` and `offset` if ONNX Runtime reads it from a file) and a function that returns a copy of the weight,
    packed types as their bytes. It returns the file, relative to the model's folder, and the offset at which it wrote
    the weight; or None to keep the weight in the model. ONNX Runtime 1.29 cannot do that. With `weightless` providers
    that can do it leave the weights out of what they compile; a session reads them from the source model, see
    `SessionOptions.weightless_source_model` (since ONNX Runtime 1.29).

    Raises the same errors as `Session`, `FileError` if the output cannot be written, and `CallbackError` if a
    function of the caller's raises, with its exception as the cause.
    """
    work = _Compilation()
    level = GraphOptimizationLevel.DISABLE_ALL
    if graph_optimization_level is not None:
        level = choose(GraphOptimizationLevel, graph_optimization_level, "graph_optimization_level")
        work.set("SetGraphOptimizationLevel", int(level))
    if embed_compiled_data_into_model is not None:
        work.set("SetEpContextEmbedMode", boolean(embed_compiled_data_into_model, "embed_compiled_data_into_model"))
    if boolean(error_if_no_nodes_compiled, "error_if_no_nodes_compiled"):
        work.set("SetFlags", NO_NODES_COMPILED)
    boolean(error_if_output_file_exists, "error_if_output_file_exists")
    beside = []
    threshold = integer(external_initializers_size_threshold, "external_initializers_size_threshold", 0, 2**63 - 1)
    if external_initializers_file is not None:
        if get_initializer_location_func is not None:
            raise ArgumentError("external_initializers_file: with get_initializer_location_func it is not asked for")
        text(external_initializers_file, "external_initializers_file")
        if not isinstance(output, (str, os.PathLike)):
            raise ArgumentError("external_initializers_file: it lies beside the output, which must be a path for that")
        beside.append(plain_name(external_initializers_file, output, "external_initializers_file"))
        # A weight without elements would get a place that is none.
        smallest = max(1, threshold)
        work.set("SetOutputModelExternalInitializersFile", os.fsencode(external_initializers_file), smallest)
    alignment = integer(external_initializers_alignment, "external_initializers_alignment", 0, 2**62)
    if alignment & (alignment - 1):
        raise ArgumentError(f"external_initializers_alignment: {alignment} is no power of two")
    if alignment:
        subject = "external_initializers_alignment"
        if external_initializers_file is None:
            raise ArgumentError(f"{subject}: it is for external_initializers_file, which is not given")
        work.set_later("SetOutputModelExternalInitializersAlignment", subject, alignment, 0)
    if boolean(weightless, "weightless"):
        work.set_later("SetWeightlessEnabled", "weightless", True)
    if get_initializer_location_func is not None:
        work.locate(get_initializer_location_func)
    if ep_context_binaries is not None:
        if isinstance(output, (str, os.PathLike)):
            raise ArgumentError("ep_context_binaries: they go beside the output, which is a path")
        work.set("SetEpContextBinaryInformation", *_folder_and_name(ep_context_binaries))
    make = getattr(model, "to_onnx", None)
    with model_source.Source(make() if callable(make) else model) as source:
        chosen = parse(providers)
        settings = prepare_options(options, chosen, external_data_dir)
        target = os.fspath(output) if isinstance(output, (str, os.PathLike)) else None
        made_with = SessionOptions() if options is None else options
        work.origin = origin.written(source, target, level, made_with, chosen.asked(), external_data_dir)
        libraries = made_with._libraries()
        writing = _writing(output, beside, error_if_output_file_exists, work, source, settings, libraries)
        with writing, chosen.loading(settings):
            load_model(source, settings, options, work.run)
    return work.result


def _folder_and_name(binaries: Any) -> tuple[bytes, bytes]:
    folder, name = _pair(binaries, "ep_context_binaries", "a folder and a name")
    where = path_bytes(folder, "ep_context_binaries")
    if not os.path.isdir(where):
        raise ArgumentError(f"ep_context_binaries: there is no folder {os.fsdecode(where)!r}")
    if not text(name, "ep_context_binaries"):
        raise ArgumentError("ep_context_binaries: the model's name is empty")
    # ORT needs a separator at the end to recognize a folder.
    return os.path.join(where, b""), name.encode()


def _location(place: Any, subject: str) -> tuple[bytes, int]:
    file, offset = _pair(place, subject, "a file's name and an offset")
    path = path_bytes(file, subject)
    if not path:
        raise ArgumentError(f"{subject}: the file's name is empty")
    return path, integer(offset, f"{subject}: offset", 0, 2**63 - 1)


def _pair(value: Any, subject: str, wanted: str) -> tuple[Any, Any]:
    try:
        first, second = value
    except (TypeError, ValueError):
        raise wrong_type(subject, wanted, value) from None
    return first, second


@contextmanager
def _writing(
    output: Output,
    beside: Sequence[str],
    new: bool,
    work: _Compilation,
    source: model_source.Source,
    settings: PoolOptions,
    libraries: list[str],
) -> Iterator[None]:
    """Sets the output of the compilation, and moves the written files to their place at the end."""
    if output is None:
        work.into_memory()
        yield
    elif isinstance(output, (str, os.PathLike)):
        target = os.fsdecode(path_bytes(output, "output"))
        if not os.path.splitext(target)[1]:
            raise ArgumentError(f"output: {target!r}: ONNX Runtime wants a name with an extension, such as .onnx")
        for each in (target, *(os.path.join(os.path.dirname(target), name) for name in beside)):
            # A link that leads nowhere would be replaced too.
            if new and os.path.lexists(each):
                raise ArgumentError(f"output: {each!r} is there already")
        kept = [*model_files(source, settings.config_entries()), *libraries]
        with replacing(target, *beside, subject="output", inputs=kept) as (written, *_):
            work.set("SetOutputModelPath", os.fsencode(written))
            yield
            origin.append(written, work.origin, target, "output")
    elif callable(output):
        work.into(output)
        yield
    else:
        raise wrong_type("output", "a path, a function or None", output)


class _Compilation(Carrier):
    """One compilation: its settings, the caller's functions and the result."""

    def __init__(self) -> None:
        super().__init__()
        self.result: bytes | None = None
        self.origin = b""
        """The last field of the model: where it comes from."""
        self._settings: list[tuple[Any, tuple[Any, ...]]] = []
        self._memory: Handle | None = None
        self._writer: Writer | None = None
        self._locator: Locator | None = None
        self._asked = ""
        self._table = api().GetCompileApi()
        if not self._table:
            raise UnsupportedError("this library has no compile API: it is a minimal build")
        self._python = self.handle()
        self._state = ffi.new("zrt_compilation *")
        self._state.api = api()
        self._state.python = self._python
        self._state.write = lib.zrt_compile_chunk
        self._state.place = lib.zrt_compile_initializer

    def set(self, name: str, *arguments: Any) -> None:
        """Adds a call of a setter of the compile API, with these arguments after the options."""
        self._settings.append((getattr(self._table, f"ModelCompilationOptions_{name}"), arguments))

    def set_later(self, name: str, subject: str, *arguments: Any) -> None:
        """The same for a setter that came after API version 27, which `subject` needs."""
        self._settings.append((later(f"ModelCompilationOptions_{name}", subject), arguments))

    def into_memory(self) -> None:
        """Stores the model in `result`."""
        allocator = default_allocator()
        self._memory = allocation_block(allocator)
        memory = self._memory.pointer
        self.set("SetOutputModelBuffer", allocator, ffi.addressof(memory, "data"), ffi.addressof(memory, "bytes"))

    def into(self, writer: Writer) -> None:
        """Passes the model to the caller's function in pieces."""
        self._writer = writer
        self.set("SetOutputModelWriteFunc", ffi.addressof(lib, "zrt_compile_write"), self._state)

    def locate(self, locator: Locator) -> None:
        """Calls the caller's function for each weight."""
        if not callable(locator):
            raise wrong_type("get_initializer_location_func", "a function", locator)
        if library().version.startswith("1.29."):
            raise UnsupportedError(
                "get_initializer_location_func: ONNX Runtime 1.29 then writes each node twice; use "
                "external_initializers_file, or another release"
            )
        self._locator = locator
        self.set("SetOutputModelGetInitializerLocationFunc", ffi.addressof(lib, "zrt_compile_place"), self._state)

    def run(
        self,
        source: model_source.Source,
        settings: PoolOptions,
        container: Handle | None = None,
        lent: Sequence[Handle] = (),
    ) -> None:
        """Compiles; `lent` owns the memory that the settings point to. Ignores a `container` of packed weights."""
        table, environment = self._table, current().pointer
        handle = Handle.make(
            table.ReleaseModelCompilationOptions,
            [settings, *lent],
            table.CreateModelCompilationOptionsFromSessionOptions,
            "OrtModelCompilationOptions",
            environment,
            settings.pointer,
        )
        data = data_of(source, settings)
        try:
            if data is None:
                status.check(table.ModelCompilationOptions_SetInputModelPath(handle.pointer, source.path))
            else:
                size = sizeof(data)
                status.check(table.ModelCompilationOptions_SetInputModelFromBuffer(handle.pointer, data, size))
            for function, arguments in self._settings:
                status.check(function(handle.pointer, *arguments))
            with Load():
                status.check(table.CompileModel(environment, handle.pointer))
        except Error as error:
            self._settle_all(settings, source.subject)
            if isinstance(error, CallbackError):
                # Its direct cause is the exception that the caller's own code raised.
                raise
            raise load_error(source, settings, error) from error
        if self._writer is not None:
            try:
                self.deliver(self.origin)
            # As those of the earlier pieces, it becomes the cause of a CallbackError.
            except BaseException as error:
                self.keep(error)
        self._settle_all(settings, source.subject)
        if self._memory is not None:
            model = self._memory.pointer
            self.result = bytes(buffer_at(model.data, model.bytes)) + self.origin
            self._memory = None

    def _settle_all(self, settings: PoolOptions, subject: str) -> None:
        """Raises the exceptions of the caller's functions, if any."""
        settle_threads(settings, subject)
        self.settle(f"{subject}: {self._asked}")

    def deliver(self, piece: bytes) -> None:
        """Passes a piece of the model to the caller's function."""
        self._asked = "output"
        assert self._writer is not None
        taken = self._writer(piece)
        # The `write` of an unbuffered file returns the number of bytes that it wrote.
        if type(taken) is int and taken != len(piece):
            raise OSError(f"it took {taken} bytes of {len(piece)}")

    def place(self, name: Any, value: Any, there: Any, placed: Any) -> None:
        """Asks the caller's function for the place of a weight."""
        self._asked = "get_initializer_location_func"
        assert self._locator is not None
        weight = _Weight(status.string(name), value, there)
        try:
            place = self._locator(weight.info, weight.read)
        finally:
            weight.end()
        if place is not None:
            file, offset = _location(place, f"weight {weight.info.name!r}")
            status.check(api().CreateExternalInitializerInfo(file, offset, weight.info.nbytes, placed))


@callback()
def zrt_compile_chunk(python: Any, data: Any, size: int) -> int:
    ffi.from_handle(python).deliver(buffer_at(data, size)[:])
    return 0


@callback()
def zrt_compile_initializer(python: Any, name: Any, value: Any, there: Any, placed: Any) -> int:
    ffi.from_handle(python).place(name, value, there, placed)
    return 0


class _Weight:
    """A weight in ONNX Runtime's memory, which is valid during one call only."""

    __slots__ = ("_lock", "_value", "info")

    def __init__(self, name: str, value: Any, there: Any) -> None:
        table = api()
        code, shape = status.type_and_shape(value)
        element_type = ElementType(code)
        if element_type is ElementType.STRING:
            raise UnsupportedError(f"weight {name!r} holds strings, which ONNX Runtime would write as addresses")
        location = offset = None
        if there:
            location = ffi.string(table.ExternalInitializerInfo_GetFilePath(there)).decode(errors="surrogateescape")
            offset = table.ExternalInitializerInfo_GetFileOffset(there)
        self.info = Initializer(name, element_type, shape, nbytes(element_type, shape), location, offset)
        self._value = value
        self._lock = threading.Lock()

    def read(self) -> np.ndarray[Any, Any]:
        """Returns a copy of the weight."""
        info = self.info
        with self._lock:
            if self._value is None:
                raise ClosedError(f"weight {info.name!r} can be read during the call that gave it alone")
            address = address_of(status.fetch(api().GetTensorData, "const void *", self._value))
            return arrays.view(Handle.borrow(self._value), address, info.shape, info.element_type).copy()

    def end(self) -> None:
        """Makes `read` raise: the memory is no longer valid."""
        with self._lock:
            self._value = None
