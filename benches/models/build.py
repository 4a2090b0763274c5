"""Builds the ONNX models that benchmarks and tests run.

Every function gives the same model each time it is called, and none of them needs zrt: the same models serve
the other bindings the benchmarks compare with. `python -m benches.models.build FOLDER` writes them to files.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = [
    "MODELS",
    "REAL_ARCHITECTURES",
    "add",
    "cnn",
    "mlp",
    "real_architecture",
    "real_architectures",
    "relay",
    "with_external_weights",
]

KIB = 1024
MIB = 1024 * KIB

REAL_ARCHITECTURES = ("squeezenet", "shufflenet", "inception_v1", "resnet50")
"""The names that `real_architecture` takes, the smallest first; all read one image, float32 [1, 3, 224, 224]."""


def add(size: int = 4) -> onnx.ModelProto:
    """`z = x + y`, all float32 [size]: as little work as a model can be, so what is measured is the call."""
    return _model(
        "add",
        nodes=[helper.make_node("Add", ["x", "y"], ["z"])],
        inputs=[_floats("x", [size]), _floats("y", [size])],
        outputs=[_floats("z", [size])],
    )


def cnn(batch: int | str = "batch") -> onnx.ModelProto:
    """An MNIST-size convolutional net: `image` float32 [batch, 1, 28, 28] -> `logits` float32 [batch, 10].

    The weights are random. A string as `batch` makes the dimension symbolic.
    """
    weights = np.random.default_rng(28)
    nodes = [
        helper.make_node("Conv", ["image", "conv1.w", "conv1.b"], ["conv1"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool1", "conv2.w", "conv2.b"], ["conv2"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], kernel_shape=[3, 3], strides=[3, 3]),
        helper.make_node("Flatten", ["pool2"], ["features"]),
        helper.make_node("Gemm", ["features", "dense.w", "dense.b"], ["logits"], transB=1),
    ]
    return _model(
        "cnn",
        nodes=nodes,
        inputs=[_floats("image", [batch, 1, 28, 28])],
        outputs=[_floats("logits", [batch, 10])],
        initializers=[
            _random("conv1.w", (8, 1, 5, 5), weights),
            _random("conv1.b", (8,), weights),
            _random("conv2.w", (16, 8, 5, 5), weights),
            _random("conv2.b", (16,), weights),
            _random("dense.w", (10, 16 * 4 * 4), weights),
            _random("dense.b", (10,), weights),
        ],
    )


def relay(nbytes: int) -> onnx.ModelProto:
    """`y = x + 1` over a float32 vector of `nbytes`: one pass over memory, beside which a copy shows."""
    if nbytes <= 0 or nbytes % 4:
        raise ValueError(f"nbytes must be a positive multiple of 4 (float32), not {nbytes}")
    return _model(
        "relay",
        nodes=[helper.make_node("Add", ["x", "one"], ["y"])],
        inputs=[_floats("x", [nbytes // 4])],
        outputs=[_floats("y", [nbytes // 4])],
        initializers=[numpy_helper.from_array(np.array(1, np.float32), "one")],
    )


def mlp(width: int = 512, depth: int = 8, seed: int = 0, batch: int | str = "batch") -> onnx.ModelProto:
    """`depth` layers of MatMul, Add, Relu: `x` float32 [batch, width] -> `y` float32 [batch, width].

    Its weights take `4 * width * (width + 1) * depth` bytes, nearly all in MatMul's constant matrices, which
    ONNX Runtime repacks at load: what a test of shared weights has to look at.
    """
    weights = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    initializers: list[TensorProto] = []
    previous = "x"
    for layer in range(depth):
        result = "y" if layer == depth - 1 else f"layer{layer}"
        nodes += [
            helper.make_node("MatMul", [previous, f"layer{layer}.w"], [f"layer{layer}.product"]),
            helper.make_node("Add", [f"layer{layer}.product", f"layer{layer}.b"], [f"layer{layer}.sum"]),
            helper.make_node("Relu", [f"layer{layer}.sum"], [result]),
        ]
        initializers += [
            _random(f"layer{layer}.w", (width, width), weights),
            _random(f"layer{layer}.b", (width,), weights),
        ]
        previous = result
    return _model(
        "mlp",
        nodes=nodes,
        inputs=[_floats("x", [batch, width])],
        outputs=[_floats("y", [batch, width])],
        initializers=initializers,
    )


def real_architecture(name: str = "squeezenet") -> onnx.ModelProto:
    """A published network out of the onnx package's test data, with random weights in place of the trained.

    The onnx package leaves the weights out and fills each with one constant, under which every image gives
    the same output. Random weights make the output depend on the image, so that a result can be checked.
    """
    if name not in REAL_ARCHITECTURES:
        raise ValueError(f"no architecture {name!r}; there are {', '.join(REAL_ARCHITECTURES)}")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load_model(folder / f"light_{name}.onnx")
    model.ir_version = 10
    _keep_initializers_constant(model.graph)
    _randomize_weights(model.graph)
    onnx.checker.check_model(model)
    return model


def real_architectures() -> dict[str, onnx.ModelProto]:
    """Every architecture that `real_architecture` knows, by name."""
    return {name: real_architecture(name) for name in REAL_ARCHITECTURES}


def with_external_weights(model: onnx.ModelProto, folder: Path) -> Path:
    """Writes `model` into `folder` with its weights in a file beside it, and gives the model's path.

    Tensors under 1 KiB stay in the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{model.graph.name}.onnx"
    weights = path.with_suffix(".weights")
    weights.unlink(missing_ok=True)  # onnx appends to a file that is there
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # saving moves the weights out of the very object it is given
    onnx.save_model(copy, path, save_as_external_data=True, location=weights.name)
    return path


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "add": add,
    "cnn": cnn,
    "relay-256KiB": lambda: relay(256 * KIB),
    "relay-4MiB": lambda: relay(4 * MIB),
    "relay-16MiB": lambda: relay(16 * MIB),
    "relay-64MiB": lambda: relay(64 * MIB),
    "mlp": mlp,
    "squeezenet": real_architecture,
}
"""The models that the command writes, by file name."""


def _floats(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _random(name: str, shape: tuple[int, ...], source: np.random.Generator) -> TensorProto:
    """A float32 initializer, scaled so that activations neither grow nor vanish from layer to layer."""
    values = source.standard_normal(shape, np.float32)
    if len(shape) == 1:
        values *= np.float32(0.1)
    else:
        # A convolution's and a transposed Gemm's weight has the outputs first; a MatMul's here is square.
        values *= np.float32(math.sqrt(2 / math.prod(shape[1:])))
    return numpy_helper.from_array(values, name)


def _randomize_weights(graph: onnx.GraphProto) -> None:
    """Puts a random initializer in the place of every ConstantOfShape that stands in for a weight."""
    source = np.random.default_rng(224)
    shapes = {tensor.name: tensor for tensor in graph.initializer}
    stand_ins = [node for node in graph.node if node.op_type == "ConstantOfShape" and node.input[0] in shapes]
    variances = {node.input[4] for node in graph.node if node.op_type == "BatchNormalization"}
    scales = {node.input[1] for node in graph.node if node.op_type == "BatchNormalization"}
    for node in stand_ins:
        shape = tuple(int(size) for size in numpy_helper.to_array(shapes[node.input[0]]))
        if node.output[0] in variances | scales:
            # A variance must be positive. A scale below 1 keeps sums of branches from growing block by block,
            # which would end in a softmax that is 1 for one class, whatever the image.
            low, high = (0.5, 1.5) if node.output[0] in variances else (0.25, 0.75)
            values = source.uniform(low, high, shape).astype(np.float32)
            weight = numpy_helper.from_array(values, node.output[0])
        else:
            weight = _random(node.output[0], shape, source)
        graph.initializer.append(weight)
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in used]:
        graph.initializer.remove(tensor)


def _keep_initializers_constant(graph: onnx.GraphProto) -> None:
    """Takes the initializers out of the inputs.

    Before IR version 4 they had to be there. Since then it makes them defaults that a caller may override,
    which ONNX Runtime can neither fold nor repack.
    """
    weights = {tensor.name for tensor in graph.initializer}
    for value in [value for value in graph.input if value.name in weights]:
        graph.input.remove(value)


def _model(
    name: str,
    *,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Iterable[TensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, ir_version=10, opset_imports=opsets, producer_name="zrt")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the benchmark models as .onnx files.")
    parser.add_argument("folder", type=Path, help="where to write them; made if missing")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in MODELS.items():
        path = folder / f"{name}.onnx"
        onnx.save_model(build(), path)
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
