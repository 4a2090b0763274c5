"""Serve the vectors of texts over HTTP.

pip install starlette uvicorn tokenizers
python embedding_service.py minilm.onnx tokenizer.json
curl --json '{"texts": ["Good morning", "Hello"]}' http://127.0.0.1:8000/embed
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tokenizers import Tokenizer

import zrt

MOST_TEXTS, MOST_TOKENS = 64, 256
TIMEOUT = 5.0  # seconds, in which the wait for other requests counts


class Embedder:
    """A model with the tokenizer that it was trained with."""

    def __init__(self, model: str, tokenizer: str) -> None:
        # Requests run beside each other, so each run needs one thread only.
        self.session = zrt.Session(model, zrt.SessionOptions(intra_op_num_threads=1))
        self.tokenizer = Tokenizer.from_file(tokenizer)
        self.tokenizer.enable_truncation(MOST_TOKENS)
        self.tokenizer.enable_padding()

    async def vectors(self, texts: list[str]) -> np.ndarray:
        encoded = self.tokenizer.encode_batch(texts)
        feeds = {
            "input_ids": np.array([one.ids for one in encoded]),
            "attention_mask": np.array([one.attention_mask for one in encoded]),
        }
        # The event loop serves others meanwhile: the run is on a thread of zrt.
        vectors: np.ndarray = (await self.session.run_async(feeds, timeout=TIMEOUT))[0]
        return vectors


def as_texts(document: Any) -> list[str]:
    """The texts of a request; a ValueError says what is wrong with it."""
    texts = document.get("texts") if isinstance(document, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError('expected {"texts": [...]} with a list of strings')
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise ValueError(f'"texts": expected 1 to {MOST_TEXTS}, got {len(texts)}')
    "".join(texts).encode()  # JSON allows halves of characters, and the tokenizer does not
    return texts


def application(embedder: Embedder) -> Starlette:
    async def embed(request: Request) -> JSONResponse:
        try:
            vectors = await embedder.vectors(as_texts(await request.json()))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        except TimeoutError:
            return JSONResponse({"error": f"no answer within {TIMEOUT} s: too many requests"}, 503)
        return JSONResponse({"vectors": vectors.tolist()})

    return Starlette(routes=[Route("/embed", embed, methods=["POST"])])


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the vectors of texts over HTTP.")
    parser.add_argument("model", help="from input_ids and attention_mask to one vector for each text")
    parser.add_argument("tokenizer", help="its tokenizer.json")
    parser.add_argument("--port", type=int, default=8000, help="default 8000; 0 for any free one")
    arguments = parser.parse_args()
    embedder = Embedder(arguments.model, arguments.tokenizer)
    uvicorn.run(application(embedder), port=arguments.port)


if __name__ == "__main__":
    main()
