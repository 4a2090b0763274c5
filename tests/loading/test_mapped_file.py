"""`MappedFile`: a file mapped into memory."""

import gc
import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zrt
from zrt.errors import DTypeError, LockError, ModelError, ShapeError
from zrt.types import pack

CONTENT = np.random.default_rng(5).integers(0, 256, 10_000, np.uint8).tobytes()
PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("mapping") / "weights.bin"
    path.write_bytes(CONTENT)
    return path


class TestReading:
    @given(
        st.sampled_from(["float32", "int8", np.float64, "bfloat16", ml_dtypes.float8_e4m3fn, bool, "<i2"]),
        st.lists(st.integers(0, 9), max_size=3),
        st.integers(0, 300),
    )
    def test_any_type_shape_and_offset(self, path, dtype, shape, place):
        size = np.dtype(dtype).itemsize
        offset = place * size
        array = zrt.MappedFile(path).array(dtype, shape, offset)
        expected = np.frombuffer(CONTENT, dtype, int(np.prod(shape)), offset).reshape(shape)
        assert array.dtype == expected.dtype
        assert array.shape == tuple(shape)
        assert array.tobytes() == expected.tobytes()
        assert not array.flags.writeable or not array.size

    def test_without_a_shape_it_reaches_the_file_s_end(self, path):
        file = zrt.MappedFile(path)
        assert file.nbytes == len(CONTENT)
        assert file.array().tobytes() == CONTENT
        assert file.array("float32", offset=400).tobytes() == CONTENT[400:]
        assert file.array("float32", offset=10_000).shape == (0,)

    def test_packed_types(self, path):
        file = zrt.MappedFile(path)
        assert file.array("int4", (3, 5), 7).tobytes() == CONTENT[7:15]
        value = file.tensor("int4", (3, 5), 7)
        assert value.shape == (3, 5)
        assert (pack(value.unpack(), "int4") == value.numpy())[:7].all()
        assert file.tensor("uint2", None, 9_999).shape == (4,)

    def test_value_borrows_the_mapping(self, path):
        file = zrt.MappedFile(path)
        value = file.tensor("float32", (10, 10), 64)
        assert value.address == file.array("float32", (10, 10), 64).__array_interface__["data"][0]
        assert not value.writeable
        with pytest.raises(ValueError, match="read-only"):
            value.numpy()[0] = 1

    def test_a_whole_number_of_pages(self, tmp_path):
        path = tmp_path / "pages"
        path.write_bytes(bytes(2 * PAGE))
        assert not zrt.MappedFile(path).array().any()

    def test_mapping_keeps_a_replaced_file(self, tmp_path):
        path = tmp_path / "weights"
        path.write_bytes(b"old!" * 100)
        file = zrt.MappedFile(path)
        (tmp_path / "new").write_bytes(b"new!")
        os.replace(tmp_path / "new", path)
        assert file.array().tobytes() == b"old!" * 100
        path.unlink()
        assert file.array().tobytes() == b"old!" * 100


class TestLifetime:
    def test_arrays_outlive_it(self, path):
        file = zrt.MappedFile(path)
        array, value = file.array("float32", (4, 4)), file.tensor("float32", (4, 4))
        file.close()
        file.close()
        assert file.closed
        del file
        gc.collect()
        assert array.tobytes() == value.numpy().tobytes() == CONTENT[:64]

    def test_with_statement_closes_it(self, path):
        with zrt.MappedFile(path) as file:
            assert file.array().size
        assert file.closed
        assert "closed" in repr(file)

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_last_reference_unmaps_it(self, path):
        def mapped() -> int:
            return Path("/proc/self/maps").read_text().count(str(path))

        def opened() -> int:
            return [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()].count(str(path))

        gc.collect()
        before, files = mapped(), opened()
        file = zrt.MappedFile(path)
        array = file.array()
        assert (mapped(), opened()) == (before + 1, files + 1)
        del file
        assert mapped() == before + 1
        del array
        assert (mapped(), opened()) == (before, files)


class TestAdvice:
    @pytest.mark.parametrize("access", ["normal", "sequential", "random"])
    @pytest.mark.parametrize("prefetch", [False, True])
    def test_advice_does_not_change_the_content(self, path, access, prefetch):
        file = zrt.MappedFile(path, access=access, prefetch=prefetch)
        assert file.refused == ()
        assert file.array().tobytes() == CONTENT

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    @pytest.mark.parametrize(("access", "flag"), [("sequential", "sr"), ("random", "rr")])
    def test_kernel_gets_the_advice(self, path, access, flag):
        file = zrt.MappedFile(path, access=access)
        address = file.array().__array_interface__["data"][0]
        lines = Path("/proc/self/smaps").read_text().splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(f"{address:x}-".rjust(12, "0")))
        flags = next(line for line in lines[start:] if line.startswith("VmFlags:"))
        assert flag in flags.split()

    def test_outcome_of_huge_pages_is_reported(self, path):
        assert zrt.MappedFile(path).hugepage is None
        file = zrt.MappedFile(path, hugepage=True)
        assert file.hugepage in ("asked", "granted", "refused")
        assert ("hugepage" in file.refused) == (file.hugepage == "refused")

    @pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
    def test_locked(self, path):
        try:
            file = zrt.MappedFile(path, lock=True)
        except LockError as error:
            pytest.skip(f"not here: {error}")
        assert file.array().tobytes() == CONTENT
        lines = Path("/proc/self/smaps").read_text().splitlines()
        start = next(i for i, line in enumerate(lines) if line.endswith(str(path)))
        locked = next(line for line in lines[start:] if line.startswith("Locked:"))
        assert int(locked.split()[1]) > 0

    @pytest.mark.skipif(sys.platform != "linux", reason="opens the file through Linux's /proc")
    def test_refused_lock_raises(self, tmp_path, script):
        path = tmp_path / "large"
        path.write_bytes(bytes(1 << 20))
        path.chmod(0o644)
        done = script("refused_lock.py", str(path))
        assert "cannot become nobody" in done.stdout or "cannot lock 1024 KiB" in done.stdout


class TestMistakes:
    @pytest.mark.parametrize(
        ("dtype", "shape", "offset", "error", "says"),
        [
            ("float32", (1,), 1.0, DTypeError, "offset: expected an int"),
            ("float32", (1,) * 100, 0, ShapeError, "numpy has no such array"),
            ("M8[s]", (1,), 0, DTypeError, "datetime64"),
            ("complex64", (1,), 0, DTypeError, "COMPLEX64"),
        ],
    )
    def test_part_outside_the_file_raises(self, path, dtype, shape, offset, error, says):
        file = zrt.MappedFile(path)
        for call in (file.array, file.tensor):
            with pytest.raises(error, match=says):
                call(dtype, shape, offset)

    def test_file_that_ends_inside_an_element_raises(self, tmp_path):
        path = tmp_path / "odd"
        path.write_bytes(bytes(10))
        with pytest.raises(ShapeError, match="the file has 10"):
            zrt.MappedFile(path).array("float32")

    def test_file_that_became_shorter_raises(self, tmp_path):
        path = tmp_path / "weights"
        path.write_bytes(bytes(10_000))
        file = zrt.MappedFile(path)
        os.truncate(path, 100)
        assert file.array("uint8", (100,)).sum() == 0
        with pytest.raises(ModelError, match="had 10000 bytes when it was mapped, and has 100 now"):
            file.array("uint8", (101,))

    def test_pipe_raises(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelError, match="pipe' cannot be mapped"):
            zrt.MappedFile(tmp_path / "pipe")
