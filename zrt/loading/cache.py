"""The cache of optimized models: its folder, its keys, and entries that are believed only after a check."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from io import BufferedReader
from typing import IO, Any, NamedTuple

from zrt._common.arguments import absolute, path_bytes, require_type, shown
from zrt._common.config_keys import SessionConfigKey
from zrt._native.cdata import buffer_at
from zrt._native.library import library
from zrt.errors import ArgumentError, ModelError
from zrt.loading import cache_entry
from zrt.loading.initializers import opened
from zrt.loading.model_source import EXTERNAL_DATA_DIR, Source
from zrt.loading.session_options import SessionOptions, cache_by_variable, cache_folder
from zrt.types import GraphOptimizationLevel
from zrt.version import __version__

logger: logging.Logger = logging.getLogger("zrt.cache")

SIZE_VARIABLE = "ZRT_CACHE_SIZE"
DEFAULT_SIZE = 4 << 30
FORMAT = 1

# Smaller models load about as fast as their entries.
SMALLEST_MODEL = 1 << 16

# A file that changed within this time may change once more without another time stamp.
SETTLED_NS = 2 * 10**9

# The fields that change no result, and those that are no data but only for the load itself.
_WITHOUT_EFFECT: dict[str, Any] = dict.fromkeys(
    ("cache", "load_cancellation", "log_severity_level", "log_verbosity_level", "logger", "logid", "thread_factory")
)

# With these fields a load does other work, or an entry does not have the nodes that they are about.
_OTHER_WORK = ("custom_op_libraries", "optimized_model_filepath", "profile_file_prefix", "record_placement")

# With such entries ONNX Runtime reads or writes other files, or the graph is for other providers.
FOREIGN_ENTRIES = (
    "ep.",
    "session.optimized_model_external_initializers",
    "session.use_ort_model",
    "session.use_memory_mapped_ort_model",
    SessionConfigKey.COLLECT_NODE_MEMORY_STATS_TO_FILE,
    SessionConfigKey.COMPILE_ONLY,
    SessionConfigKey.LOAD_MODEL_FORMAT,
    SessionConfigKey.RECORD_EP_GRAPH_ASSIGNMENT_INFO,
    SessionConfigKey.SAVE_EXTERNAL_PREPACKED_CONSTANT_INITIALIZERS,
    SessionConfigKey.SAVE_MODEL_FORMAT,
)

_ENTRY = re.compile(r"[0-9a-f]+-[0-9a-f]{64}\.zrt")
# The end of the name of the folder in which an entry is made; its lock tells other processes so.
FILLING = ".filling"
_SCRATCH = re.compile(_ENTRY.pattern + re.escape(FILLING))
# No files of the user's have such names: a folder of theirs may be named as the cache by mistake.
_MEMOS = ".zrt-notes"
_MEMO = re.compile(r"[0-9a-f]+-[0-9a-f]+\.note|\.new-\w+")
# With these errors an entry cannot be read now, and may be good.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotCached(Exception):  # noqa: N818 (the load goes on without the cache)
    """The reason why a load does without the cache."""


class UnusableFolder(NotCached):
    """The reason why the folder of the cache is not used."""


class Damaged(Exception):  # noqa: N818 (the entry is thrown away)
    """An entry that must not be believed."""


class Entry(NamedTuple):
    """An entry whose checksum is right."""

    about: Mapping[str, Any]
    graph: bytes
    """The optimized model; empty where the model is not for the cache."""
    nbytes: int
    """The size of the file."""


class Stored(NamedTuple):
    """An entry as `list_entries` describes it."""

    path: str
    nbytes: int
    used: float
    """The time of its last use, in seconds since the epoch."""


def folder_of(wanted: Any) -> str | None:
    """The folder of the cache that the option `SessionOptions.cache` means; None where there is to be none."""
    if wanted is None:
        variable = cache_by_variable()
        wanted = {"": False, "0": False, "1": True}.get(variable, variable)
    if wanted is False:
        return None
    if wanted is True:
        return default_folder()
    require_type(wanted, (str, os.PathLike), "cache", "True, False or a folder")
    folder = cache_folder(os.fsdecode(path_bytes(wanted, "cache")))
    try:
        return absolute(folder)
    except OSError as error:
        raise UnusableFolder(f"{shown(wanted)} is relative to the current folder: {error.strerror}") from None


def default_folder() -> str:
    """The user's own folder for caches."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/zrt")
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of these folders says that a relative one is ignored.
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "zrt")


def size_limit() -> int:
    """The most bytes that a cache holds."""
    variable = os.environ.get(SIZE_VARIABLE, "")
    if not variable:
        return DEFAULT_SIZE
    if not (variable.isascii() and variable.isdecimal() and len(variable) < 20):
        raise ArgumentError(f"{SIZE_VARIABLE}: {variable[:40]!r} is no number of bytes")
    return int(variable)


def require_room() -> None:
    """Raises `UnusableFolder` unless the cache may hold an entry: each load would make one that cannot stay."""
    try:
        limit = size_limit()
    except ArgumentError as error:
        raise UnusableFolder(str(error)) from None
    if limit < cache_entry.PAGE:
        raise UnusableFolder(f"{SIZE_VARIABLE}: {limit} bytes are too few for any entry")


def require_own(folder: str) -> None:
    """Raises `UnusableFolder` unless the folder is the user's own and nobody else may write to it."""
    state = os.stat(folder)
    if not stat.S_ISDIR(state.st_mode):
        raise UnusableFolder(f"{folder!r} is no folder")
    if state.st_uid != os.geteuid() or state.st_mode & _OTHERS_WRITE:
        raise UnusableFolder(f"{folder!r} belongs to another user, or others may write to it")


def open_folder(folder: str) -> None:
    """Makes the folder if there is none; raises `UnusableFolder` or `OSError` where it cannot be used."""
    if not os.path.isabs(folder):
        raise UnusableFolder("the user has no home: name the folder of the cache")
    try:
        folder.encode()
    except UnicodeEncodeError:
        # ONNX Runtime gets the path as UTF-8, to find the weights of an entry.
        raise UnusableFolder(f"{folder!r} is not valid UTF-8") from None
    _make_folder(folder)
    require_own(folder)
    _make_folder(os.path.join(folder, _MEMOS))
    if _notes_are_linked(folder):
        raise UnusableFolder(f"{folder!r} has a link in the place of its folder {_MEMOS!r}")


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except FileExistsError:
        raise UnusableFolder(f"{path!r} is no folder") from None


def _notes_are_linked(folder: str) -> bool:
    return os.path.islink(os.path.join(folder, _MEMOS))


def settings_of(options: SessionOptions) -> dict[str, Any]:
    """The options that an entry depends on, as data; raises `NotCached` for those that the cache is not for."""
    data = replace(options, **_WITHOUT_EFFECT)._changes()
    for name in _OTHER_WORK:
        if data.get(name):
            raise NotCached(f"{name}: such a load does more than to make a session, or needs other nodes")
    for key in data.get("config_entries", ()):
        if key.startswith(FOREIGN_ENTRIES):
            raise NotCached(f"config_entries[{key!r}]: the entry changes what a load reads or writes")
    if data.get("graph_optimization_level") == GraphOptimizationLevel.DISABLE_ALL.name:
        raise NotCached("graph_optimization_level: the optimizer is off")
    return data


def prefix_of(source: Source) -> str:
    """The start of the names of all entries for models of this one's size; `NotCached` for a model without any."""
    with opened(source) as file:
        # It raises for ONNX Runtime's own format, which is optimized already.
        size = file.model.end
    if size < SMALLEST_MODEL and not _names_files(source):
        raise NotCached(f"the model is smaller than {SMALLEST_MODEL} bytes")
    return f"{size:x}-"


def _names_files(source: Source) -> bool:
    """Whether the model may have weights in other files: it then has the key of their places."""
    return re.search(b"location", buffer_at(source.read())) is not None


class Job(NamedTuple):
    """The parts of a load on which its entry depends."""

    folder: str
    prefix: str
    external_data_dir: str | None
    settings: dict[str, Any]

    def name(self, source: Source) -> str:
        """The name of a model's entry, from the contents of the model and all that an entry depends on."""
        trusted = self.settings.get("trusted_folders", [])
        content = content_of(self.folder, source, self.external_data_dir, trusted)
        engine = library()
        parts = [FORMAT, __version__, engine.version, engine.build_info, processor(), content, self.settings]
        return f"{self.prefix}{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}.zrt"


def require_lasting_place(source: Source, external_data_dir: str | None) -> None:
    """Raises `NotCached` for a model in memory with weights in the current folder, which may be another one later."""
    if source.path is None and external_data_dir is None and _outside(source):
        raise NotCached("the model is in memory, and its weights are in the current folder")


def content_of(folder: str, source: Source, external_data_dir: str | None, trusted: Sequence[str]) -> list[str]:
    """The digests of a model and of its outside weights, with their names.

    Raises `NotCached` for weights outside of the model's folder and the `trusted` ones.
    """
    if source.path is None:
        digest = hashlib.sha256(buffer_at(source.data)).hexdigest()
        outside = _outside(source)
    else:
        path = os.fsdecode(source.path)
        if not stat.S_ISREG(os.stat(path).st_mode):
            # The open of a pipe would wait for its writer.
            raise NotCached(f"{path!r} is no plain file")
        with open(path, "rb") as model:
            digest, outside = _known(folder, path, model, source)
    content = [digest]
    if outside:
        # Deferred: only models with weights outside need it.
        from zrt.loading.external_weights import WeightFiles

        beside = external_data_dir or os.path.dirname(os.fsdecode(source.path or b""))
        with WeightFiles(source, external_data_dir, trusted) as files:
            for name in outside:
                try:
                    file = files.open(name)
                except ModelError as error:
                    raise NotCached(str(error)) from None
                with file:
                    content += [name, _known(folder, os.path.join(beside, name), file)[0]]
    return content


def _outside(source: Source) -> list[str]:
    # Deferred, as all that a load from an entry does not need.
    from zrt.loading.model_contents import contents_of

    # A search in memory is fast; that in a large file is not, and its answer is noted.
    searched = source.path is None and not _names_files(source)
    return [] if searched else sorted(contents_of(source).outside)


def _known(folder: str, path: str, file: BufferedReader, source: Source | None = None) -> tuple[str, Any]:
    """The digest of the open file at `path`, and of a model's the names of its outside weights.

    They come from the note of an earlier load if the file is unchanged since.
    """
    start, state = time.time_ns(), os.fstat(file.fileno())
    noted = recall(folder, state)
    # A file of weights may be a model too.
    if noted is not None and (source is None or noted["outside"] is not None):
        return noted["digest"], noted["outside"]
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    outside = None if source is None else _outside(source)
    if _identity(os.fstat(file.fileno())) != _identity(state) or not os.path.samestat(state, os.stat(path)):
        raise NotCached(f"{path!r} changes while it is read")
    note(folder, state, start, digest, outside)
    return digest, outside


@cache
def processor() -> list[str]:
    """The kind of CPU and its features, on which the optimizer and the packed weights depend."""
    words = [platform.system(), platform.machine()]
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        wanted = re.compile(r"(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+)\s*:")
        for line in file:
            if not line.strip() and len(words) > 2:
                break
            if wanted.match(line):
                words.append(line.strip())
    if sys.platform == "darwin":
        # Deferred: only macOS needs it.
        import ctypes

        size = ctypes.c_size_t(256)
        name = ctypes.create_string_buffer(size.value)
        ctypes.CDLL(None).sysctlbyname(b"machdep.cpu.brand_string", name, ctypes.byref(size), None, ctypes.c_size_t(0))
        words.append(name.value.decode("utf-8", "replace"))
    return words


def _identity(state: os.stat_result) -> list[int]:
    return [state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def _memo(folder: str, state: os.stat_result) -> str:
    return os.path.join(folder, _MEMOS, f"{state.st_dev:x}-{state.st_ino:x}.note")


def recall(folder: str, state: os.stat_result, mark: bool = True) -> dict[str, Any] | None:
    """The note about a file, if the file is unchanged since and the note is intact; by default it is marked as used."""
    path = _memo(folder, state)
    try:
        with open(path, "rb") as file:
            checksum, _, text = file.read().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != checksum:
            return None
        content = json.loads(text)
        # Another version of zrt may note other things.
        noted = {key: content[key] for key in ("identity", "digest", "outside")}
        if noted["identity"] != _identity(state):
            return None
        if mark:
            # A note that cannot be changed holds all the same.
            with suppress(OSError):
                os.utime(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return noted


def note(folder: str, state: os.stat_result, start: int, digest: str, outside: list[str] | None = None) -> None:
    """Notes the digest of a file that was read from the time `start` on, unless it had changed a moment before."""
    if start - max(state.st_mtime_ns, state.st_ctime_ns) < SETTLED_NS:
        return
    # Deferred, as in `_outside`.
    import tempfile

    text = json.dumps({"identity": _identity(state), "digest": digest, "outside": outside}).encode()
    with suppress(OSError):
        number, fresh = tempfile.mkstemp(prefix=".new-", dir=os.path.join(folder, _MEMOS))
        try:
            with open(number, "wb") as file:
                file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            os.replace(fresh, _memo(folder, state))
        except OSError:
            os.unlink(fresh)


def read(folder: str, name: str, *, whole: bool = False, mark: bool = True) -> Entry:
    """An entry, checked by its checksum: raises `Damaged`, `FileNotFoundError` if there is none, or another `OSError`;
    `NotCached` for one that changes meanwhile.

    A file that has not changed since its checksum was right is not summed again, except for `whole`. By default the
    entry is marked as used.
    """
    try:
        with open(os.path.join(folder, name), "rb", opener=_open) as file:
            return _checked(folder, name, file, whole, mark)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _PASSING:
            raise
        raise Damaged(error.strerror) from None


def _open(path: str, flags: int) -> int:
    """Opens an entry, but no link, and without waiting for a pipe's writer."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _checked(folder: str, name: str, file: IO[bytes], whole: bool, mark: bool) -> Entry:
    start, state = time.time_ns(), os.fstat(file.fileno())
    if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & _OTHERS_WRITE:
        raise Damaged("it is not the user's own file")
    checksum = file.read(cache_entry.DIGEST_SIZE)
    noted = None if whole else recall(folder, state, mark)
    if noted is None or noted["digest"] != checksum.hex():
        digest = cache_entry.digest(file)
        if _identity(os.fstat(file.fileno())) != _identity(state):
            # Another process may have removed it, and made it anew, a moment ago.
            raise NotCached(f"{os.path.join(folder, name)!r} changes while it is read")
        if digest != checksum:
            raise Damaged("its checksum is wrong")
        if mark:
            note(folder, state, start, checksum.hex())
    try:
        about, graph = cache_entry.content(file)
        if about["name"] != name:
            raise Damaged("it is the entry of another model")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged("it is no entry") from None
    return Entry(about, graph, state.st_size)


def discard(folder: str, name: str) -> None:
    """Removes an entry, if the system lets it; processes that map it keep it."""
    with suppress(OSError):
        os.unlink(os.path.join(folder, name))


def list_entries(folder: str) -> Iterator[Stored]:
    """The entries of a cache, in no order."""
    for name in os.listdir(folder):
        if _ENTRY.fullmatch(name):
            path = os.path.join(folder, name)
            with suppress(OSError):
                state = os.lstat(path)
                used = state.st_mtime
                with suppress(OSError):
                    used = max(used, os.stat(_memo(folder, state)).st_mtime)
                yield Stored(path, state.st_size, used)


def trim(folder: str, limit: int, keep: str | None = None) -> list[str]:
    """Removes the entries and notes that are unused for longest, until all fit into `limit` bytes; and the folders of
    processes that ended before their entries were made. The entry `keep` is the last to go. Returns the paths.
    """
    # Deferred, as in `_outside`.
    from zrt._common.files import remove_abandoned

    remove_abandoned(folder, _SCRATCH)
    files = list(list_entries(folder))
    notes: list[os.DirEntry[str]] = []
    with suppress(OSError):
        notes = [] if _notes_are_linked(folder) else list(os.scandir(os.path.join(folder, _MEMOS)))
    for each in notes:
        # Another process may remove it meanwhile.
        with suppress(OSError):
            if _MEMO.fullmatch(each.name):
                state = each.stat(follow_symlinks=False)
                files.append(Stored(each.path, state.st_blocks * 512, state.st_mtime))
    files.sort(key=lambda file: (file.path == keep, file.used))
    total = sum(file.nbytes for file in files)
    removed = []
    for file in files:
        if total <= limit:
            break
        with suppress(OSError):
            os.unlink(file.path)
            removed.append(file.path)
        total -= file.nbytes
    return removed


def in_entry(options: SessionOptions, folder: str) -> SessionOptions:
    """The options with which an entry is loaded that lies in `folder`."""
    entries = {**options.config_entries, EXTERNAL_DATA_DIR: folder}
    level = GraphOptimizationLevel.DISABLE_ALL
    # The entry's weights lie in its own folder, where ONNX Runtime maps them itself.
    return replace(options, graph_optimization_level=level, config_entries=entries, trusted_folders=[], cache=False)
