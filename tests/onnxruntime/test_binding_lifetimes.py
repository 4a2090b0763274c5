"""`IOBinding`: the lifetimes of its memory, threads that share it, and random orders of calls."""

import gc
import itertools
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import cycle

import numpy as np
import pytest

from tests.onnxruntime.bindings import bound
from tests.onnxruntime.packages import ours
from tests.support import models
from tests.support.together import in_threads


def test_binding_keeps_its_inputs_alive(session) -> None:
    binding = bound(session, np.full(100000, 3, np.float32), np.full(100000, 4, np.float32))
    for _ in range(3):
        gc.collect()
        [np.empty(100000, np.float32).fill(9) for _ in range(4)]
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.full(100000, 7, np.float32))


def test_binding_keeps_its_values_alive(ort, session) -> None:
    binding = bound(session)
    binding.bind_cpu_input("y", np.ones(100000, np.float32))
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_shape_and_type([100000], np.float32))
    gc.collect()
    for _ in range(2):
        session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].shape == (100000,)


@ours
def test_outputs_outlive_the_binding_and_the_session(ort) -> None:
    session = ort.InferenceSession(models.add(["n"]), providers=["CPUExecutionProvider"])
    binding = bound(session, np.full(100000, 3, np.float32), np.full(100000, 4, np.float32))
    kept = []
    for _ in range(3):
        session.run_with_iobinding(binding)
        kept += [binding.get_outputs()[0], binding.copy_outputs_to_cpu()[0], binding.get_outputs()[0].numpy()]
    del session
    gc.collect()
    assert binding.copy_outputs_to_cpu()[0][0] == 7
    del binding
    gc.collect()
    for each in kept:
        array = each.numpy() if isinstance(each, ort.OrtValue) else each
        np.testing.assert_array_equal(array, np.full(100000, 7, np.float32))


def test_values_change_during_runs(ort, session) -> None:
    x = np.zeros(100000, np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(x)
    binding = bound(session, x, np.zeros(100000, np.float32))
    binding.bind_ortvalue_input("x", value)
    ended = threading.Event()

    def update() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            value.update_inplace(np.full(100000, number, np.float32))

    thread = threading.Thread(target=update)
    thread.start()
    end = time.monotonic() + 60
    for number in itertools.count():
        session.run_with_iobinding(binding)
        total = binding.copy_outputs_to_cpu()[0]
        # On a busy machine the other thread may have had no turn yet.
        if (number >= 200 and total[0] > 0) or time.monotonic() > end:
            break
    ended.set()
    thread.join()
    assert total[0] > 0
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], x)


@ours
def test_threads_that_share_a_binding_never_crash(session) -> None:
    binding = bound(session)

    def work(number: int) -> None:
        for turn in range(300):
            try:
                size = 4 if turn % 7 else 5
                binding.bind_cpu_input("x", np.full(size, number, np.float32))
                binding.bind_cpu_input("y", np.full(size, number, np.float32))
                if turn % 3 == 0:
                    binding.bind_output("z")
                session.run_with_iobinding(binding)
                session.run_with_iobinding(binding)
                binding.get_outputs()[0].numpy().sum()
                binding.copy_outputs_to_cpu()
            except RuntimeError:
                # Another thread uses the binding, or has bound other shapes.
                pass

    in_threads(*(partial(work, number) for number in range(4)))


@ours
def test_threads_bind_while_sessions_take_turns(ort, load) -> None:
    """A session that runs the binding of another one makes it its own, also while a thread binds."""
    sessions = [load(models.parse("(float[n] x) => (float[n] y) { y = Neg(x) }")) for _ in range(2)]
    binding = sessions[0].io_binding()
    arrays = [np.full(size, size, np.float32) for size in range(1, 50)]
    values = [ort.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    binding.bind_cpu_input("x", arrays[0])
    binding.bind_output("y")
    ended = threading.Event()

    def bind() -> None:
        for turn in cycle(range(49)):
            if ended.is_set():
                return
            with suppress(RuntimeError):
                binding.bind_cpu_input("x", arrays[turn])
                binding.bind_ortvalue_input("x", values[turn])

    def run() -> None:
        for turn in range(2000):
            with suppress(RuntimeError):
                sessions[turn % 2].run_with_iobinding(binding)
        ended.set()

    in_threads(bind, bind, run)


@pytest.mark.parametrize("seed", range(6))
@ours
def test_any_order_of_calls_gives_the_right_results(ort, load, seed) -> None:
    """A model of two outputs, z = x + y and w = x * y, and what each of them must hold after each run."""
    text = "(float[n] x, float[n] y) => (float[n] z, float[n] w) { z = Add(x, y) w = Mul(x, y) }"
    session = load(models.parse(text))
    dice = np.random.default_rng(seed)
    binding = session.io_binding()
    inputs: dict[str, np.ndarray] = {}
    # The array of an output that lies in the caller's memory, else None.
    outputs: dict[str, np.ndarray | None] = {}
    good = 0
    for _ in range(800):
        name, size = str(dice.choice(["x", "y"])), int(dice.choice([3, 3, 3, 3, 5]))
        match int(dice.integers(14)):
            case 0 | 1 | 2:
                inputs[name] = dice.random(size, np.float32)
                binding.bind_cpu_input(name, inputs[name])
            case 3:
                inputs[name] = dice.random(size, np.float32)
                binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(inputs[name]))
            case 4:
                inputs[name] = dice.random(size, np.float32)
                binding.bind_input(name, "cpu", 0, np.float32, [size], inputs[name].ctypes.data)
            case 5 if name in inputs:
                inputs[name][:] = dice.random(len(inputs[name]))
            case 6 | 7:
                output = str(dice.choice(["z", "w"]))
                outputs[output] = None
                binding.bind_output(output)
            case 8:
                output = str(dice.choice(["z", "w"]))
                outputs[output] = np.zeros(size, np.float32)
                binding.bind_ortvalue_output(output, ort.OrtValue.ortvalue_from_numpy(outputs[output]))
            case 9 if dice.random() < 0.1:
                binding.clear_binding_inputs()
                inputs.clear()
            case 9 if dice.random() < 0.1:
                binding.clear_binding_outputs()
                outputs.clear()
            case _:
                sizes = {len(array) for array in inputs.values()} | {
                    len(array) for array in outputs.values() if array is not None
                }
                if len(inputs) < 2 or not outputs or len(sizes) > 1:
                    with pytest.raises(RuntimeError, match="Error in execution"):
                        session.run_with_iobinding(binding)
                    continue
                session.run_with_iobinding(binding)
                good += 1
                expected = {"z": inputs["x"] + inputs["y"], "w": inputs["x"] * inputs["y"]}
                for place, value, copied in zip(
                    outputs, binding.get_outputs(), binding.copy_outputs_to_cpu(), strict=True
                ):
                    np.testing.assert_array_equal(value.numpy(), expected[place])
                    np.testing.assert_array_equal(copied, expected[place])
                    if outputs[place] is not None:
                        np.testing.assert_array_equal(outputs[place], expected[place])
    assert good > 50


def test_forked_child_and_the_end_of_the_interpreter(script) -> None:
    assert script("fork_with_binding.py").stderr == ""


@pytest.mark.parametrize("package", ["imported", "installed"])
def test_end_of_the_interpreter_with_a_binding_in_another_module(script, package: str) -> None:
    assert script("keep_to_the_end.py", package).stderr == ""
