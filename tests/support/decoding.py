"""A small decoder, and its logits without a cache and from a lane."""

import numpy as np

import zrt
from benches.models.decoder import decoder
from zrt import Session, SessionOptions

LAYERS, HEADS, HEAD, WORDS = 2, 2, 8, 32
CACHES = [f"past_key_values.{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]


def decoder_session(*, grouped: bool = False) -> Session:
    options = SessionOptions(log_severity_level="ERROR", intra_op_num_threads=1)
    return Session(decoder(LAYERS, HEADS, HEAD, words=WORDS, grouped=grouped), options)


def plain(session: Session, tokens: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """The logits of each step, without a cache."""
    mask = np.ones_like(tokens) if mask is None else mask
    positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    empty = {name: np.zeros((len(tokens), HEADS, 0, HEAD), np.float32) for name in CACHES}
    return session.run({"input_ids": tokens, "attention_mask": mask, "position_ids": positions, **empty})[0]


def tokens(count: int, rows: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, WORDS, (rows, count))


def step(lane: zrt.StatefulLane, ids: np.ndarray, state: zrt.State | None = None) -> np.ndarray:
    """The logits after these tokens."""
    lane.inputs["input_ids"][...] = ids
    lane.run(state)
    return lane.outputs["logits"].copy()
