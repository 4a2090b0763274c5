"""`IOBinding`: inputs and outputs by name, and runs over them."""

import copy
import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from tests.onnxruntime.bindings import ONES, bound, result
from tests.onnxruntime.packages import ours
from tests.support import models


def binary(operator: str) -> bytes:
    """z is x and y combined by the operator."""
    return models.parse(f"(float[n] x, float[n] y) => (float[n] z) {{ z = {operator}(x, y) }}")


def cast(source: str, target: str) -> bytes:
    """y is x converted from one element type to another."""
    code = TensorProto.DataType.Value(target.upper())
    return models.parse(f"({source}[n] x) => ({target}[n] y) {{ y = Cast <to = {code}> (x) }}")


# A sequence of twice the vector x.
PAIR = models.parse("(float[n] x) => (seq(float[]) s) { s = SequenceConstruct(x, x) }")


@pytest.fixture
def two(load) -> Any:
    """a = x + x and b = x * x for vectors."""
    return load(models.parse("(float[n] x) => (float[n] a, float[n] b) { a = Add(x, x) b = Mul(x, x) }"))


def test_run_fills_the_outputs(session) -> None:
    binding = bound(session, np.arange(4, dtype=np.float32))
    for _ in range(3):
        assert session.run_with_iobinding(binding) is None
        assert binding.copy_outputs_to_cpu()[0].tolist() == [1, 2, 3, 4]
        (value,) = binding.get_outputs()
        assert value.numpy().tolist() == [1, 2, 3, 4]
        assert value.device_name() == "cpu"
        assert [each.shape() for each in binding.get_outputs_as_ortvaluevector()] == [[4]]


def test_copy_is_the_same_binding(session) -> None:
    binding = bound(session, np.arange(4, dtype=np.float32))
    assert result(session, copy.copy(binding)) == [1, 2, 3, 4]
    assert binding.copy_outputs_to_cpu()[0].tolist() == [1, 2, 3, 4]


def test_each_request_may_bind_anew(session) -> None:
    binding = session.io_binding()
    for number, size in enumerate([4, 4, 4, 6, 6, 6, 2, 4]):
        binding.bind_cpu_input("x", np.full(size, number, np.float32))
        binding.bind_cpu_input("y", np.ones(size, np.float32))
        binding.bind_output("z")
        assert result(session, binding) == [number + 1] * size
        assert binding.get_outputs()[0].numpy().tolist() == [number + 1] * size


def test_writes_to_a_bound_array_take_effect_and_copies_are_the_caller_s(session) -> None:
    x = np.zeros(4, np.float32)
    binding = bound(session, x)
    copies = []
    for number in range(4):
        x[:] = number
        session.run_with_iobinding(binding)
        (copied,) = binding.copy_outputs_to_cpu()
        assert copied.flags.writeable
        assert copied.flags.owndata
        copies.append(copied)
    assert [copied.tolist() for copied in copies] == [[number] * 4 for number in (1, 2, 3, 4)]


def test_value_of_an_output_shows_later_runs(session) -> None:
    x = np.zeros(4, np.float32)
    binding = bound(session, x)
    session.run_with_iobinding(binding)
    (value,) = binding.get_outputs()
    for number in range(8):
        x[:] = number
        session.run_with_iobinding(binding)
        assert value.numpy().tolist() == [number + 1] * 4
        binding.bind_cpu_input("y", np.ones(4, np.float32))


@ours
def test_results_stay_when_the_output_is_bound_again(session) -> None:
    x = np.zeros(4, np.float32)
    binding = bound(session, x)
    kept = []
    for number in range(8):
        x[:] = number
        session.run_with_iobinding(binding)
        kept.append(binding.get_outputs()[0])
        binding.bind_output("z")
    assert [value.numpy()[0] for value in kept] == [1, 2, 3, 4, 5, 6, 7, 8]


@ours
# The second model declares that the shape of its output follows from the input's.
@pytest.mark.parametrize("declared", ["m, k", "1, n"])
def test_output_shape_may_depend_on_the_data(load, declared) -> None:
    session = load(models.parse(f"(float[n] x) => (int64[{declared}] y) {{ y = NonZero(x) }}"))
    x = np.zeros(8, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    for count in (8, 8, 8, 8, 8, 3, 3, 5, 0, 8):
        x[:] = np.arange(8) < count
        assert result(session, binding) == [list(range(count))]
        assert binding.get_outputs()[0].shape() == [1, count]


def test_strided_array_is_copied_when_it_is_bound(session) -> None:
    x = np.arange(8, dtype=np.float32)
    binding = bound(session, x[::2])
    x[:] = 99
    assert result(session, binding) == [1, 3, 5, 7]


@pytest.mark.parametrize("kind", [tuple, list])
@pytest.mark.parametrize("element_type", [np.float32, "float32", 1])
def test_input_is_memory_at_an_address(session, element_type, kind) -> None:
    x = np.arange(4, dtype=np.float32)
    binding = bound(session)
    outputs = []
    for number in range(3):
        x[0] = number
        binding.bind_input("x", "cpu", 0, element_type, kind(x.shape), x.ctypes.data)
        assert result(session, binding) == [number + 1, 2, 3, 4]
        outputs += binding.get_outputs()
    # An output stays in its memory while the shape of the input stays.
    assert len({output.data_ptr() for output in outputs}) == 1


@pytest.mark.parametrize("element_type", [np.float32, 1])
def test_output_is_memory_at_an_address(session, element_type) -> None:
    z = np.zeros(4, np.float32)
    binding = bound(session)
    binding.bind_output("z", "cpu", 0, element_type, [4], z.ctypes.data)
    for number in range(3):
        binding.bind_cpu_input("x", np.full(4, number, np.float32))
        session.run_with_iobinding(binding)
        assert z.tolist() == [number + 1] * 4
        assert binding.get_outputs()[0].data_ptr() == z.ctypes.data
        assert binding.copy_outputs_to_cpu()[0].tolist() == z.tolist()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("cpu", 0, np.complex64, [1], 0), RuntimeError),
        (("cpu", 0, 99, [1], 0), RuntimeError),
        (("cpu", 0, np.float32, [-4], 0), RuntimeError),
        (("cpu", 0, np.float32, [1 << 40, 1 << 40], 0), RuntimeError),
        (("cpu", 0, np.float32, 4, 0), TypeError),
        (("cpu", 0, np.float32, [4], None), TypeError),
        (("cpu", 0, np.float32, [4], 1.5), TypeError),
        (("cpu", "0", np.float32, [4], 0), TypeError),
        (("cuda", 0, np.float32, [4], 0), RuntimeError),
    ],
)
def test_wrong_memory_raises(session, arguments, error) -> None:
    *head, address = arguments
    with pytest.raises(error):
        session.io_binding().bind_input("x", *head, ONES.ctypes.data if address == 0 else address)


def test_unknown_device_raises(session) -> None:
    binding = session.io_binding()
    for bind, memory in ((binding.bind_input, (0, np.float32, [4], ONES.ctypes.data)), (binding.bind_output, ())):
        with pytest.raises(Exception, match="Unsupported device type: tpu"):
            bind("z", "tpu", *memory)


@pytest.mark.parametrize(
    "address", [0, -1, (1 << 64) - 8, ONES.ctypes.data + 1], ids=["null", "negative", "beyond_the_end", "misaligned"]
)
@ours
def test_address_that_no_tensor_has_raises(session, address) -> None:
    with pytest.raises((RuntimeError, TypeError)):
        session.io_binding().bind_input("x", "cpu", 0, np.float32, [4], address)


def test_memory_needs_type_and_shape(session) -> None:
    for missing in ({"element_type": np.float32}, {"shape": [4]}):
        with pytest.raises(ValueError, match="`element_type` and `shape` are to be provided"):
            session.io_binding().bind_output("z", buffer_ptr=ONES.ctypes.data, **missing)


def test_values_are_inputs_and_outputs(ort, session) -> None:
    x, z = (ort.OrtValue.ortvalue_from_numpy(np.zeros(4, np.float32)) for _ in range(2))
    binding = bound(session)
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("z", z)
    for number in range(4):
        x.update_inplace(np.full(4, number, np.float32))
        session.run_with_iobinding(binding)
        assert z.numpy().tolist() == [number + 1] * 4
    assert binding.get_outputs()[0].data_ptr() == z.data_ptr()
    # A copy is the caller's.
    binding.copy_outputs_to_cpu()[0][...] = 9
    assert z.numpy().tolist() == [4] * 4


def test_values_take_turns_as_output(ort, session) -> None:
    values = [ort.OrtValue.ortvalue_from_shape_and_type([4], np.float32) for _ in range(3)]
    binding = bound(session)
    for number in range(9):
        binding.bind_cpu_input("x", np.full(4, number, np.float32))
        binding.bind_ortvalue_output("z", values[number % 3])
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].data_ptr() == values[number % 3].data_ptr()
        assert binding.copy_outputs_to_cpu()[0].tolist() == [number + 1] * 4
    assert [value.numpy()[0] for value in values] == [7, 8, 9]


def test_outputs_feed_the_next_run(session) -> None:
    binding = bound(session, np.zeros(4, np.float32))
    for number in range(1, 6):
        session.run_with_iobinding(binding)
        (value,) = binding.get_outputs()
        assert value.numpy().tolist() == [number] * 4
        binding.bind_ortvalue_input("x", value)
        binding.bind_output("z")


def test_outputs_come_in_the_order_of_binding(two) -> None:
    x = np.array([2, 3], np.float32)
    binding = two.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("b")
    for _ in range(2):
        two.run_with_iobinding(binding)
        assert [each.tolist() for each in binding.copy_outputs_to_cpu()] == [[4, 9]]
    binding.bind_output("a")
    for _ in range(3):
        two.run_with_iobinding(binding)
        assert [each.tolist() for each in binding.copy_outputs_to_cpu()] == [[4, 9], [4, 6]]
        assert [each.numpy().tolist() for each in binding.get_outputs()] == [[4, 9], [4, 6]]


def test_output_of_a_device_that_the_session_lacks_lies_on_the_host(session) -> None:
    for device in ("cuda", "npu", "dml"):
        binding = bound(session)
        binding.bind_output("z", device)
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].device_name() == "cpu"


def test_run_needs_inputs_and_outputs(session, refused) -> None:
    binding = session.io_binding()
    assert binding.get_outputs() == []
    assert binding.copy_outputs_to_cpu() == []
    with refused(RuntimeError, "no output"):
        session.run_with_iobinding(binding)
    binding.bind_output("z")
    assert not binding.get_outputs()[0].has_value()
    binding.bind_cpu_input("x", ONES)
    with refused(RuntimeError, "y"):
        session.run_with_iobinding(binding)
    binding.bind_cpu_input("y", ONES)
    session.run_with_iobinding(binding)


def test_cleared_binding_needs_all_anew(session, refused) -> None:
    binding = bound(session)
    for _ in range(2):
        session.run_with_iobinding(binding)
        binding.clear_binding_inputs()
        with refused(RuntimeError, "x, y"):
            session.run_with_iobinding(binding)
        binding.clear_binding_outputs()
        assert binding.get_outputs() == []
        binding.bind_cpu_input("x", ONES)
        binding.bind_cpu_input("y", ONES)
        with refused(RuntimeError, "no output"):
            session.run_with_iobinding(binding)
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        assert result(session, binding) == [2] * 4
    binding.synchronize_inputs()
    binding.synchronize_outputs()


def test_names_of_inputs_are_texts_or_bytes_of_the_model(ort, session, refused) -> None:
    z, value = np.zeros_like(ONES), ort.OrtValue.ortvalue_from_numpy(ONES)
    for method, *place in (
        ("bind_cpu_input", ONES),
        ("bind_ortvalue_input", value),
        ("bind_input", "cpu", 0, np.float32, [4], ONES.ctypes.data),
    ):
        binding = session.io_binding()
        binding.bind_output(b"z", "cpu", 0, np.float32, [4], z.ctypes.data)
        binding.bind_cpu_input("y", ONES)
        bind = getattr(binding, method)
        bind(b"x", *place)
        session.run_with_iobinding(binding)
        assert z.any()
        z[...] = 0
        with pytest.raises((TypeError, ValueError)):
            bind("\ud800", *place)
        with refused(RuntimeError, "nope"):
            bind("nope", *place)


def test_unknown_names_of_outputs_raise(ort, session, refused) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(ONES)
    with refused(RuntimeError, "nope"):
        session.io_binding().bind_output("nope", "cpu", 0, np.float32, [4], ONES.ctypes.data)
    for bind in (lambda binding: binding.bind_output("nope"), lambda b: b.bind_ortvalue_output("nope", value)):
        binding = bound(session)
        bind(binding)
        with refused(RuntimeError, "nope"):
            session.run_with_iobinding(binding)


def test_input_that_is_no_array_of_numbers_raises(load, session, refused) -> None:
    for wrong in ([1.0, 2.0], None, np.float32(3), 3):
        with refused(RuntimeError, "x", type(wrong).__name__):
            session.io_binding().bind_cpu_input("x", wrong)
    with pytest.raises(RuntimeError):
        load(cast("string", "string")).io_binding().bind_cpu_input("x", np.array(["a"]))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(4), r"Unexpected input data type. Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"),
        (np.zeros(4, np.float16), r"Unexpected input data type. Actual: \(tensor\(float16\)\)"),
        (np.array(["a"]), r"Unexpected input data type. Actual: \(tensor\(string\)\)"),
        (np.zeros((2, 2), np.float32), "Invalid rank for input: x Got: 2 Expected: 1"),
        (np.zeros(3, np.float32), "Add"),
    ],
)
def test_wrong_input_fails_in_the_run(session, x, message) -> None:
    binding = bound(session, x)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"Error in execution: .*{message}"):
            session.run_with_iobinding(binding)
    binding.bind_cpu_input("x", ONES)
    assert result(session, binding) == [2] * 4


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (np.zeros(4), r"Unexpected output data type. Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"),
        (np.zeros(4, np.int8), r"Unexpected output data type. Actual: \(tensor\(int8\)\)"),
        (np.zeros((2, 2), np.float32), "Invalid rank for output: z Got: 2 Expected: 1"),
        (np.zeros(3, np.float32), "does not match|doesn't match|output OrtValue provided"),
    ],
)
def test_wrong_output_fails_in_the_run(ort, session, z, message) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(z)
    binding = bound(session)
    binding.bind_ortvalue_output("z", value)
    with pytest.raises(RuntimeError, match=message):
        session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].shape() == list(z.shape)
    assert z.sum() == 0


@ours
def test_read_only_array_is_no_output(ort, session) -> None:
    z = np.zeros(4, np.float32)
    z.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        session.io_binding().bind_ortvalue_output("z", ort.OrtValue.ortvalue_from_numpy(z))


def test_sequence_is_bound_as_a_value(load) -> None:
    x = np.arange(4, dtype=np.float32)
    pair = load(PAIR)
    pairs = pair.io_binding()
    pairs.bind_cpu_input("x", x)
    pairs.bind_output("s")
    pair.run_with_iobinding(pairs)
    assert [[each.tolist() for each in output] for output in pairs.copy_outputs_to_cpu()] == [[x.tolist()] * 2]
    (value,) = pairs.get_outputs()
    assert value.data_type() == "seq(tensor(float))"
    assert value.is_tensor_sequence()

    pick = load(models.parse("(seq(float[]) s, int64 i) => (float[] y) { y = SequenceAt(s, i) }"))
    binding = pick.io_binding()
    with pytest.raises(RuntimeError):
        binding.bind_cpu_input("s", [x, x])
    binding.bind_ortvalue_input("s", value)
    binding.bind_cpu_input("i", np.array(1))
    binding.bind_output("y")
    for _ in range(2):
        assert result(pick, binding) == x.tolist()


@ours
def test_sequence_is_made_anew_by_each_run(load) -> None:
    session = load(PAIR)
    binding = session.io_binding()
    binding.bind_cpu_input("x", ONES)
    binding.bind_output("s")
    for _ in range(4):
        session.run_with_iobinding(binding)
        assert len(binding.copy_outputs_to_cpu()[0]) == 2


def test_wrong_types_raise(ort, state, session) -> None:
    binding = session.io_binding()
    value = ort.OrtValue.ortvalue_from_numpy(ONES)
    for wrong in (3, None):
        with pytest.raises(AttributeError):
            binding.bind_ortvalue_input("x", wrong)
        with pytest.raises(AttributeError):
            session.run_with_iobinding(wrong)
    for work in (
        lambda: binding.bind_cpu_input(3, ONES),
        lambda: binding.bind_ortvalue_input(3, value),
        lambda: bound(session) and session.run_with_iobinding(bound(session), 3),
    ):
        with pytest.raises(TypeError):
            work()
    for kind in (ort.IOBinding, state.SessionIOBinding):
        with pytest.raises((AttributeError, TypeError)):
            kind(3)


@ours
def test_names_of_the_other_side_raise(session) -> None:
    with pytest.raises(RuntimeError, match="z"):
        session.io_binding().bind_cpu_input("z", ONES)
    binding = bound(session)
    with pytest.raises(RuntimeError, match="'x'"):
        binding.bind_output("x", "cpu", 0, np.float32, [4], ONES.ctypes.data)
    binding.bind_output("x")
    with pytest.raises(RuntimeError, match="'x'"):
        session.run_with_iobinding(binding)


def test_binding_of_the_extension_module(ort, state, session) -> None:
    binding = state.SessionIOBinding(session._sess)
    device = state.OrtDevice(0, 0, 0)
    binding.bind_input("x", ONES)
    binding.bind_input("y", device, np.float32, [4], ONES.ctypes.data)
    binding.bind_output("z", device)
    for each in (binding, bound(session)._iobinding):
        for options in (None, ort.RunOptions()):
            session._sess.run_with_iobinding(each, options)
            assert each.copy_outputs_to_cpu()[0].tolist() == [2] * 4
    assert isinstance(binding.get_outputs(), state.OrtValueVector)
    for wrong in ((1, None), (binding, 1)):
        with pytest.raises((AttributeError, TypeError)):
            session._sess.run_with_iobinding(*wrong)


def test_another_session_may_run_the_binding(load, session, two) -> None:
    binding = bound(session)
    session.run_with_iobinding(binding)
    product = load(binary("Mul"))
    for runner, expected in [(product, 3), (session, 4), (product, 3), (product, 3)]:
        binding.bind_cpu_input("x", np.full(4, 3, np.float32))
        assert result(runner, binding) == [expected] * 4
    with pytest.raises(RuntimeError):
        two.run_with_iobinding(binding)
    assert result(session, binding) == [4] * 4


@ours
def test_session_with_other_providers_runs_the_binding(load) -> None:
    session = load(binary("Add"))
    binding = bound(session)
    before = weakref.ref(session._sess._session)
    session.set_providers(["CPUExecutionProvider"])
    binding.bind_cpu_input("x", np.full(4, 3, np.float32))
    assert result(session, binding) == [4] * 4
    gc.collect()
    assert before() is None


@ours
def test_input_that_is_bound_anew_is_let_go(ort, session) -> None:
    binding = bound(session)
    value = ort.OrtValue.ortvalue_from_numpy(np.ones(4, np.float32))
    binding.bind_ortvalue_input("x", value)
    gone = weakref.ref(value)
    binding.bind_cpu_input("x", np.full(4, 3, np.float32))
    del value
    gc.collect()
    assert gone() is None
    assert result(session, binding) == [4] * 4


@ours
def test_latest_inputs_move_to_another_session(ort, load) -> None:
    add, sub = load(binary("Add")), load(binary("Sub"))
    three, five, kept = (np.full(4, number, np.float32) for number in (3, 5, 7))
    binding = add.io_binding()
    binding.bind_output("z")
    binding.bind_input("y", "cpu", 0, np.float32, [4], kept.ctypes.data)
    for _ in range(2):
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(three))
        assert result(sub, binding) == [-4] * 4
        binding.bind_cpu_input("x", five)
        assert result(add, binding) == [12] * 4
        binding.bind_input("x", "cpu", 0, np.float32, [4], three.ctypes.data)
        assert result(sub, binding) == [-4] * 4


def test_run_options_apply(ort, session) -> None:
    binding = bound(session)
    options = ort.RunOptions()
    options.log_severity_level = 4
    for _ in range(3):
        session.run_with_iobinding(binding, options)
    session.run_with_iobinding(iobinding=binding, run_options=options)
    options.terminate = True
    with pytest.raises(RuntimeError, match="terminate"):
        session.run_with_iobinding(binding, options)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [2] * 4


@ours
def test_output_that_no_run_has_made_raises(session) -> None:
    with pytest.raises(RuntimeError, match="output 'z' has no value: no run has made it"):
        bound(session).copy_outputs_to_cpu()
    (value,) = bound(session).get_outputs()
    for method in (value.data_type, value.element_type, value.numpy, value.shape, value.tensor_size_in_bytes):
        with pytest.raises(RuntimeError):
            method()


@ours
def test_output_of_another_shape_needs_no_new_binding(session) -> None:
    binding = bound(session)
    for size in (4, 4, 4, 6, 6, 6, 2):
        for name in "xy":
            binding.bind_cpu_input(name, np.ones(size, np.float32))
        session.run_with_iobinding(binding)
        assert result(session, binding) == [2] * size


@ours
def test_arrays_of_the_other_byte_order_are_converted_each_time(session) -> None:
    dtype = np.dtype(">f4")
    binding = bound(session)
    for number in range(6):
        binding.bind_cpu_input("x", np.full(4, number, dtype))
        assert result(session, binding) == [number + 1] * 4


@ours
def test_packed_arrays_are_packed_each_time(load) -> None:
    session = load(cast("int4", "float"))
    binding = session.io_binding()
    binding.bind_output("y")
    for number in range(6):
        binding.bind_cpu_input("x", np.arange(-2, number + 1).astype(ml_dtypes.int4)[-3:])
        assert result(session, binding) == [number - 2, number - 1, number]


@ours
def test_output_may_be_sparse_where_the_model_says_dense(load) -> None:
    session = load(models.sparse_constant())
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones(2, np.float32))
    for output in session.get_outputs():
        binding.bind_output(output.name)
    for _ in range(5):
        session.run_with_iobinding(binding)
        assert [value.is_sparse_tensor() for value in binding.get_outputs()] == [True, False]
        sparse, dense = binding.copy_outputs_to_cpu()
        assert sparse.values().tolist() == [3, 5]
        assert (dense == -1).all()


@pytest.mark.parametrize("element_type", ["bfloat16", "float8e4m3fn", "string"])
@ours
def test_copies_are_those_that_run_returns(load, element_type) -> None:
    session = load(cast("float", element_type))
    binding = session.io_binding()
    binding.bind_output("y")
    for _ in range(5):
        binding.bind_cpu_input("x", ONES)
        session.run_with_iobinding(binding)
        (copied,) = binding.copy_outputs_to_cpu()
        (expected,) = session.run(None, {"x": ONES})
        assert copied.dtype == expected.dtype
        assert copied.tolist() == expected.tolist()
        assert binding.get_outputs()[0].element_type() == TensorProto.DataType.Value(element_type.upper())
