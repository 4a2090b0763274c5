"""A small decoder with real attention and a cache of keys and values, as exporters write one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MOST_POSITIONS: Final = 4096

BATCH: Final = "batch_size"
STEPS: Final = "sequence_length"
PAST: Final = "past_sequence_length"
TOTAL: Final = "total_sequence_length"


def decoder(
    layers: int = 2,
    heads: int = 2,
    head: int = 8,
    width: int = 16,
    hidden: int = 0,
    words: int = 32,
    grouped: bool = False,
    seed: int = 0,
) -> onnx.ModelProto:
    """Logits [batch, steps, words] of tokens, after those whose keys and values are in the cache.

    `width` is that of the embedding, `hidden` that of the layer behind each attention (0 for none). The weights are
    random. Without a cache (a past of 0 steps) it is a plain causal decoder.

    The attention is made of ONNX's own operators, and the cache is a ``Concat``. With `grouped` it is ONNX Runtime's
    ``GroupQueryAttention``, which can write new steps into the memory of the cache.
    """
    return _Writer(layers, heads, head, width, hidden, words, grouped, seed).model()


class _Writer:
    def __init__(
        self, layers: int, heads: int, head: int, width: int, hidden: int, words: int, grouped: bool, seed: int
    ) -> None:
        self.grouped = grouped
        self.layers, self.heads, self.head = layers, heads, head
        self.width, self.hidden, self.words = width, hidden, words
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []

    def _weight(self, name: str, *shape: int) -> str:
        scale = 1 / np.sqrt(shape[0]) if len(shape) > 1 else 0.1
        array = (self._random.standard_normal(shape) * scale).astype(np.float32)
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def _constant(self, name: str, value: object, dtype: type = np.int64) -> str:
        self._weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def _node(self, kind: str, inputs: Iterable[str], output: str, **attributes: object) -> str:
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def _masks(self) -> str:
        """0 where a step may look, and a very small number elsewhere: [batch, 1, steps, total]."""
        for name, value in (("zero", 0), ("one", 1)):
            self._constant(name, value)
        for name, values in (("second", [1]), ("middle", [1, 2])):
            self._constant(name, values)
        self._constant("open", 0.0, np.float32)
        self._constant("shut", -1e9, np.float32)
        self._node("Shape", ["input_ids"], "ids_shape")
        self._node("Gather", ["ids_shape", "one"], "steps")
        self._node("Shape", ["attention_mask"], "mask_shape")
        self._node("Gather", ["mask_shape", "one"], "total")
        self._node("Sub", ["total", "steps"], "past")
        self._node("Range", ["zero", "total", "one"], "keys")
        self._node("Range", ["past", "total", "one"], "queries")
        self._node("Unsqueeze", ["queries", "second"], "queries_down")
        self._node("LessOrEqual", ["keys", "queries_down"], "causal")
        self._node("Cast", ["attention_mask"], "seen", to=TensorProto.BOOL)
        self._node("Unsqueeze", ["seen", "middle"], "seen_by_all")
        self._node("And", ["causal", "seen_by_all"], "allowed")
        return self._node("Where", ["allowed", "open", "shut"], "bias")

    def _heads_of(self, hidden: str, name: str) -> str:
        inner = self.heads * self.head
        flat = self._node("MatMul", [hidden, self._weight(f"{name}.w", self.width, inner)], f"{name}.flat")
        apart = self._node("Reshape", [flat, "heads_apart"], f"{name}.apart")
        return self._node("Transpose", [apart], name, perm=[0, 2, 1, 3])

    def _out(self, flat: str, name: str) -> str:
        weight = self._weight(f"{name}.out.w", self.heads * self.head, self.width)
        return self._node("MatMul", [flat, weight], f"{name}.attention")

    def _grouped_attention(self, hidden: str, layer: int) -> str:
        name, inner = f"layer{layer}", self.heads * self.head
        parts = [
            self._node("MatMul", [hidden, self._weight(f"{name}.{kind}.w", self.width, inner)], f"{name}.{kind}")
            for kind in ("query", "key", "value")
        ]
        caches = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        self._nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [*parts, *caches, "seqlens_k", "total_sequence_length"],
                [f"{name}.together", f"present.{layer}.key", f"present.{layer}.value"],
                domain="com.microsoft",
                num_heads=self.heads,
                kv_num_heads=self.heads,
            )
        )
        return self._out(f"{name}.together", name)

    def _attention(self, hidden: str, layer: int, bias: str) -> str:
        name = f"layer{layer}"
        query = self._heads_of(hidden, f"{name}.query")
        caches = []
        for kind in ("key", "value"):
            fresh = self._heads_of(hidden, f"{name}.{kind}")
            caches.append(
                self._node("Concat", [f"past_key_values.{layer}.{kind}", fresh], f"present.{layer}.{kind}", axis=2)
            )
        key, value = caches
        turned = self._node("Transpose", [key], f"{name}.turned", perm=[0, 1, 3, 2])
        scores = self._node("MatMul", [query, turned], f"{name}.scores")
        scaled = self._node("Mul", [scores, "scale"], f"{name}.scaled")
        biased = self._node("Add", [scaled, bias], f"{name}.biased")
        weights = self._node("Softmax", [biased], f"{name}.weights", axis=-1)
        mixed = self._node("MatMul", [weights, value], f"{name}.mixed")
        back = self._node("Transpose", [mixed], f"{name}.back", perm=[0, 2, 1, 3])
        flat = self._node("Reshape", [back, "heads_together"], f"{name}.together")
        return self._out(flat, name)

    def _norm(self, hidden: str, name: str) -> str:
        scale = self._constant(f"{name}.scale", np.ones(self.width), np.float32)
        return self._node("LayerNormalization", [hidden, scale], name)

    def model(self) -> onnx.ModelProto:
        bias = ""
        if not self.grouped:
            self._constant("heads_apart", [0, 0, self.heads, self.head])
            self._constant("heads_together", [0, 0, self.heads * self.head])
            self._constant("scale", 1 / np.sqrt(self.head), np.float32)
            bias = self._masks()
        words = self._node("Gather", [self._weight("words", self.words, self.width), "input_ids"], "embedded")
        places = self._node("Gather", [self._weight("places", MOST_POSITIONS, self.width), "position_ids"], "placed")
        hidden = self._node("Add", [words, places], "hidden")
        for layer in range(self.layers):
            normed = self._norm(hidden, f"layer{layer}.norm")
            attention = self._grouped_attention(normed, layer) if self.grouped else self._attention(normed, layer, bias)
            hidden = self._node("Add", [hidden, attention], f"layer{layer}.hidden")
            if self.hidden:
                name = f"layer{layer}.wide"
                normed = self._norm(hidden, f"{name}.norm")
                wide = self._node("MatMul", [normed, self._weight(f"{name}.in", self.width, self.hidden)], name)
                active = self._node("Relu", [wide], f"{name}.active")
                narrow = self._node(
                    "MatMul", [active, self._weight(f"{name}.out", self.hidden, self.width)], f"{name}.narrow"
                )
                hidden = self._node("Add", [hidden, narrow], f"{name}.hidden")
        last = self._norm(hidden, "last")
        self._node("MatMul", [last, self._weight("head", self.width, self.words)], "logits")
        numbers = [
            ("input_ids", STEPS),
            ("position_ids", STEPS),
            *([] if self.grouped else [("attention_mask", TOTAL)]),
        ]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [BATCH, size]) for name, size in numbers]
        if self.grouped:
            inputs.append(helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [BATCH]))
            inputs.append(helper.make_tensor_value_info("total_sequence_length", TensorProto.INT32, []))
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, STEPS, self.words])]
        for layer in range(self.layers):
            for kind in ("key", "value"):
                for side, name, size in ((inputs, "past_key_values", PAST), (outputs, "present", TOTAL)):
                    shape = [BATCH, self.heads, size, self.head]
                    side.append(helper.make_tensor_value_info(f"{name}.{layer}.{kind}", TensorProto.FLOAT, shape))
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)
