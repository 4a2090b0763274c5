"""Generate text with a decoder whose cache grows by a step in each run.

pip install onnx
python generate.py "row, row, row your boat, "
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import onnx

import zrt

CAPACITY = 256  # steps
BYTES = 256

# Attention as in a trained decoder, with one head. The weights are set, not trained: the key of a step is its place,
# and its query is the place of the byte that followed one period before, so that the model repeats a period for ever.
DECODER = f"""
<ir_version: 8, opset_import: ["" : 17]>
decoder (int64[1, new] input_ids, int64[1, new] position_ids,
         float[1, 1, past, {CAPACITY}] past_key_0, float[1, 1, past, {BYTES}] past_value_0)
    => (float[1, new, {BYTES}] logits,
        float[1, 1, total, {CAPACITY}] present_key_0, float[1, 1, total, {BYTES}] present_value_0) {{
    heads = Constant <value_ints = [1]> ()
    key = Gather(keys, position_ids)
    key_heads = Unsqueeze(key, heads)
    present_key_0 = Concat <axis = 2> (past_key_0, key_heads)
    value = Gather(values, input_ids)
    value_heads = Unsqueeze(value, heads)
    present_value_0 = Concat <axis = 2> (past_value_0, value_heads)
    query = Gather(queries, position_ids)
    query_heads = Unsqueeze(query, heads)
    keys_across = Transpose <perm = [0, 1, 3, 2]> (present_key_0)
    scores = MatMul(query_heads, keys_across)
    attention = Softmax <axis = -1> (scores)
    mixed = MatMul(attention, present_value_0)
    logits = Squeeze(mixed, heads)
}}
"""


def decoder(period: int) -> onnx.ModelProto:
    model = onnx.parser.parse_model(DECODER)
    places = np.eye(CAPACITY, dtype=np.float32)
    weights = {
        "keys": places,
        "queries": 100 * np.roll(places, period - 1, axis=0),
        "values": np.eye(BYTES, dtype=np.float32),
    }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def generate(session: zrt.Session, prompt: list[int], count: int) -> list[int]:
    """The tokens after the prompt, each the likeliest one."""
    cache = zrt.kv_cache(session, CAPACITY)
    prefill = session.lane({"input_ids": (1, len(prompt))}, state=cache)  # all of the prompt in one run
    step = session.lane({"input_ids": (1, 1)}, state=cache)
    state = step.new_state()

    prefill.inputs["input_ids"][...] = prompt
    prefill.run(state)
    tokens = [int(prefill.outputs["logits"][0, -1].argmax())]
    while len(tokens) < count:
        step.inputs["input_ids"][...] = tokens[-1]
        step.run(state)
        tokens.append(int(step.outputs["logits"].argmax()))
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate text with a decoder that repeats its prompt.")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=32, help="to generate; default 32")
    arguments = parser.parse_args()
    prompt = list(arguments.prompt.encode())
    if not prompt:
        parser.error("the prompt is empty")
    session = zrt.Session(decoder(len(prompt)))
    try:
        tokens = generate(session, prompt, arguments.tokens)
    except zrt.Error as error:
        sys.exit(str(error))
    print(bytes(tokens).decode(errors="replace"))


if __name__ == "__main__":
    main()
