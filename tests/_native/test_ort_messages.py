"""`zrt._native.ort_messages`: the words of ONNX Runtime that zrt relies on, provoked in the loaded library."""

import errno
import os
import tempfile
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import zrt
from tests.custom_ops import support
from tests.support import adapters, models, ort
from tests.support.bindings import bind
from zrt._native import ort_messages, status
from zrt._native.library import api
from zrt._native.ort_messages import OrtMessage
from zrt.custom_ops import KernelContext, ShapeContext
from zrt.errors import (
    CallbackError,
    DeviceResetError,
    FailError,
    InvalidArgumentError,
    MemoryLimitError,
    ModelLoadCanceledError,
    NoSuchFileError,
    OrtError,
    TerminatedError,
)
from zrt.loading.load import create_session
from zrt.loading.model_source import Source
from zrt.providers import base

NEG = "(float[n] x) => (float[n] y) { y = Neg(x) }"
QUIET = zrt.SessionOptions(log_severity_level="FATAL")


def save_to(path: str, build: Callable[..., Any]) -> None:
    settings = zrt.SessionOptions(log_severity_level="FATAL").handle()
    # zrt itself has the file written beside its place.
    status.check(api().SetOptimizedModelFilePath(settings.pointer, path.encode()))
    with Source(build(NEG)) as source:
        create_session(source, settings)


def missing_folder(build: Callable[..., Any]) -> None:
    save_to("/nowhere/model.onnx", build)


def folder_as_file(build: Callable[..., Any]) -> None:
    save_to("/", build)


def weights_without_a_descriptor(build: Callable[..., Any]) -> None:
    resource = pytest.importorskip("resource")
    model = build("(float[n] x) => (float[n] y) { y = Mul(x, w) }")
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[1024], data_location=1)
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(4096))
        file.flush()
        folder, name = os.path.split(file.name)
        weight.external_data.add(key="location", value=name)
        zrt.Session(model, QUIET, external_data_dir=folder)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            with pytest.raises(FailError, match=os.strerror(errno.EMFILE)) as caught:
                zrt.Session(model, QUIET, external_data_dir=folder)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    raise caught.value


def canceled_load(build: Callable[..., Any]) -> None:
    cancellation = zrt.LoadCancellation()
    cancellation.cancel()
    zrt.Session(build(NEG), zrt.SessionOptions(load_cancellation=cancellation, log_severity_level="FATAL"))


def terminated_run(build: Callable[..., Any]) -> None:
    options = zrt.RunOptions(log_severity_level="FATAL")
    options.terminate()
    zrt.Session(build(NEG), QUIET).run([np.ones(2, np.float32)], options=options)


def no_room(build: Callable[..., Any]) -> None:
    options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", memory_limit="1MiB")
    body = "<body = step (int64 i, bool c, float[k] a) => (bool d, float[k] b) { d = Identity(c) [inner] b = Neg(a) }>"
    loop = f"(int64 n, bool go, float[k] x) => (float[k] y) {{ [outer] y = Loop (n, go, x) {body} }}"
    session = zrt.Session(build(loop), options)
    with pytest.raises(MemoryLimitError) as caught:
        session.run([np.array(2), np.array(True), np.ones(1 << 20, np.float32)])
    assert (caught.value.requested, caught.value.node) == (4 << 20, "inner")
    raise caught.value


def wrong_output_shape(build: Callable[..., Any]) -> None:
    bind(zrt.Session(build(NEG), QUIET), {"x": np.ones(3, np.float32)}, y=np.ones(2, np.float32)).run()


def sparse_output(build: Callable[..., Any]) -> None:
    session = zrt.Session(models.sparse_constant(), QUIET)
    bind(session, {"x": np.ones(3, np.float32)}, s=np.ones((2, 3), np.float32)).run()


def shapes_that_disagree(build: Callable[..., Any]) -> None:
    model = build("(float[a] x, float[b] w) => (float[c] y) { y = Add(x, w) }")
    zrt.Session(model, QUIET).run([np.ones(2, np.float32), np.ones(3, np.float32)])


def branch_that_fails(build: Callable[..., Any]) -> None:
    branches = "then_branch = left () => (y) { y = Add(x, w) }, else_branch = right () => (y) { y = Identity(x) }"
    model = build(f"(bool c, float[a] x, float[b] w) => (float[d] y) {{ y = If(c) <{branches}> }}")
    zrt.Session(model, QUIET).run([np.array(True), np.ones(2, np.float32), np.ones(3, np.float32)])


class Growing(support.Op):
    """Asks for an output that is larger than the input whose memory it takes over."""

    inplace: ClassVar = {0: 0}

    def compute(self, context: KernelContext) -> None:
        context.output(0, (99,))

    def infer_shapes(self, context: ShapeContext) -> None:
        kind, shape = context.input(0)
        context.set_output(0, shape, kind)


def reused_buffer(build: Callable[..., Any]) -> None:
    text = "(float[4] x) => (float[4] z) { a = Neg(x) y = test.ops.Op(a) z = Neg(y) }"
    support.load(text, Growing()).run([support.X])


def newer_model(build: Callable[..., Any]) -> None:
    zrt.Session(build(NEG, ir_version=99), QUIET)


def newer_opset(build: Callable[..., Any]) -> None:
    zrt.Session(build(NEG, opset=99), QUIET)


def unknown_operator(build: Callable[..., Any]) -> None:
    zrt.Session(build("(float[n] x) => (float[n] y) { y = NoSuchOperator(x) }"), QUIET)


def unknown_operator_of_a_domain(build: Callable[..., Any]) -> None:
    model = build("(float[n] x) => (float[n] y) { y = no.such.Operator(x) }")
    model.opset_import.add(domain="no.such", version=1)
    zrt.Session(model, QUIET)


def provider_not_in_build(build: Callable[..., Any]) -> None:
    base.append(zrt.SessionOptions().handle(), "SNPEExecutionProvider", {})


def weights_elsewhere(build: Callable[..., Any]) -> None:
    model = build(NEG)
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[1], data_location=1)
    weight.external_data.add(key="location", value="/w.bin")
    model.graph.node.add(op_type="Neg", input=["w"], output=["z"])
    zrt.Session(model, QUIET)


def adapter_of_strings(build: Callable[..., Any]) -> None:
    zrt.LoraAdapter(adapters.of_strings())


PROVOKED = [
    (missing_folder, ort_messages.FILE_REFUSED),
    (folder_as_file, ort_messages.FILE_REFUSED),
    (weights_without_a_descriptor, ort_messages.FILE_REFUSED),
    (canceled_load, ort_messages.LOAD_CANCELED),
    (terminated_run, ort_messages.RUN_TERMINATED),
    (no_room, ort_messages.NO_ROOM),
    (no_room, ort_messages.IN_A_NODE),
    (wrong_output_shape, ort_messages.WRONG_OUTPUT_SHAPE),
    (sparse_output, ort_messages.SPARSE_OUTPUT),
    (wrong_output_shape, ort_messages.COMPUTED_OUTPUT_SHAPE),
    (shapes_that_disagree, ort_messages.ABOUT_SHAPES),
    (branch_that_fails, ort_messages.IN_A_BRANCH),
    (reused_buffer, ort_messages.REUSED_BUFFER),
    (newer_model, ort_messages.NEWER_MODEL),
    (newer_opset, ort_messages.NEWER_OPSET),
    (unknown_operator, ort_messages.UNKNOWN_OPERATOR),
    (unknown_operator_of_a_domain, ort_messages.UNKNOWN_OPERATOR),
    (weights_elsewhere, ort_messages.WEIGHTS_ELSEWHERE),
    (adapter_of_strings, ort_messages.LORA_TYPE),
    (provider_not_in_build, ort_messages.NOT_IN_BUILD),
]


@pytest.mark.parametrize(("provoke", "message"), PROVOKED, ids=[provoke.__name__ for provoke, _ in PROVOKED])
def test_loaded_library_uses_these_words(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, provoke: Callable[..., None], message: OrtMessage
) -> None:
    first = message.seen_in[0]
    if not ort.since(first):
        pytest.skip(f"ONNX Runtime has these words since {first}")
    messages = []
    translate = ort_messages.to_error

    def record(code: int, text: str) -> OrtError:
        messages.append(text)
        return translate(code, text)

    monkeypatch.setattr(ort_messages, "to_error", record)
    with pytest.raises(zrt.errors.Error) as caught:
        provoke(build)
    assert any(map(message.matches, messages)), (messages, caught.value)


def test_message_of_a_wrong_output_shape_tells_the_right_one(build: Callable[..., Any]) -> None:
    with pytest.raises(zrt.errors.ShapeError) as caught:
        wrong_output_shape(build)
    found = ort_messages.COMPUTED_OUTPUT_SHAPE.search(caught.value)
    assert found is not None
    assert found.groups() == ("y", "3")


def test_every_message_of_the_table_is_provoked() -> None:
    table = [entry for entry in vars(ort_messages).values() if isinstance(entry, OrtMessage)]
    assert {id(entry) for entry in table} == {id(message) for _, message in PROVOKED}
    assert all(entry.seen_in for entry in table)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (errno.ENOENT, 'open file "a\nb" failed: No such file or directory', NoSuchFileError),
        (errno.EISDIR, 'open file "a" failed: Is a directory', FailError),
        # This errno is also the code of a model that has to be compiled.
        (errno.EACCES, 'Deserialize tensor a.b failed.open file "a" failed: Permission denied', FailError),
        (errno.ENOENT, 'Deserialize tensor w failed.open file "a" failed: No such file or directory', NoSuchFileError),
        # This errno is also the code of a canceled load.
        (errno.ENOMEM, "MemoryMapAdapterFile(const path&) SystemError : 12", FailError),
        (1, "Exiting due to terminate flag being set to true.", TerminatedError),
        (2, "terminate flag", InvalidArgumentError),
        (1, "bad", FailError),
        (2, "bad", InvalidArgumentError),
        (15, "the device was reset", DeviceResetError),
        (99, "a code of a later release", OrtError),
    ],
)
def test_to_error_chooses_the_class(code: int, message: str, kind: type[OrtError]) -> None:
    error = ort_messages.to_error(code, message)
    assert type(error) is kind
    assert str(error) == message
    if kind is OrtError:
        assert error.code == code


@pytest.mark.parametrize("code", [1, 6, 12])
@pytest.mark.parametrize(
    "message", ["Graph partitioning is canceled due to user request.", "was canceled by user request"]
)
def test_canceled_load_has_one_class_for_every_code(code: int, message: str) -> None:
    error = ort_messages.to_error(code, message)
    assert type(error) is ModelLoadCanceledError
    assert error.code == 12
    assert type(ort_messages.to_error(1, "canceled")) is FailError


def test_reused_buffer_is_a_callback_error_with_a_shape_error(build: Callable[..., Any]) -> None:
    with pytest.raises(CallbackError) as caught:
        reused_buffer(build)
    assert isinstance(caught.value.__cause__, zrt.errors.ShapeError)
