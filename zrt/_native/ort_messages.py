"""The failures that zrt recognizes by ONNX Runtime's words, because its error codes do not tell them apart."""

from __future__ import annotations

import errno
import re
from typing import NamedTuple

from zrt.errors import (
    BY_CODE,
    FailError,
    MemoryLimitError,
    ModelLoadCanceledError,
    NoSuchFileError,
    OrtError,
    TerminatedError,
)


class OrtMessage(NamedTuple):
    """Words of ONNX Runtime's as a regular expression, and the versions in which tests have seen them."""

    words: str
    seen_in: tuple[str, ...]

    def matches(self, error: object) -> bool:
        """Whether an error, or its message, has these words."""
        return self.search(error) is not None

    def search(self, error: object) -> re.Match[str] | None:
        """The words in an error or its message, if they are there."""
        return re.search(self.words, str(error), re.DOTALL)


FILE_REFUSED = OrtMessage(
    r'(?s)\A(?:Deserialize tensor .* failed\.)?\w+ file ".*" failed: |SystemError : \d+\s*\Z', ("1.27.0", "1.32.0")
)
"""The system refuses a file, or to map it: the code is errno, which an `OrtErrorCode` may have as its number too."""

LOAD_CANCELED = OrtMessage("canceled (?:due to|by) user request", ("1.27.0", "1.32.0"))
"""A load was canceled: the code is ``ORT_MODEL_LOAD_CANCELED`` in some places, that of any failure in others."""

RUN_TERMINATED = OrtMessage("terminate flag", ("1.27.0", "1.32.0"))
"""`RunOptions.terminate` ended a run: the code is ``ORT_FAIL``."""

NO_ROOM = OrtMessage(r"Available memory of \d+ is smaller than requested bytes of (\d+)", ("1.27.0", "1.32.0"))
"""An arena would exceed its limit: the code is that of the place that asks, ``ORT_FAIL`` in a node."""

IN_A_NODE = OrtMessage(r".*while running (\S+) node\. Name:'(.*?)'", ("1.27.0", "1.32.0"))
"""The operator and the name of the node that fails; the innermost one, where it is in a loop or a branch."""

WRONG_OUTPUT_SHAPE = OrtMessage("output OrtValue provided for output", ("1.27.0", "1.32.0"))
"""An output has another shape than the memory that is bound for it: the code is ``ORT_INVALID_ARGUMENT``."""

SPARSE_OUTPUT = OrtMessage("Unsupported type proto value case", ("1.27.0", "1.32.0"))
"""An output that is declared dense is sparse, and dense memory is bound for it: the code is ``ORT_FAIL``."""

COMPUTED_OUTPUT_SHAPE = OrtMessage(
    r"provided for output '(.*?)' of node .* for this run is \{(.*?)\}", ("1.27.0", "1.32.0")
)
"""The output's name and the shape that the run computes for it, in the message of `WRONG_OUTPUT_SHAPE`."""

ABOUT_SHAPES = OrtMessage(r"(?i)dim|shape|rank|broadcast|channel|same length|multiple of", ("1.27.0", "1.32.0"))
"""A kernel refuses the shapes of its inputs: each kernel has its own words, and its own code."""

IN_A_BRANCH = OrtMessage("while running If node", ("1.27.0", "1.32.0"))
"""A node in a branch of an ``If`` fails, which other data might not have chosen."""

REUSED_BUFFER = OrtMessage("re-use buffer", ("1.27.0", "1.32.0"))
"""A kernel asks for an output whose size is not that of the buffer which the session planned for it."""

NEWER_MODEL = OrtMessage(r"model IR version: \d+, max supported IR version: (?P<newest>\d+)", ("1.27.0", "1.32.0"))
"""A model has a newer IR version than the library reads."""

NEWER_OPSET = OrtMessage(r"official support for domain \S+ is till opset (?P<newest>\d+)", ("1.27.0", "1.32.0"))
"""A model imports a newer version of ONNX's operators than the library reads."""

UNKNOWN_OPERATOR = OrtMessage(r"No Op registered for|is not a registered function/op", ("1.27.0", "1.32.0"))
"""A library does not know an operator, or not in this version of its domain."""

WEIGHTS_ELSEWHERE = OrtMessage(
    r"External data path validation failed for initializer: (?P<weight>.*?)\. Error: ", ("1.27.0", "1.32.0")
)
"""The file of an external weight is refused: the code is ``ORT_FAIL``."""

LORA_TYPE = OrtMessage(
    r"Lora Param '(?P<name>.*)': data_type '(?P<type>\d+)' is not a supported LoRA parameter type", ("1.30.0", "1.32.0")
)
"""A parameter of an adapter is of a type that adapters cannot have: the code is ``ORT_FAIL``."""

NOT_IN_BUILD = OrtMessage("not supported in this build", ("1.27.0", "1.32.0"))
"""A function of the C API exists, and the execution provider that it adds was left out of the library."""


def declares_wrongly(error: object) -> bool:
    """Whether a run failed because an output does not fit the memory that its declaration calls for."""
    return WRONG_OUTPUT_SHAPE.matches(error) or SPARSE_OUTPUT.matches(error)


def to_error(code: int, message: str) -> OrtError:
    """The exception for an ``OrtErrorCode`` and its message; a code of a later release becomes `OrtError`."""
    if FILE_REFUSED.matches(message):
        code = NoSuchFileError.code if code == errno.ENOENT else FailError.code
    elif LOAD_CANCELED.matches(message):
        code = ModelLoadCanceledError.code
    room = NO_ROOM.search(message)
    if room is not None:
        return _no_room(code, message, int(room[1]))
    kind = BY_CODE.get(code, OrtError)
    if kind is FailError and RUN_TERMINATED.matches(message):
        kind = TerminatedError
    error = kind(message.strip())
    error.code, error.ort_message = code, message
    return error


def _no_room(code: int, message: str, requested: int) -> MemoryLimitError:
    node = IN_A_NODE.search(message)
    name = "" if node is None else node[2]
    asking = (
        "ONNX Runtime" if node is None else f"{node[1]} node {name!r}" if name else f"a {node[1]} node without a name"
    )
    error = MemoryLimitError(f"{asking} asks for {requested:,} bytes more, and the limit of the arena leaves no room")
    error.code, error.ort_message = code, message
    error.requested, error.node = requested, name
    return error
