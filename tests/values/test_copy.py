"""`copy` and `copy_all`: copies on the host, refusals before the first byte is copied, and copies with devices."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.support import capsules, models
from zrt import Buffer, LaneMemory, MemoryInfo, Session, Value, copy, copy_all, from_dlpack
from zrt._common.installation import install_line
from zrt._native.library import library
from zrt.environment import cuda_parts, provider_libraries
from zrt.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from zrt.types import ElementType, pack
from zrt.values import copy as transfer
from zrt.values.value import at_address

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)


def as_strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=1)[:, ::2]


def as_swapped(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder())


def filled(memory: Buffer | Value, array: np.ndarray) -> Buffer | Value:
    content(memory)[...] = array
    return memory


FORMS = {
    "array": np.copy,
    "strided": as_strided,
    "transposed": lambda array: array.T.copy().T,
    "reversed": lambda array: array[::-1].copy()[::-1],
    "swapped": as_swapped,
    "value": lambda array: Value.from_array(array.copy()),
    "buffer": lambda array: filled(Buffer(array.shape, array.dtype), array),
    "allocated": lambda array: filled(Value.allocate(array.shape, array.dtype), array),
}
CONTIGUOUS = ("array", "value", "buffer", "allocated")


def content(thing) -> np.ndarray:
    if isinstance(thing, Buffer):
        return thing.array
    return thing.numpy() if isinstance(thing, Value) else thing


def on_device(shape: tuple[int, ...] = (2, 3), kind: ElementType = ElementType.FLOAT) -> Value:
    """A value that claims to lie on a GPU, at an address that cannot be accessed."""
    return at_address(4096, shape, kind, MemoryInfo.cuda())


class TestOnTheHost:
    @pytest.mark.parametrize("target", FORMS.values(), ids=FORMS)
    @pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
    def test_from_each_form_to_each_form(self, source, target):
        origin, place = source(NUMBERS), target(np.full_like(NUMBERS, -1))
        assert copy(origin, place) is None
        np.testing.assert_array_equal(content(place), NUMBERS)
        np.testing.assert_array_equal(content(origin), NUMBERS)
        # A copy and no view: later writes to one side do not show on the other.
        content(origin)[...] = 9
        np.testing.assert_array_equal(content(place), NUMBERS)

    @pytest.mark.parametrize(
        "kind", [kind for kind in ElementType if kind.bits and not kind.refused], ids=lambda kind: kind.name
    )
    def test_every_element_type(self, kind):
        source, target = Buffer((5,), kind), Value.allocate((5,), kind)
        source.array.reshape(-1).view(np.uint8)[...] = 0b1001
        copy(source, target)
        assert target.numpy().tobytes() == source.array.tobytes()

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1)])
    def test_rank_0_and_zero_size(self, shape):
        for source in CONTIGUOUS:
            for target in CONTIGUOUS:
                place = FORMS[target](np.zeros(shape, np.int64))
                copy(FORMS[source](np.full(shape, 7, np.int64)), place)
                np.testing.assert_array_equal(content(place), np.full(shape, 7))

    def test_overlapping_memory(self):
        array = np.arange(10, dtype=np.int32)
        copy(array[:-1], array[1:])
        np.testing.assert_array_equal(array, [0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
        copy(array, array)
        backwards = array[::-1].copy()
        copy(array[::-1], array)
        np.testing.assert_array_equal(array, backwards)
        # An array and a value over the same memory.
        copy(Value.from_array(array), array)
        np.testing.assert_array_equal(array, backwards)

    def test_complex_arrays_can_be_copied(self):
        target = np.zeros(2, np.complex64)
        copy(np.array([1j, 2], np.complex64), target)
        np.testing.assert_array_equal(target, [1j, 2])

    def test_views_of_a_lane(self):
        first, second = (Session(models.add()).lane(outputs=memory) for memory in (None, LaneMemory.left()))
        copy(np.ones(4, np.float32), first.inputs["x"])
        first.run()
        copy(first.outputs["z"], second.inputs["y"])
        second.run()
        target = np.zeros(4, np.float32)
        copy(second.outputs["z"], target)
        np.testing.assert_array_equal(target, np.ones(4))

    def test_many_pairs(self):
        places = [target(np.zeros_like(NUMBERS)) for target in FORMS.values()]
        copy_all((NUMBERS * index, place) for index, place in enumerate(places))
        for index, place in enumerate(places):
            np.testing.assert_array_equal(content(place), NUMBERS * index)
        copy_all([])
        copy(np.frombuffer(bytes(24), np.float32), NUMBERS.reshape(-1).copy())


class TestPackedTypes:
    BYTES = pack(np.array([1, -2, 3], ml_dtypes.int4), ElementType.INT4)

    def test_values_and_buffers_copy_their_bytes(self):
        source = Value.from_packed(self.BYTES, ElementType.INT4, (3,))
        target = Buffer((3,), ElementType.INT4)
        copy(source, target)
        np.testing.assert_array_equal(target.unpack().astype(int), [1, -2, 3])

    def test_unpacked_arrays_copy_their_elements(self):
        source, target = np.array([1, -2, 3], ml_dtypes.int4), np.zeros(3, ml_dtypes.int4)
        copy(source, target)
        np.testing.assert_array_equal(target.astype(int), [1, -2, 3])

    @pytest.mark.parametrize("shape", [(3,), (2,), (1,)])
    def test_packed_and_unpacked_do_not_mix(self, shape):
        array, buffer = np.zeros(shape, ml_dtypes.int4), Buffer(shape, ElementType.INT4)
        for pair in ((array, buffer), (buffer, array)):
            with pytest.raises(DTypeError, match="copy 0: an array of int4 has a byte for each element"):
                copy(*pair)

    def test_packed_bytes_have_another_type(self):
        with pytest.raises(DTypeError, match="the source holds uint8, the destination int4"):
            copy(self.BYTES, Buffer((2,), ElementType.INT4))
        copy(self.BYTES, Buffer((3,), ElementType.INT4).array)


class TestRefusals:
    @pytest.mark.parametrize("target", FORMS.values(), ids=FORMS)
    @pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
    def test_other_type_or_shape(self, source, target):
        origin = source(NUMBERS)
        place = target(np.zeros((2, 3), np.int32))
        with pytest.raises(DTypeError, match="copy 0: the source holds float32, the destination int32"):
            copy(origin, place)
        place = target(np.zeros((3, 2), np.float32))
        with pytest.raises(ShapeError, match=r"copy 0: the source has shape \[2, 3\], the destination \[3, 2\]"):
            copy(origin, place)

    def test_nothing_is_broadcast(self):
        for shape in ((3,), (1, 3), (1,), ()):
            with pytest.raises(ShapeError, match="copy 0"):
                copy(np.zeros(shape, np.float32), np.zeros((2, 3), np.float32))

    def test_strings_and_sequences(self):
        strings = Value.from_strings(["0", "0"])
        with pytest.raises(UnsupportedError, match="copy 0: strings"):
            copy(strings, strings)
        for dtype in ("U3", "S3"):
            with pytest.raises(UnsupportedError, match="copy 0: strings"):
                copy(np.zeros(2, dtype), np.zeros(2, dtype))
        with pytest.raises(UnsupportedError, match="copy 0: a sequence cannot be copied"):
            copy(Value.from_sequence([np.zeros(2, np.float32)]), np.zeros(2, np.float32))

    def test_one_bad_pair_prevents_all_copies(self):
        places = [np.zeros_like(NUMBERS) for _ in range(3)]
        good = [(NUMBERS, places[0]), (FORMS["value"](NUMBERS), places[1])]
        for bad, error in (
            ((NUMBERS, places[2].astype(np.float64)), DTypeError),
            ((NUMBERS, places[2].T), ShapeError),
            ((NUMBERS, on_device((3, 2))), ShapeError),
            ((NUMBERS, None), DTypeError),
            ((NUMBERS,), DTypeError),
            ((NUMBERS, places[2], places[2]), DTypeError),
            (7, DTypeError),
        ):
            with pytest.raises(error, match="copy 2"):
                copy_all([*good, bad])
            with pytest.raises(error, match="copy 0"):
                copy_all([bad, *good])
        assert not any(place.any() for place in places)


class TestDevicesWithoutTheirProvider:
    @pytest.fixture(autouse=True)
    def no_provider(self, tmp_path, monkeypatch):
        """Pretends that the library lies in a folder without CUDA's provider."""
        elsewhere = library()._replace(path=str(tmp_path / "libonnxruntime.so"))
        monkeypatch.setattr(cuda_parts, "library", lambda: elsewhere)
        monkeypatch.setattr(transfer, "_CUDA", "one that nobody registered")

    def test_error_names_the_missing_library(self, tmp_path):
        wanted = str(tmp_path / "libonnxruntime_providers_cuda.so")
        for pair, way in (
            ((NUMBERS, on_device()), "from Cpu to Cuda"),
            ((on_device(), NUMBERS.copy()), "from Cuda to Cpu"),
            ((on_device(), on_device()), "from Cuda to Cuda"),
            ((FORMS["buffer"](NUMBERS), on_device()), "from Cpu to Cuda"),
        ):
            with pytest.raises(UnsupportedError, match=f"no copy {way}") as caught:
                copy(*pair)
            assert wanted in str(caught.value)
            assert install_line("cuda") in str(caught.value)

    def test_nothing_on_the_host_is_written_before_the_error(self):
        place = np.zeros_like(NUMBERS)
        with pytest.raises(UnsupportedError, match="no copy from Cpu to Cuda"):
            copy_all([(NUMBERS, place), (NUMBERS, on_device())])
        assert not place.any()

    def test_device_copies_take_contiguous_arrays_only(self):
        for form in (as_strided, as_swapped):
            with pytest.raises(ArgumentError, match=r"copy 0, source: .*without a copy"):
                copy(form(NUMBERS), on_device())
            with pytest.raises(ArgumentError, match=r"copy 0, destination: .*without a copy"):
                copy(on_device(), form(NUMBERS))

    def test_types_and_shapes_are_checked_first(self):
        with pytest.raises(DTypeError, match="the source holds int32, the destination float32"):
            copy(NUMBERS.astype(np.int32), on_device())
        with pytest.raises(ShapeError, match=r"\[2, 3\].*\[6\]"):
            copy(NUMBERS, on_device((6,)))
        read_only = NUMBERS.copy()
        read_only.flags.writeable = False
        with pytest.raises(ArgumentError, match="read-only"):
            copy(on_device(), read_only)

    def test_tensor_that_its_library_made_read_only_is_refused(self):
        tensor = from_dlpack(capsules.Foreign(flags=1, device_type=2))
        for source in (NUMBERS, on_device()):
            with pytest.raises(ArgumentError, match="copy 0: the destination is read-only"):
                copy(source, tensor)


def test_device_that_cuda_s_provider_library_does_not_reach_is_refused(monkeypatch):
    monkeypatch.setattr(provider_libraries, "registered", lambda: ["zrt.cuda"])
    with pytest.raises(UnsupportedError, match="no copy from Cuda to Cpu: CUDA's provider library has none"):
        copy(on_device(), NUMBERS.copy())


def test_device_without_a_provider_library_is_refused(monkeypatch):
    monkeypatch.setattr(transfer, "_on_host", lambda side: False)
    with pytest.raises(UnsupportedError, match="no copy from Cpu to Cpu: no provider library that can copy so"):
        copy(NUMBERS, np.zeros_like(NUMBERS))


@pytest.mark.gpu
class TestCuda:
    @pytest.fixture
    def session(self):
        return Session(models.double(("n", 3)), providers=["CUDA"])

    def test_copies_to_on_and_from_the_device(self, session):
        on_gpu = [Value.allocate((2, 3), np.float32, session.allocator(MemoryInfo.cuda())) for _ in range(2)]
        place = np.zeros_like(NUMBERS)
        copy(NUMBERS, on_gpu[0])
        copy(on_gpu[0], on_gpu[1])
        copy(on_gpu[1], place)
        np.testing.assert_array_equal(place, NUMBERS)

    def test_many_pairs_to_and_from_the_device(self, session):
        allocator = session.allocator(MemoryInfo.cuda())
        there = [Value.allocate((2, 3), np.float32, allocator) for _ in range(3)]
        copy_all((NUMBERS * index, place) for index, place in enumerate(there))
        back = [np.zeros_like(NUMBERS) for _ in range(3)]
        copy_all(zip(there, back, strict=True))
        for index, place in enumerate(back):
            np.testing.assert_array_equal(place, NUMBERS * index)

    def test_pinned_memory_is_host_memory(self, session):
        pinned = Value.allocate((2, 3), np.float32, session.allocator(MemoryInfo.cuda_pinned()))
        copy(NUMBERS, pinned)
        np.testing.assert_array_equal(pinned.numpy(), NUMBERS)

    def test_provider_library_lies_beside_the_library(self):
        assert Path(cuda_parts.provider_file()).exists()
