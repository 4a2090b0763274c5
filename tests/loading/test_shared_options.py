"""Loads share their ``OrtSessionOptions`` only where no load can see it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import zrt
from tests.support import models
from zrt.loading.load import shared_options
from zrt.providers.node_assignment import RECORD


def test_loads_with_the_same_fields_share():
    options = zrt.SessionOptions(intra_op_num_threads=1)
    assert shared_options(options) is shared_options(options) is not None
    assert shared_options(options) is shared_options(zrt.SessionOptions(intra_op_num_threads=1))


def test_options_that_are_changed_after_a_load_are_read_again():
    options = zrt.SessionOptions(intra_op_num_threads=1)
    before = shared_options(options)
    options.intra_op_num_threads = 2
    after = shared_options(options)
    assert after is not None
    assert after is not before


@pytest.mark.parametrize("wrong", [True, 1.0, "1"], ids=repr)
def test_wrong_type_after_a_load_is_refused(wrong):
    options = zrt.SessionOptions(intra_op_num_threads=1)
    zrt.Session(models.add(), options)
    options.intra_op_num_threads = wrong
    with pytest.raises(zrt.errors.DTypeError, match="intra_op_num_threads"):
        zrt.Session(models.add(), options)


def test_container_that_is_filled_after_a_load_is_read():
    options = zrt.SessionOptions()
    zrt.Session(models.add(), options)
    options.free_dimension_overrides["n"] = -1
    with pytest.raises(zrt.errors.ArgumentError, match="free_dimension_overrides"):
        zrt.Session(models.add(), options)


@pytest.mark.parametrize(
    "field",
    [
        {"config_entries": {"a": "b"}},
        {"logger": "zrt.test"},
        {"use_per_session_threads": False},
        {"thread_factory": lambda work: None},
        {"weightless_source_model": b"model"},
        {"optimized_model_filepath": "model.onnx"},
        {"profile_file_prefix": "profile"},
    ],
    ids=lambda field: next(iter(field)),
)
def test_options_that_do_more_than_set_a_value_are_not_shared(field):
    assert shared_options(zrt.SessionOptions(**field)) is None


def test_strict_load_leaves_shared_options_as_they_are():
    options = zrt.SessionOptions()
    shared = shared_options(options)
    zrt.Session(models.add(), options, providers=["CPU"], strict=True)
    assert shared_options(options) is shared
    assert not shared.has_config_entry(RECORD)


def test_shared_options_are_canceled():
    options = zrt.SessionOptions(load_cancellation=zrt.LoadCancellation())
    shared = shared_options(options)
    assert shared is shared_options(options) is not None
    options.load_cancellation.cancel()
    with pytest.raises(zrt.errors.ModelLoadCanceledError):
        zrt.Session(models.add(), options)
    options.load_cancellation.reset()
    zrt.Session(models.add(), options)
    options.load_cancellation.close()
    with pytest.raises(zrt.errors.ClosedError):
        zrt.Session(models.add(), options)


def test_threads_load_with_the_same_options():
    options = zrt.SessionOptions(intra_op_num_threads=1)
    model = models.add()
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(lambda _: zrt.Session(model, options), range(200)))
    assert {session.input_names for session in sessions} == {sessions[0].input_names}
