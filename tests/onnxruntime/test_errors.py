"""The exceptions: their classes, and their messages with ONNX Runtime's code and words."""

import pickle
from typing import Any

import pytest

from zrt import errors as zrt_errors
from zrt.onnxruntime import errors

CODES = {
    "Fail": (1, "FAIL"),
    "InvalidArgument": (2, "INVALID_ARGUMENT"),
    "NoSuchFile": (3, "NO_SUCHFILE"),
    "NoModel": (4, "NO_MODEL"),
    "EngineError": (5, "ENGINE_ERROR"),
    "RuntimeException": (6, "RUNTIME_EXCEPTION"),
    "InvalidProtobuf": (7, "INVALID_PROTOBUF"),
    "ModelLoaded": (8, "MODEL_LOADED"),
    "NotImplemented": (9, "NOT_IMPLEMENTED"),
    "InvalidGraph": (10, "INVALID_GRAPH"),
    "EPFail": (11, "EP_FAIL"),
    "ModelLoadCanceled": (12, "MODEL_LOAD_CANCELED"),
    "ModelRequiresCompilation": (13, "MODEL_REQUIRES_COMPILATION"),
    "NotFound": (14, "NOT_FOUND"),
}


@pytest.mark.parametrize("name", CODES)
def test_exceptions_derive_from_exception_alone_and_can_be_pickled(state: Any, name: str) -> None:
    kind = getattr(state, name)
    assert kind.__mro__ == (kind, Exception, BaseException, object)
    error = pickle.loads(pickle.dumps(kind("words")))
    assert type(error) is kind
    assert error.args == ("words",)


@pytest.mark.parametrize("name", CODES)
def test_translate_gives_the_class_and_the_message_of_a_code(name: str) -> None:
    code, word = CODES[name]
    error = zrt_errors.BY_CODE[code]("model 'a.onnx': the words")
    error.ort_message = "the words"
    translated = errors.translate(error)
    assert type(translated) is getattr(errors, name)
    assert str(translated) == f"[ONNXRuntimeError] : {code} : {word} : the words"


def test_translate_finds_the_cause_of_a_sentence_of_zrt() -> None:
    error = zrt_errors.ModelError("the model is newer")
    error.__cause__ = zrt_errors.InvalidGraphError("the words")
    assert str(errors.translate(error)) == "[ONNXRuntimeError] : 10 : INVALID_GRAPH : the words"


def test_translate_of_an_unknown_code_is_a_runtime_error() -> None:
    error = zrt_errors.OrtError("the words")
    error.code = 99
    translated = errors.translate(error)
    assert type(translated) is RuntimeError
    assert str(translated) == "[ONNXRuntimeError] : 99 : GENERAL ERROR : the words"


def test_translated_keeps_zrt_error_as_the_cause() -> None:
    cause = zrt_errors.FailError("the words")
    with pytest.raises(errors.Fail) as caught, errors.translated():
        raise cause
    assert caught.value.__cause__ is cause
    with pytest.raises(zrt_errors.ArgumentError), errors.translated():
        raise zrt_errors.ArgumentError("no")
