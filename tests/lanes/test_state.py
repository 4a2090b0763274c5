"""`State`: read and written as arrays, copied, saved, pickled."""

import copy
import dataclasses
import errno
import io
import pickle
import zipfile

import numpy as np
import pytest

import zrt
from tests.support.arrays import f32
from tests.support.lanes import run_on
from zrt import Session, StateSnapshot
from zrt.errors import ClosedError, DTypeError, FileError, NotCopyableError, ShapeError, UnknownNameError

COUNTER = "(float[1] x, float[3] h) => (float[3] y, float[3] hn) { hn = Add(h, x) y = Mul(hn, hn) }"
KEY = "past_key_values.0.key"


@pytest.fixture
def lane(load) -> zrt.StatefulLane:
    lane = load(COUNTER).lane(state={"hn": "h"})
    lane.inputs["x"][...] = 1
    return lane


@pytest.fixture
def steps(decoder: Session) -> zrt.StatefulLane:
    """A decoder that has taken three steps."""
    lane = decoder.lane({"input_ids": (1, 1)}, state=zrt.kv_cache(decoder, 8))
    for token in (1, 2, 3):
        run_on(lane, input_ids=token)
    return lane


def same(one: zrt.State, other: zrt.State) -> bool:
    a, b = one.snapshot(), other.snapshot()
    counts = (a.steps, a.seen, a.positions) == (b.steps, b.seen, b.positions)
    return counts and all(np.array_equal(a.arrays[name], b.arrays[name]) for name in one)


def test_views_of_the_state_itself_may_change_places(load):
    session = load(
        """(float[3] x, float[3] a, float[3] b) => (float[3] y, float[3] na, float[3] nb) {
            y = Add(x, a)
            na = Add(a, x)
            nb = Sub(b, x)
        }"""
    )
    state = session.lane(state={"na": "a", "nb": "b"}).new_state({"a": f32(1, 1, 1), "b": f32(2, 2, 2)})
    state.write({"a": state["b"], "b": state["a"]})
    assert (state["a"].tolist(), state["b"].tolist()) == ([2, 2, 2], [1, 1, 1])


class TestMapping:
    def test_is_a_mapping_by_input(self, lane):
        state = lane.state
        assert list(state) == ["h"]
        assert state.names == ("h",)
        assert len(state) == 1
        assert "h" in state
        assert "hn" not in state
        assert 5 not in state
        assert dict(state)["h"].tolist() == [0, 0, 0]

    def test_next_run_reads_what_is_written(self, lane):
        lane.state["h"][...] = 7
        lane.run()
        assert lane.state["h"].tolist() == [8, 8, 8]
        strided = f32(1, 2, 3, 4, 5, 6)[::2]
        lane.state["h"] = strided
        strided[...] = 0
        assert lane.state["h"].tolist() == [1, 3, 5]
        lane.run()
        assert lane.state["h"].tolist() == [2, 4, 6]

    def test_state_equals_itself_alone(self, lane):
        state = lane.new_state()
        assert state == state
        assert state != lane.state
        assert len({state, lane.state}) == 2

    @pytest.mark.parametrize(
        ("content", "error", "words"),
        [
            (f32(1, 2), ShapeError, r"state 'h': expected shape \[3\], got \[2\]"),
            (np.zeros(3), DTypeError, "state 'h': expected float32, got .*float64"),
            ([1, 2, 3], DTypeError, "state 'h': expected a numpy array, got list"),
            (None, DTypeError, "state 'h': expected a numpy array"),
        ],
    )
    def test_wrong_content(self, lane, content, error, words):
        with pytest.raises(error, match=words):
            lane.state["h"] = content
        assert lane.state["h"].tolist() == [0, 0, 0]

    def test_number_of_numpys_is_an_array_without_dimensions(self, load):
        lane = load("(float level) => (float out) { out = Neg(level) }").lane(state={"out": "level"})
        lane.state["level"] = np.float32(3)
        lane.state["level"] = lane.state["level"] * 2
        assert lane.state["level"] == 6
        assert lane.new_state({"level": np.float32(5)})["level"] == 5
        with pytest.raises(DTypeError, match=r"state 'level': expected float32, got .*float64"):
            lane.state["level"] = np.float64(3)

    def test_repr(self, steps, lane):
        assert repr(lane.state) == "State(h: [3])"
        assert "3 of 8 steps" in repr(steps.state)
        lane.state.close()
        lane.state.close()
        assert repr(lane.state) == "State(closed)"


class TestGrowing:
    def test_writing_changes_the_number_of_steps(self, steps):
        content = {name: np.ones((1, 2, 5, 8), np.float32) for name in steps.state if name != "attention_mask"}
        steps.state.write(content)
        assert (steps.state.steps, steps.state.seen) == (5, 5)
        assert steps.state[KEY].shape == (1, 2, 5, 8)
        steps.run()
        assert steps.inputs["position_ids"].tolist() == [[5]]
        assert (steps.state[KEY][:, :, :5] == 1).all()

    def test_arrays_of_different_steps_are_refused(self, steps):
        with pytest.raises(ShapeError, match=r"5 steps need an array for 'past_key_values.0.value' too"):
            steps.state[KEY] = np.ones((1, 2, 5, 8), np.float32)
        content = {name: np.ones((1, 2, 5, 8), np.float32) for name in steps.state if name != "attention_mask"}
        content[KEY] = np.ones((1, 2, 4, 8), np.float32)
        with pytest.raises(ShapeError, match="different numbers of steps"):
            steps.state.write(content)
        assert steps.state.steps == 3

    @pytest.mark.parametrize("shape", [(1, 2, 9, 8), (1, 3, 3, 8), (2, 2, 3, 8), (1, 2, 3)])
    def test_wrong_shape(self, steps, shape):
        with pytest.raises(ShapeError, match=r"expected shape \[1, 2, 8, 8\] at most"):
            steps.state[KEY] = np.ones(shape, np.float32)

    def test_reset_forgets_all_steps(self, steps):
        assert steps.state[KEY].shape == (1, 2, 3, 8)
        assert (steps.state.steps, steps.state.seen, steps.state.capacity) == (3, 3, 8)
        steps.state.reset()
        assert steps.state[KEY].shape == (1, 2, 0, 8)
        assert steps.state.steps == 0
        steps.run()
        assert steps.inputs["position_ids"].tolist() == [[0]]


class TestCopies:
    @pytest.mark.parametrize("duplicate", [zrt.State.copy, copy.copy, copy.deepcopy])
    def test_copy_is_apart(self, lane, duplicate):
        lane.run()
        twin = duplicate(lane.state)
        lane.run()
        assert twin["h"].tolist() == [1, 1, 1]
        lane.run(twin)
        assert twin["h"].tolist() == [2, 2, 2]
        twin.reset()
        assert twin["h"].tolist() == [0, 0, 0]

    def test_copy_keeps_the_start(self, lane):
        state = lane.new_state({"h": f32(4, 4, 4)})
        lane.run(state)
        twin = state.copy()
        twin.reset()
        assert twin["h"].tolist() == [4, 4, 4]

    def test_copy_of_a_growing_state_goes_on_alike(self, steps):
        twin = steps.state.copy()
        assert same(twin, steps.state)
        steps.run()
        mine = steps.outputs["logits"].copy()
        steps.run(twin)
        assert np.array_equal(steps.outputs["logits"], mine)
        assert same(twin, steps.state)

    def test_pickle_carries_a_snapshot(self, steps):
        loaded = pickle.loads(pickle.dumps(steps.state))
        assert isinstance(loaded, StateSnapshot)
        twin = steps.new_state(loaded)
        assert same(twin, steps.state)
        steps.state.reset()
        steps.state.write(loaded)
        assert same(twin, steps.state)

    def test_snapshots_compare_by_identity(self, steps):
        one, other = steps.state.snapshot(), steps.state.snapshot()
        assert one != other
        assert len({one, other, one}) == 2

    def test_lane_itself_is_not_copied(self, lane):
        with pytest.raises(NotCopyableError):
            copy.copy(lane)

    def test_snapshot_replaces_everything(self, steps):
        before = steps.state.snapshot()
        steps.state["attention_mask"][0, 0] = 0
        steps.state.write(before)
        assert steps.state["attention_mask"].all()

    def test_snapshot_of_its_own_views_changes_nothing(self, lane, steps):
        lane.run()
        steps.state["attention_mask"][0, 0] = 0
        for state in (lane.state, steps.state):
            before = state.snapshot()
            state.write(StateSnapshot(dict(state), before.steps, before.seen, before.positions))
            after = state.snapshot()
            assert all(np.array_equal(before.arrays[name], after.arrays[name]) for name in state)

    def test_snapshot_that_is_made_by_hand_has_seen_its_steps(self, load):
        text = """(float[1, k] past, float[1, 1] x, int64[1] at) => (float[1, m] present, int64[1] y) {
            present = Concat <axis = 1> (past, x)
            y = Identity(at)
        }"""
        pair = zrt.StatePair("present", "past", axis=1)
        lane = load(text).lane(state=zrt.StatePorts((pair,), capacity=4, follow={"at": "steps"}))
        for content in (
            StateSnapshot({"past": np.ones((1, 3), np.float32)}, steps=3),
            {"past": np.ones((1, 3), np.float32)},
        ):
            state = lane.new_state(content)
            assert (state.steps, state.seen) == (3, 3)
            lane.run(state)
            assert lane.outputs["y"].tolist() == [3]

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"steps": 9}, "steps"),
            ({"steps": -1}, "steps"),
            ({"seen": -1}, "seen"),
            ({"seen": "3"}, "seen"),
            ({"positions": (-1,)}, "positions"),
            ({"arrays": {}}, "has no array"),
        ],
    )
    def test_wrong_snapshot(self, steps, changes, words):
        with pytest.raises(zrt.Error, match=words):
            steps.state.write(dataclasses.replace(steps.state.snapshot(), **changes))
        assert steps.state.steps == 3


class TestFiles:
    def test_save_and_load(self, steps, tmp_path):
        path, file = tmp_path / "state.npz", io.BytesIO()
        for place in (path, file):
            steps.state.save(place)
            file.seek(0)
            twin = steps.new_state()
            twin.load(place)
            assert same(twin, steps.state)

    def test_inputs_whose_names_numpy_could_take_for_each_other(self, load, tmp_path):
        text = '(float[3] h, float[3] "h.npy") => (float[3] hn, float[3] gn) { hn = Neg(h) gn = Neg("h.npy") }'
        lane = load(text).lane(state={"hn": "h", "gn": "h.npy"})
        lane.state.write({"h": f32(1, 1, 1), "h.npy": f32(2, 2, 2)})
        lane.state.save(tmp_path / "state.npz")
        twin = lane.new_state()
        twin.load(tmp_path / "state.npz")
        assert same(twin, lane.state)

    # numpy gives float8_e5m2 the kind of floats, and the others the kind of records.
    @pytest.mark.parametrize("name", ["bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"])
    def test_types_of_ml_dtypes(self, load, tmp_path, name):
        lane = load(f"({name}[2] h) => ({name}[2] hn) {{ hn = Identity(h) }}", opset=21).lane(state={"hn": "h"})
        dtype = lane.state["h"].dtype
        lane.state["h"] = np.array([1.5, -2], dtype)
        lane.state.save(tmp_path / "state.npz")
        twin = lane.new_state()
        twin.load(tmp_path / "state.npz")
        assert twin["h"].dtype == dtype
        assert twin["h"].tolist() == [1.5, -2]

    def test_snapshot_without_an_input_is_refused(self, load):
        session = load("(float a, float b) => (float na, float nb) { na = Neg(a) nb = Neg(b) }")
        state = session.lane(state={"na": "a", "nb": "b"}).new_state({"a": f32(1).reshape(()), "b": f32(2).reshape(())})
        with pytest.raises(ShapeError, match="the snapshot has no array for 'b'"):
            state.write(StateSnapshot({"a": f32(3).reshape(())}))
        assert (state["a"], state["b"]) == (1, 2)

    @pytest.mark.parametrize("name", ["file", "allow_pickle", "a/b", "counts"])
    def test_inputs_of_any_name(self, load, name, tmp_path):
        lane = load(f'(float[2] "{name}") => (float[2] out) {{ out = Neg("{name}") }}').lane(state={"out": name})
        lane.state[name] = f32(1, 2)
        lane.state.save(tmp_path / "s.npz")
        twin = lane.new_state()
        twin.load(tmp_path / "s.npz")
        assert twin[name].tolist() == [1, 2]

    @pytest.mark.parametrize("damage", [b"", b"nothing", b"PK\3\4 and no more", None])
    def test_other_file(self, lane, tmp_path, damage):
        path = tmp_path / "state.npz"
        if damage is None:
            np.savez(path, h=f32(1, 2, 3))
        else:
            path.write_bytes(damage)
        with pytest.raises(FileError, match=r"state\.npz.*has no state"):
            lane.state.load(path)

    def test_other_file_is_no_pickle(self, lane, tmp_path):
        path = tmp_path / "state.npy"
        for write in (lambda: path.write_bytes(b"nothing"), lambda: np.save(path, f32(1, 2, 3))):
            write()
            with pytest.raises(FileError, match=r"it is no file of numpy\.savez"):
                lane.state.load(path)

    def test_numbers_of_steps_that_are_not_whole(self, steps, tmp_path):
        path = tmp_path / "state.npz"
        steps.state.save(path)
        with np.load(path) as saved:
            members = dict(saved)
        np.savez(path, **{**members, "counts": members["counts"] / 2})
        with pytest.raises(FileError, match=r"state\.npz.*has no state"):
            steps.state.load(path)
        assert steps.state.steps == 3

    def test_truncated_file_leaves_the_state(self, steps, tmp_path):
        path = tmp_path / "state.npz"
        steps.state.save(path)
        whole = path.read_bytes()
        for size in range(0, len(whole), len(whole) // 20):
            path.write_bytes(whole[:size])
            with pytest.raises(FileError):
                steps.state.load(path)
        assert steps.state.steps == 3

    def test_file_of_another_model(self, lane, steps, tmp_path):
        path = tmp_path / "state.npz"
        steps.state.save(path)
        with pytest.raises(UnknownNameError, match=r"state\.npz.*has no input"):
            lane.state.load(path)

    @pytest.mark.parametrize("array", [f32(1), f32(1, 2, 3).astype(np.float64)])
    def test_file_with_another_array(self, lane, tmp_path, array):
        path = tmp_path / "state.npz"
        np.savez(path, counts=np.zeros(2, np.int64), **{"state:h:": array})
        with pytest.raises((ShapeError, DTypeError), match=r"state\.npz.*'h': expected"):
            lane.state.load(path)

    def test_copy_without_memory_names_the_input(self, script):
        assert script("no_memory.py").stdout == 2 * "state 'y'\n"

    def test_failed_save_leaves_the_file_that_is_there(self, lane, tmp_path, monkeypatch):
        path = tmp_path / "state.npz"
        lane.state.save(path)
        lane.run()

        def full(place, **arrays):
            place.write(b"PK")
            raise OSError(errno.ENOSPC, "the disk is full")

        monkeypatch.setattr(np, "savez", full)
        with pytest.raises(FileError, match=r"state\.npz.*the disk is full"):
            lane.state.save(path)
        monkeypatch.undo()
        lane.state.load(path)
        assert lane.state["h"].tolist() == [0, 0, 0]
        assert list(tmp_path.iterdir()) == [path]

    def test_interrupt_of_a_save_comes_out_as_itself(self, lane, tmp_path, monkeypatch):
        def interrupted(place, **arrays):
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                # As zipfile does on the way out.
                zipfile.ZipFile(io.BytesIO(b"no archive"))

        monkeypatch.setattr(np, "savez", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lane.state.save(tmp_path / "state.npz")
        assert not list(tmp_path.iterdir())

    def test_unusable_places_are_named(self, lane, tmp_path):
        with pytest.raises(FileError, match="NUL"):
            lane.state.save(f"{tmp_path}/a\0b")
        with pytest.raises(FileError, match="directory"):
            lane.state.save(tmp_path)
        closed = io.BytesIO()
        closed.close()
        for file in (closed, io.StringIO()):
            with pytest.raises(FileError, match="state file"):
                lane.state.save(file)


def test_state_that_was_not_made_is_closed():
    state = zrt.State.__new__(zrt.State)
    with pytest.raises(ClosedError):
        state.reset()
    assert "not made" in repr(state)
