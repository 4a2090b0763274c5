"""Targets that are the same file as an input, and scratch folders that killed processes leave."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from zrt._common.files import PREFIX, lock_folder, replacing, require_other
from zrt.errors import ArgumentError, FileError


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"a model")
    return path


@pytest.mark.parametrize("other", ["model.onnx", "linked.onnx", "hard.onnx"])
def test_every_name_of_an_input_is_refused(model, tmp_path, monkeypatch, other):
    os.symlink(model, tmp_path / "linked.onnx")
    os.link(model, tmp_path / "hard.onnx")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=rf"OUTPUT: './{other}' is the same file as the input '.*model\.onnx'"):
        require_other(f"./{other}", [model], "OUTPUT")


def test_other_files_and_new_ones_are_allowed(model, tmp_path):
    (tmp_path / "copy.onnx").write_bytes(b"a model")
    require_other(tmp_path / "copy.onnx", [model], "OUTPUT")
    require_other(tmp_path / "new.onnx", [model, tmp_path / "missing.onnx"], "OUTPUT")


def write_new(target, *beside, unnamed=None, inputs=()):
    """Replaces files; one is `unnamed` beforehand, as those that an execution provider writes."""
    with replacing(str(target), *beside, inputs=inputs) as paths:
        more = [] if unnamed is None else [Path(paths[0]).with_name(unnamed)]
        for path in [*map(Path, paths), *more]:
            path.write_text("new")


def test_folder_above_the_target_of_a_link(tmp_path):
    (tmp_path / "far/folder").mkdir(parents=True)
    (tmp_path / "near").mkdir()
    (tmp_path / "near/link").symlink_to(tmp_path / "far/folder")
    (tmp_path / "near/model.onnx").write_text("precious")
    write_new(tmp_path / "near/link/../model.onnx")
    assert (tmp_path / "near/model.onnx").read_text() == "precious"
    assert (tmp_path / "far/model.onnx").read_text() == "new"


def test_ctrl_c_between_two_files_replaces_both(tmp_path, monkeypatch):
    for name in ("model.onnx", "model.weights"):
        (tmp_path / name).write_text("old")
    replace, calls = os.replace, []

    def interrupted(source, target):
        replace(source, target)
        calls.append(target)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "model.onnx", "model.weights")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"model.onnx": "new", "model.weights": "new"}


def test_inputs_are_not_replaced_by_files_of_other_names(tmp_path):
    kept = tmp_path / "kept.bin"
    kept.write_text("old")
    with pytest.raises(ArgumentError, match="the same file"):
        write_new(tmp_path / "m", unnamed="kept.bin", inputs=[kept])
    assert {each.name for each in tmp_path.iterdir()} == {"kept.bin"}
    assert kept.read_text() == "old"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_is_an_error_of_the_file(tmp_path, number):
    with (
        pytest.raises(FileError, match=f"--output: '.*kept' cannot be written: {os.strerror(number)}"),
        replacing(str(tmp_path / "kept"), subject="--output"),
    ):
        raise OSError(number, os.strerror(number))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("names", [("x" * 300,), ("kept", "x" * 300)], ids=["target", "beside"])
def test_too_long_name_is_an_error_of_the_file(tmp_path, names):
    target, *beside = names
    with (
        pytest.raises(FileError, match=f"--output: '.*x' cannot be written: {os.strerror(errno.ENAMETOOLONG)}"),
        replacing(str(tmp_path / target), *beside, subject="--output"),
    ):
        raise AssertionError("nothing can be written")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT, errno.EACCES])
def test_other_errors_of_the_body_come_out_as_themselves(tmp_path, number):
    error = OSError(number, os.strerror(number), "input")
    with pytest.raises(OSError, match="input") as raised, replacing(str(tmp_path / "kept")):
        raise error
    assert raised.value is error


def scratch(folder):
    return [each.name for each in folder.iterdir() if each.name.startswith(".zrt-")]


def test_scratch_folder_of_a_killed_process_is_removed_and_that_of_a_live_one_is_not(tmp_path):
    code = (
        "import sys\nfrom zrt._common.files import replacing\n"
        "with replacing(sys.argv[1]) as (written,):\n"
        "    open(written, 'w').write('half')\n    print('written', flush=True)\n    sys.stdin.read()\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "first"],
        env=processes.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout.readline() == "written\n"
        (left,) = scratch(tmp_path)
        for killed in (False, True):
            if killed:
                started.send_signal(signal.SIGKILL)
                started.wait(60)
            with replacing(str(tmp_path / "second")) as (written,):
                assert (left in scratch(tmp_path)) is not killed
                with open(written, "w") as file:
                    file.write("whole")
    finally:
        started.kill()
        started.communicate()
    assert [each.name for each in tmp_path.iterdir()] == ["second"]


def test_folders_of_others_with_a_like_name_stay(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (tmp_path / f"{PREFIX}abcdefgh").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".zrt-settings").mkdir()
    (tmp_path / f"{PREFIX}abcdefg1").touch()
    with replacing(str(tmp_path / "made")) as (written,):
        open(written, "w").close()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        ["elsewhere", f"{PREFIX}abcdefgh", ".zrt-settings", f"{PREFIX}abcdefg1", "made"]
    )
    assert (tmp_path / "elsewhere" / "file").exists()


def test_locked_folder_is_locked_once(tmp_path):
    lock = lock_folder(tmp_path)
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    os.close(lock)
    os.close(lock_folder(tmp_path, required=True))
    with pytest.raises(FileNotFoundError):
        lock_folder(tmp_path / "none")


def test_new_file_has_the_permissions_of_the_one_that_it_replaces(tmp_path):
    secret, shared = tmp_path / "secret.onnx", tmp_path / "shared.weights"
    for path, mode in ((secret, 0o600), (shared, 0o664)):
        path.write_text("old")
        path.chmod(mode)
    write_new(secret, shared.name)
    assert [path.read_text() for path in (secret, shared)] == ["new", "new"]
    assert [path.stat().st_mode & 0o777 for path in (secret, shared)] == [0o600, 0o664]
