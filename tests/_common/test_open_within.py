"""`open_within`: files below trusted folders, and attempts to get out of them."""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zrt._common.open_within import PathRefused, identity, open_folder, open_within


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The folders `inside`, which is trusted, and `outside`, each with a file; and descriptors that are closed."""
    for name in ("inside", "outside"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    return tmp_path


def content(path: Path | str, trusted: Path) -> str:
    before = os.listdir("/dev/fd")
    folder = open_folder(os.fsencode(trusted))
    try:
        with open(open_within(os.fsencode(path), [identity(folder)])) as file:
            return file.read()
    finally:
        os.close(folder)
        assert os.listdir("/dev/fd") == before


@pytest.mark.parametrize(
    "path",
    [
        "inside/file",
        "inside/./deep//../file",
        "outside/deep/../../inside/file",
        "outside/chain",
        "outside/into/file",
        "inside/back",
        "../" * 60 + "{}/inside/file",
    ],
)
def test_paths_that_lead_inside(tree: Path, path: str) -> None:
    (tree / "outside/chain").symlink_to("deep/second")
    (tree / "outside/deep/second").symlink_to(tree / "inside/file")
    (tree / "outside/into").symlink_to("../inside")
    (tree / "inside/back").symlink_to("../outside/chain")
    (tree / "linked").symlink_to("inside")
    for trusted in ("inside", "linked", "."):
        assert content(f"{tree}/{path.format(tree)}", tree / trusted) == "inside"


@pytest.mark.parametrize(
    "path",
    [
        "outside/file",
        "inside/dangling",
        "inside/../outside/file",
        "inside/deep/out",
        "inside/chain",
        "inside/folder/file",
    ],
)
def test_paths_that_lead_outside(tree: Path, path: str) -> None:
    (tree / "inside/deep/out").symlink_to("../../outside/file")
    (tree / "inside/chain").symlink_to("deep/out")
    (tree / "inside/dangling").symlink_to("../outside/absent")
    (tree / "inside/folder").symlink_to(tree / "outside")
    with pytest.raises(PathRefused) as caught:
        content(tree / path, tree / "inside")
    name = "absent" if path == "inside/dangling" else "file"
    assert (caught.value.place, caught.value.reason) == (f"{tree}/outside/{name}", None)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unreadable(path: Path) -> None:
    path.write_text("x")
    path.chmod(0)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.symlink_to("absent"), "No such file"),
        (lambda path: path.symlink_to(path), os.strerror(errno.ELOOP)),
        (lambda path: path.symlink_to("./x/x"), os.strerror(errno.ELOOP)),
        (lambda path: path.symlink_to("file/.."), "Not a directory"),
        (lambda path: path.symlink_to("."), "Is a directory"),
        (Path.mkdir, "Is a directory"),
        (pipe, "Not a regular file"),
        pytest.param(unreadable, "denied", marks=pytest.mark.skipif(not os.geteuid(), reason="root reads every file")),
    ],
)
def test_no_file_to_read(tree: Path, make: Callable[[Path], object], reason: str) -> None:
    make(tree / "inside/x")
    with pytest.raises(PathRefused, match=reason):
        content(tree / "inside/x", tree / "inside")


def test_path_that_is_too_long(tree: Path) -> None:
    with pytest.raises(PathRefused, match="too long"):
        content(f"{tree}/" + "./" * 3000 + "inside/file", tree)


def test_link_of_the_kernel_s_own_is_followed_by_its_text(tree: Path) -> None:
    """A link in /proc leads to an open file directly, whatever its text says."""
    with open(tree / "outside/file") as file, pytest.raises(PathRefused):
        content(f"/proc/self/fd/{file.fileno()}", tree / "inside")


@pytest.mark.parametrize("at", ["readlink", "open"])
def test_every_exchange_on_the_way_is_harmless(tree: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Before each step of the walk in turn, links to the outside take the places of the folder and of the file."""
    real = getattr(os, at)
    (tree / "outside/deep/file").write_text("outside")
    seen = set()
    for step in itertools.count():
        calls = itertools.count()

        def exchanging(*arguments: object, calls: Iterator[int] = calls, step: int = step, **more: object) -> object:
            if next(calls) == step:
                for path in (tree / "inside/deep/file", tree / "inside/deep"):
                    path.rename(f"{path}-{step}")
                    path.symlink_to(tree / "outside" / path.name)
            return real(*arguments, **more)

        (tree / "inside/deep").unlink() if step else None
        (tree / "inside/deep").mkdir(exist_ok=True)
        (tree / "inside/deep/file").write_text("inside")
        with monkeypatch.context() as patch:
            patch.setattr(os, at, exchanging)
            try:
                seen.add(content(tree / "inside/deep/file", tree / "inside"))
            except PathRefused:
                seen.add("refused")
        if next(calls) <= step:
            break
    assert seen == {"inside", "refused"}
