"""onnxruntime-genai generates tokens with a model of one layer, made here, and onnxruntime runs the same file."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime_genai
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS = 16, 8, 2
HEAD = WIDTH // HEADS
KINDS = ("key", "value")

random = np.random.default_rng(6)


def weights(name, *shape):
    return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)


def numbers(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


nodes = [helper.make_node("Gather", ["words", "input_ids"], ["x"])]
for kind in KINDS:
    nodes += [
        helper.make_node("MatMul", ["x", f"to_{kind}"], [f"{kind}_rows"]),
        helper.make_node("Reshape", [f"{kind}_rows", "heads"], [f"{kind}_heads"]),
        helper.make_node("Transpose", [f"{kind}_heads"], [f"{kind}_new"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", [f"past.0.{kind}", f"{kind}_new"], [f"present.0.{kind}"], axis=2),
        helper.make_node("ReduceMean", [f"present.0.{kind}", "times"], [f"{kind}_mean"], keepdims=0),
        helper.make_node("Reshape", [f"{kind}_mean", "row"], [f"{kind}_row"]),
    ]
nodes += [
    helper.make_node("Sum", ["x", "key_row", "value_row"], ["mixed"]),
    helper.make_node("MatMul", ["mixed", "to_words"], ["logits"]),
]
pasts = [(f"past.0.{kind}", f"present.0.{kind}") for kind in KINDS]
graph = helper.make_graph(
    nodes,
    "generate",
    [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "new"])]
    + [helper.make_tensor_value_info(past, TensorProto.FLOAT, ["batch", HEADS, "past", HEAD]) for past, _ in pasts],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "new", VOCABULARY])]
    + [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", HEADS, "all", HEAD]) for _, name in pasts],
    [
        weights("words", VOCABULARY, WIDTH),
        weights("to_key", WIDTH, WIDTH),
        weights("to_value", WIDTH, WIDTH),
        weights("to_words", WIDTH, VOCABULARY),
        numbers("heads", 0, 0, HEADS, HEAD),
        numbers("times", 2),
        numbers("row", 0, 1, WIDTH),
    ],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.save(model, "model.onnx")
decoder = {
    "filename": "model.onnx",
    "head_size": HEAD,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "num_key_value_heads": HEADS,
    "session_options": {"intra_op_num_threads": 1, "provider_options": []},
    "inputs": {"input_ids": "input_ids", "past_key_names": "past.%d.key", "past_value_names": "past.%d.value"},
    "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
}
config = {"bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0, "context_length": 64, "vocab_size": VOCABULARY}
search = {"do_sample": False, "max_length": 20, "past_present_share_buffer": False}
text = json.dumps({"model": {**config, "type": "llama", "decoder": decoder}, "search": search})
Path("genai_config.json").write_text(text)


def generated():
    parameters = onnxruntime_genai.GeneratorParams(language_model)
    parameters.set_search_options(max_length=20)
    generator = onnxruntime_genai.Generator(language_model, parameters)
    generator.append_tokens(np.array([[1, 2, 3]], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return generator.get_sequence(0).tolist()


def chosen():
    empty = np.zeros((1, HEADS, 0, HEAD), np.float32)
    feeds = {"input_ids": np.array([[1, 2, 3]]), **{past: empty for past, _ in pasts}}
    return int(session.run(["logits"], feeds)[0][0, -1].argmax())


language_model = onnxruntime_genai.Model(".")
tokens = generated()
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
assert chosen() == tokens[3]
assert generated() == tokens

if sys.platform == "linux":
    maps = Path("/proc/self/maps").read_text("utf-8").splitlines()
    assert len({line.split()[-1] for line in maps if "/libonnxruntime.so" in line}) == 1
print(json.dumps(tokens))
