"""Shared libraries' own lists of what they need."""

import sys

import pytest

from tests.support.compiler import cut_library, shared_library
from zrt._common import elf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ELF is Linux's format")


def test_needed_libraries_keep_their_order(tmp_path):
    for name in ("libb.so.2", "liba.so.1"):
        shared_library(tmp_path / name, "", f"-Wl,-soname,{name}")
    library = shared_library(
        tmp_path / "library.so", "", "-Wl,--no-as-needed", f"-L{tmp_path}", "-l:libb.so.2", "-l:liba.so.1"
    )
    assert elf.read(str(library)).needed[:2] == ("libb.so.2", "liba.so.1")
    assert elf.read(str(library)).run_path == ()


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_run_path_is_relative_to_the_file(tmp_path, tags):
    library = shared_library(
        tmp_path / "library.so", "", f"-Wl,{tags},-rpath,/opt/../cuda:$ORIGIN:${{ORIGIN}}/lib:$ORIGIN/../other"
    )
    assert elf.read(str(library)).run_path == (
        "/opt/../cuda",
        str(tmp_path),
        f"{tmp_path}/lib",
        f"{tmp_path.parent}/other",
    )


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(100), b"text" * 100], ids=repr)
def test_other_files_have_neither(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert elf.read(str(file)) == elf.read(str(tmp_path / "nonesuch")) == elf.read(str(tmp_path)) == elf.SharedLibrary()


def test_damaged_libraries_raise_nothing(tmp_path):
    """Each byte of the headers, and each cut through the file, one after the other."""
    whole = shared_library(tmp_path / "library.so", "", "-Wl,-rpath,/opt").read_bytes()
    file = tmp_path / "damaged.so"
    for place in range(16, 1200):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert isinstance(elf.read(str(file)), elf.SharedLibrary)
    for end in range(0, len(whole), 97):
        file.write_bytes(whole[:end])
        assert isinstance(elf.read(str(file)), elf.SharedLibrary)


def test_cut_library_is_found(tmp_path):
    whole = shared_library(tmp_path / "whole.so", "char data[1 << 20] = {1};")
    assert not elf.is_cut(str(whole))
    assert elf.is_cut(str(cut_library(tmp_path / "cut.so")))


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"text" * 100], ids=repr)
def test_other_files_are_left_to_the_loader(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert not elf.is_cut(str(file))
