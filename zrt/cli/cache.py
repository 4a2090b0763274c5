"""``zrt cache``: lists, verifies and clears the cache of optimized models."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zrt.cli import common
from zrt.cli.options import option
from zrt.cli.units import mebibytes, plural
from zrt.loading import cache

OPTIONS = (
    option(
        "action",
        "list: the entries; verify: sum each one anew and remove the damaged ones; clear: remove all",
        nargs="?",
        choices=("list", "verify", "clear"),
        default="list",
    ),
    option("--folder", "the cache's folder (default: what ZRT_CACHE names, else the user's own)", "FOLDER", Path),
)


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt cache``; the status is 1 where ``verify`` finds a damaged entry."""
    try:
        folder = cache.folder_of(arguments.folder) or cache.default_folder()
        exists = os.path.lexists(folder)
        if exists:
            cache.require_own(folder)
    except cache.NotCached as error:
        raise common.CommandError(str(error)) from None
    entries: list[dict[str, Any]] = []
    bad: list[str] = []
    removed: list[str] = []
    stored = sorted(cache.list_entries(folder), key=lambda each: each.used, reverse=True) if exists else []
    if arguments.action != "clear":
        entries = [_describe(each, arguments.action == "verify") for each in stored]
    elif exists:
        removed = cache.trim(folder, -1)
        # Another process may make a removed entry again.
        bad = sorted({each.path for each in stored}.difference(removed))
    if arguments.action == "verify":
        bad = [each["path"] for each in entries if each["damaged"]]
        for path in bad:
            cache.discard(*os.path.split(path))
        removed = bad
    stay = [path for path in bad if os.path.lexists(path)]
    if stay:
        raise common.CommandError(f"{_entries(stay)} cannot be removed, such as {stay[0]!r}")
    document = {"folder": folder, "limit": cache.size_limit(), "entries": entries, "removed": removed}
    common.print_result(arguments, document, _show, document)
    return common.FAILED if arguments.action == "verify" and bad else 0


def _show(page: common.Page, document: dict[str, Any]) -> None:
    entries, removed = document["entries"], document["removed"]
    size = mebibytes(sum(each["bytes"] for each in entries))
    page.line(f"{document['folder']}: {_entries(entries)}, {size} of {mebibytes(document['limit'])}")
    rows = [
        (each["problem"] or each["model"], each["refused"] or "", mebibytes(each["bytes"]), each["used"])
        for each in entries
    ]
    if rows:
        page.table(("model", "not for the cache because", "size", "last used"), rows, left=2)
    if removed:
        page.line(f"removed {plural(len(removed), 'file')}")


def _entries(some: Sequence[object]) -> str:
    return "1 entry" if len(some) == 1 else f"{len(some)} entries"


def _describe(stored: cache.Stored, whole: bool) -> dict[str, Any]:
    """An entry as plain data for JSON; `problem` says why it is not to be believed."""
    about: Any = {}
    problem, damaged = None, False
    try:
        about = cache.read(*os.path.split(stored.path), whole=whole, mark=False).about
    except cache.Damaged as error:
        problem = str(error)
        damaged = True
    except cache.NotCached as error:
        problem = str(error)
    except OSError as error:
        # Another process may have removed it a moment ago.
        problem = error.strerror
    return {
        "path": stored.path,
        "model": about.get("model"),
        "refused": about.get("refused"),
        "problem": problem,
        "damaged": damaged,
        "bytes": stored.nbytes,
        "used": time.strftime("%Y-%m-%d %H:%M", time.localtime(stored.used)),
    }
