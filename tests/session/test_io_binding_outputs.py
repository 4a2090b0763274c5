"""The outputs of an `IoBinding`: in memory of the caller, of ONNX Runtime, or of an input."""

import contextlib
import gc
import itertools
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest

import zrt
from tests.support import models
from tests.support.arrays import Tracked, f32
from tests.support.bindings import bind, ran
from tests.support.together import in_threads
from zrt.errors import ArgumentError, BusyError, OrtError, ShapeError, UnsupportedError
from zrt.types import ElementType, ValueKind

# Every type that ONNX Runtime has a kernel for.
MADE = [kind for kind in ElementType if kind.bits and not kind.refused and kind is not ElementType.FLOAT4E2M1]


class TestOutputs:
    def test_output_moves_between_all_kinds_of_places(self, relu):
        def places():
            """Places, each with the caller's array that is written."""
            one, other, third = (np.full(2, 9, np.float32) for _ in range(3))
            value, buffer = zrt.Value.from_array(third), zrt.Buffer((2,), np.float32)
            left = ((None, None), (zrt.MemoryInfo.cpu(), None))
            return [*left, (one, one), (other, other), (value, third), (buffer, buffer.array)]

        for first, second in itertools.product(range(6), repeat=2):
            binding = relu.binding()
            results = []
            for number, (place, written) in enumerate((places()[first], places()[second], places()[first])):
                binding.bind_input("x", f32(-1, number))
                binding.bind_output("y", place)
                binding.run()
                results.append(binding.numpy()["y"])
                value, [copy] = binding.outputs()["y"], binding._copies().values()
                assert (value.shape, value.writeable, value.numpy().tolist()) == ((2,), True, [0, number])
                assert copy.tolist() == [0, number]
                if written is not None:
                    assert written.tolist() == [0, number]
                    assert np.shares_memory(written, results[-1])
                    assert not np.shares_memory(written, copy)
            assert [result.tolist() for result in results] == [[0, 0], [0, 1], [0, 2]]

    def test_array_lives_as_long_as_it_is_bound(self, relu):
        binding = bind(relu, {"x": f32(-1, 2)})
        alive = []
        for _ in range(3):
            place = np.full(2, 9, np.float32)
            alive.append(weakref.ref(place))
            binding.bind_output("y", place)
            del place
            gc.collect()
            binding.run()
        assert [one() is not None for one in alive] == [False, False, True]
        result = binding.numpy()["y"]
        binding.clear_outputs()
        assert result.tolist() == [0, 2]
        del result
        gc.collect()
        assert alive[-1]() is None

    @pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
    def test_later_shape_of_the_caller_s_array_is_its_own(self, relu):
        place = np.full(2, 9, np.float32)
        binding = bind(relu, {"x": f32(-1, 2)}, y=place)
        place.shape = (2, 1)
        assert ran(binding) == {"y": [0, 2]}
        assert binding.outputs()["y"].shape == (2,)

    def test_output_in_a_value_that_ort_allocated(self, relu):
        place = zrt.Value.allocate((2,), np.float32, relu.allocator())
        binding = bind(relu, {"x": f32(-1, 2)}, y=place)
        binding.run()
        assert place.numpy().tolist() == [0, 2]
        assert binding.outputs()["y"].address == place.address

    @pytest.mark.parametrize("place", [None, zrt.MemoryInfo.cpu()], ids=["default", "host"])
    def test_output_left_to_ort(self, relu, place):
        binding = relu.binding()
        binding.bind_output("y", place)
        for array in (f32(-1, 2), f32(3), f32(), f32(1, 2, 3)):
            binding.bind_input("x", array)
            binding.run()
            value = binding.outputs()["y"]
            assert value.memory.is_host
            assert value.shape == array.shape
            assert value.numpy().tolist() == np.maximum(array, 0).tolist()

    def test_earlier_results_of_ort_stay_unchanged(self, relu):
        x = f32(1, 2)
        binding = bind(relu, {"x": x}, "y")
        binding.run()
        first = binding.numpy()["y"]
        x[...] = 7
        binding.run()
        assert first.tolist() == [1, 2]
        assert binding.numpy()["y"].tolist() == [7, 7]

    def test_outputs_fed_back_release_the_run_before(self, relu):
        """A loop that feeds outputs back keeps the memory of one step only."""
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        binding = bind(relu, {"x": x}, "y")
        del x
        binding.run()
        state = binding.outputs()["y"]
        binding.bind_input("x", state)
        gc.collect()
        assert alive() is None
        assert state.numpy().tolist() == [1, 2]

    def test_shapes_that_depend_on_the_data(self, nonzero):
        x = f32(0, 0, 0)
        binding = bind(nonzero, {"x": x}, "where")
        for numbers, expected in (([0, 1, 1], [[1, 2]]), ([0, 0, 0], [[]]), ([1, 1, 1], [[0, 1, 2]])):
            x[...] = numbers
            assert ran(binding)["where"] == expected

    def test_outputs_are_in_the_order_of_binding(self, load):
        session = load("(float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Neg(x)  b = Abs(x)  c = Relu(x) }")
        into = np.zeros(1, np.float32)
        binding = bind(session, {"x": f32(-2)}, c=into, a=None)
        for _ in range(2):
            binding.run()
            assert list(binding.outputs()) == ["c", "a"]
            assert {name: array.item() for name, array in binding.numpy().items()} == {"c": 0, "a": 2}
        # From the caller's memory to ORT's, and back.
        binding.bind_output("c")
        into[...] = 9
        assert ran(binding)["c"] == [0]
        assert into.tolist() == [9]
        binding.bind_output("a", into)
        binding.run()
        assert into.tolist() == [2]
        assert list(binding.outputs()) == ["c", "a"]

    def test_no_outputs_before_a_run(self, relu):
        binding = relu.binding()
        assert binding.outputs() == {}
        binding.bind_input("x", f32(1))
        binding.bind_output("y")
        assert binding.outputs() == {}
        binding.run()
        assert list(binding.outputs()) == ["y"]

    def test_no_outputs_after_a_failed_run(self, add):
        binding = bind(add, {"x": f32(1, 2), "y": f32(1, 2)}, "z")
        binding.run()
        binding.bind_input("y", f32(1, 2, 3))
        with pytest.raises(OrtError, match="Add"):
            binding.run()
        assert binding.outputs() == {}
        binding.bind_input("y", f32(1, 1))
        assert ran(binding)["z"] == [2, 3]

    def test_outputs_outlive_binding_and_session(self, relu):
        into = f32(0, 0).view(Tracked)
        alive = weakref.ref(into)
        binding = bind(relu, {"x": f32(-1, 2)}, y=into)
        binding.run()
        bound = binding.numpy()["y"]
        binding.bind_output("y")
        binding.run()
        value = binding.outputs()["y"]
        binding.close()
        relu.close()
        del binding, relu, into
        gc.collect()
        junk = [np.full(2, 9, np.float32) for _ in range(1000)]
        assert alive() is not None
        assert bound.tolist() == value.numpy().tolist() == [0, 2]
        del junk

    def test_results_that_are_read_during_rebinding_keep_their_memory(self, relu):
        """A second thread reads while this one binds new arrays: each view shows one array, which stays alive."""
        binding, views, ended = relu.binding(), [], threading.Event()
        binding.bind_input("x", f32(-1, 2))
        binding.bind_output("y", f32(0, 0))

        def read():
            while not ended.is_set():
                with contextlib.suppress(BusyError):
                    views.append(binding.numpy()["y"])
                    del views[:-100]

        reader = threading.Thread(target=read)
        reader.start()
        number, deadline = 0, time.monotonic() + 60
        # On a busy machine 2000 may be bound before the reader's first turn.
        while (number < 2000 or not views) and time.monotonic() < deadline:
            with contextlib.suppress(BusyError):
                binding.bind_output("y", f32(number, number + 1))
                number += 1
        ended.set()
        reader.join()
        junk = [f32(-9, -9) for _ in range(1000)]
        assert views
        for view in views:
            assert view[1] == view[0] + 1 or view.tolist() == [0, 0]
        del junk

    def test_results_that_are_read_while_other_outputs_are_bound_have_their_own_names(self):
        two = zrt.Session(models.parse("(float[2] x) => (float[2] a, float[2] b) { a = Neg(x)  b = Abs(x) }"))
        binding, read, ended = two.binding(), set(), threading.Event()
        binding.bind_input("x", f32(1, 2))

        def work():
            while not ended.is_set():
                with contextlib.suppress(BusyError):
                    read.update((name, tuple(array)) for name, array in binding.numpy().items())

        reader = threading.Thread(target=work)
        reader.start()
        end = time.monotonic() + 60
        for number in itertools.count():
            with contextlib.suppress(BusyError, ArgumentError):
                binding.clear_outputs()
                binding.bind_output("ab"[number % 2])
                binding.run()
            if (number > 5000 and len(read) > 1) or time.monotonic() > end:
                break
        ended.set()
        reader.join()
        assert read == {("a", (-1, -2)), ("b", (1, 2))}

    def test_last_binding_of_two_threads_is_the_one_that_runs(self, relu):
        binding, arrays = relu.binding(), {}
        binding.bind_output("y")

        def bind(number):
            for _ in range(500):
                array = f32(number, number)
                with contextlib.suppress(BusyError):
                    binding.bind_input("x", array)
            arrays[number] = array

        in_threads(*(partial(bind, number) for number in (1, 2, 3)))
        junk = [f32(-9, -9) for _ in range(1000)]
        binding.run()
        assert binding.numpy()["y"].tolist() in ([1, 1], [2, 2], [3, 3])
        del junk

    @pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.name)
    def test_every_type_in_a_buffer(self, load, kind):
        session = load(f"(float[n] x) => ({kind.onnx_name}[n] y) {{ y = Cast <to = {kind.onnx_code}> (x) }}", opset=25)
        x = f32(1, 1, 1, 1)
        buffer = zrt.Buffer((4,), kind)
        binding = bind(session, {"x": x}, y=buffer)
        binding.run()
        array = buffer.unpack() if kind.packed else buffer.array
        assert array.astype(np.float32).tolist() == x.tolist()

    def test_sequences_and_strings_are_left_to_ort(self, load):
        session = load("""(float[n] x) => (seq(float[n]) y, string[n] s)
                          { y = SequenceConstruct(x)  s = Cast <to = 8> (x) }""")
        binding = bind(session, {"x": f32(1)}, "y", "s")
        binding.run()
        values = binding.outputs()
        assert values["y"].kind is ValueKind.SEQUENCE
        assert values["s"].element_type is ElementType.STRING
        with pytest.raises(UnsupportedError, match="this value is a sequence"):
            binding.numpy()
        for name, message in (("y", "output 'y' is a sequence"), ("s", "output 's' holds strings")):
            with pytest.raises(UnsupportedError, match=message):
                binding.bind_output(name, np.zeros(1))

    def test_output_that_is_an_initializer(self, load):
        session = load("(float[n] x) => (float[n] y, float[2] w) <float[2] w = {5, 6}> { y = Neg(x) }")
        into = np.zeros(2, np.float32)
        binding = bind(session, {"x": f32(1)}, w=into)
        binding.run()
        assert into.tolist() == [5, 6]
        binding.bind_output("w")
        binding.run()
        binding.numpy()["w"][...] = 99
        assert ran(binding)["w"] == [5, 6]

    def test_refused_place_is_not_bound(self, load):
        binding = load("(float[n] x) => (float[n] a, float[n] b) { a = Neg(x)  b = Abs(x) }").binding()
        binding.bind_input("x", f32(-2))
        for place in (zrt.MemoryInfo("Nowhere"), np.zeros(1)):
            with pytest.raises(zrt.Error):
                binding.bind_output("a", place)
        binding.bind_output("b")
        assert ran(binding) == {"b": [2]}

    @pytest.mark.parametrize("size", [1, 3])
    def test_place_of_another_size_raises(self, relu, size):
        binding = bind(relu, {"x": f32(1, 2)}, y=np.zeros(size, np.float32))
        with pytest.raises(ShapeError, match=r"another shape than is bound .*: .*output 'y'"):
            binding.run(zrt.RunOptions(log_severity_level=4))
        binding.bind_output("y")
        assert ran(binding)["y"] == [1, 2]


class TestInputsThatAreOutputs:
    TEXT = "(float[n] x) => (float[n] y, float[n] x) { y = Neg(x) }"

    def test_output_is_the_bound_input(self, load):
        x = f32(1, 2)
        binding = bind(load(self.TEXT), {"x": x}, "x")
        binding.run()
        assert np.shares_memory(binding.numpy()["x"], x)

    def test_output_keeps_the_input_alive(self, load):
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        binding = bind(load(self.TEXT), {"x": x}, "x")
        binding.run()
        same = binding.numpy()["x"]
        del x
        binding.bind_input("x", f32(3))
        binding.close()
        gc.collect()
        assert alive() is not None
        assert same.tolist() == [1, 2]

    @pytest.mark.parametrize("how", ["bound anew", "cleared"])
    def test_output_is_released_with_the_input(self, load, how):
        # ONNX Runtime would return the memory of the earlier feed.
        x = f32(1, 2).view(Tracked)
        alive = weakref.ref(x)
        binding = bind(load(self.TEXT), {"x": x}, "x")
        binding.run()
        del x
        if how == "cleared":
            binding.clear_inputs()
        else:
            binding.bind_input("x", f32(3))
        gc.collect()
        assert alive() is None
        assert binding.outputs() == {}
        binding.bind_input("x", f32(4))
        assert ran(binding)["x"] == [4]

    def test_output_cannot_have_other_memory(self, load):
        binding = load(self.TEXT).binding()
        with pytest.raises(ArgumentError, match="output 'x' is an input as well"):
            binding.bind_output("x", np.zeros(2, np.float32))
        overridable = load("(float[2] x, float[2] w = {1, 2}) => (float[2] y, float[2] w) { y = Add(x, w) }").binding()
        with pytest.raises(ArgumentError, match="output 'w' is an input as well"):
            overridable.bind_output("w", np.zeros(2, np.float32))


def test_sequence_never_shows_the_memory_of_inputs_that_are_gone(load) -> None:
    """SequenceInsert returns the tensors of the sequence that it was fed."""
    session = load("(seq(float[n]) s, float[n] x) => (seq(float[n]) t) { t = SequenceInsert(s, x) }")
    binding = zrt.IoBinding(session)
    binding.bind_output("t")
    kept = []
    for number in range(3):
        binding.bind_input("s", zrt.Value.from_sequence([np.full(100000, number, np.float32)]))
        assert binding.outputs() == {}
        binding.bind_input("x", np.full(100000, number, np.float32))
        binding.run()
        kept.append(binding.outputs()["t"])
    del binding
    gc.collect()
    for number, value in enumerate(kept):
        assert [array[-1] for array in value.to_list()] == [number, number]
