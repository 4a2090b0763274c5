"""The field numbers of onnx.proto, for code that reads or writes models without the onnx package.

A class has the name of its message without "Proto"; `SparseTensorFields` is that of ``SparseTensorProto``.
"""

from __future__ import annotations


class Model:
    IR_VERSION = 1
    PRODUCER_NAME = 2
    PRODUCER_VERSION = 3
    DOMAIN = 4
    MODEL_VERSION = 5
    DOC_STRING = 6
    GRAPH = 7
    OPSET_IMPORT = 8
    METADATA_PROPS = 14
    FUNCTIONS = 25


class Function:
    NAME = 1
    NODE = 7
    DOC_STRING = 8
    DOMAIN = 10
    VALUE_INFO = 12
    METADATA_PROPS = 14


class OperatorSet:
    DOMAIN = 1
    VERSION = 2


class Graph:
    NODE = 1
    NAME = 2
    INITIALIZER = 5
    DOC_STRING = 10
    INPUT = 11
    OUTPUT = 12
    VALUE_INFO = 13
    SPARSE_INITIALIZER = 15
    METADATA_PROPS = 16


class SparseTensorFields:
    # Its values have the name.
    VALUES = 1
    INDICES = 2
    DIMS = 3


class Node:
    INPUT = 1
    OUTPUT = 2
    NAME = 3
    OP_TYPE = 4
    ATTRIBUTE = 5
    DOC_STRING = 6
    DOMAIN = 7
    METADATA_PROPS = 9


class Attribute:
    NAME = 1
    F = 2
    I = 3  # noqa: E741 (the proto's name)
    S = 4
    T = 5
    G = 6
    FLOATS = 7
    INTS = 8
    STRINGS = 9
    TENSORS = 10
    GRAPHS = 11
    DOC_STRING = 13
    TYPE = 20
    SPARSE_TENSOR = 22
    SPARSE_TENSORS = 23


class AttributeType:
    # The values of `Attribute.TYPE`.
    FLOAT = 1
    INT = 2
    STRING = 3
    GRAPH = 5
    INTS = 7
    STRINGS = 8
    GRAPHS = 10


class Tensor:
    DIMS = 1
    DATA_TYPE = 2
    FLOAT_DATA = 4
    INT32_DATA = 5
    STRING_DATA = 6
    INT64_DATA = 7
    NAME = 8
    RAW_DATA = 9
    DOUBLE_DATA = 10
    UINT64_DATA = 11
    DOC_STRING = 12
    EXTERNAL_DATA = 13
    DATA_LOCATION = 14


class DataLocation:
    # The values of `Tensor.DATA_LOCATION`.
    EXTERNAL = 1


class StringStringEntry:
    KEY = 1
    VALUE = 2


class ValueInfo:
    NAME = 1
    TYPE = 2
    DOC_STRING = 3
    METADATA_PROPS = 4


class Type:
    TENSOR_TYPE = 1
    SEQUENCE_TYPE = 4
    MAP_TYPE = 5


class TensorType:
    ELEM_TYPE = 1
    SHAPE = 2


class TensorShape:
    DIM = 1


class Dimension:
    DIM_VALUE = 1


class SequenceType:
    ELEM_TYPE = 1


class MapType:
    KEY_TYPE = 1
    VALUE_TYPE = 2
