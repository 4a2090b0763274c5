"""The config entries of an ``OrtSessionOptions``."""

from __future__ import annotations

from zrt._common.config_keys import SessionConfigKey
from zrt._native import status
from zrt._native.handle import Handle
from zrt._native.library import api, load_api
from zrt.environment.pool_options import PoolOptions
from zrt.memory.allocators import read_pairs

# The folder with the external weights of a model in memory; ORT ignores it for a model from a path.
EXTERNAL_DATA_DIR = SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH.encode()


def add_entry(options: PoolOptions, key: bytes, value: bytes) -> None:
    """Sets an entry, in place of an earlier one of that key."""
    status.check(api().AddSessionConfigEntry(options.pointer, key, value))
    options.entries[key] = True


def has_entry(options: PoolOptions, key: bytes) -> bool:
    """Whether the options have an entry of that key; loads that share options ask ORT once."""
    found = options.entries.get(key)
    if found is None:
        found = bool(status.fetch(load_api().HasSessionConfigEntry, "int", options.pointer, key))
        options.entries[key] = found
    return found


def read_entries(options: Handle) -> dict[str, str]:
    """All entries."""
    table = api()
    function = table.GetSessionOptionsConfigEntries
    pairs = Handle.make(table.ReleaseKeyValuePairs, [], function, "OrtKeyValuePairs", options.pointer)
    return read_pairs(pairs.pointer)
