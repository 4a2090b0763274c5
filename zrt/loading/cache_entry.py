"""An entry of the cache: one file with an optimized graph, and with its large weights aligned for mapping.

The file begins with a page that has a checksum of all that follows and a description as JSON. The weights come next,
and the packed forms of weights that kernels compute with. The graph is last, and names the file itself as the place of
its weights.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import IO, Any

from zrt._common.onnx_fields import Graph, Tensor
from zrt._common.protobuf_writer import field as written
from zrt.errors import ModelError
from zrt.loading.initializers import Field, ModelFile, opened, pairs
from zrt.loading.model_source import Source

# ONNX Runtime maps from a page's start on, and kernels read packed weights by instructions for aligned memory.
ALIGNMENT = 64
PAGE = 4096
DIGEST = hashlib.sha256
DIGEST_SIZE = DIGEST().digest_size
_CHUNK = 1 << 20


def write(target: str, graph: str, weights: str, about: dict[str, Any]) -> None:
    """Writes the entry of the optimized model that ONNX Runtime wrote: a `graph`, and perhaps a file of `weights`."""
    with open(target, "xb") as file, Source(graph) as source, opened(source) as model:
        os.fchmod(file.fileno(), 0o600)
        file.seek(PAGE)
        if os.path.exists(weights):
            with open(weights, "rb") as outside:
                name = os.path.basename(target)
                content = model.with_messages(list(_moved(model, name, outside, file)))
        else:
            content = model.read(0, model.model.end)
        place = file.tell()
        file.write(content)
        write_head(file, {**about, "graph": [place, len(content)]})


def write_head(file: IO[bytes], about: dict[str, Any]) -> None:
    """Writes the first page over the finished rest, and waits for the disk: a rename follows."""
    file.seek(DIGEST_SIZE)
    # Escaped, each letter beyond ASCII would take more bytes. `json.loads` decodes surrogates in this way too.
    file.write(json.dumps(about, ensure_ascii=False).encode(errors="surrogatepass").ljust(PAGE - DIGEST_SIZE))
    file.flush()
    with open(file.name, "rb") as whole:
        checksum = digest(whole)
    file.seek(0)
    file.write(checksum)
    file.flush()
    os.fsync(file.fileno())


def content(file: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """The description and the graph of an entry whose checksum is right."""
    file.seek(DIGEST_SIZE)
    about: dict[str, Any] = json.loads(file.read(PAGE - DIGEST_SIZE))
    place, length = about.get("graph", (0, 0))
    file.seek(place)
    return about, file.read(length)


def digest(file: Any) -> bytes:
    """The checksum of an entry's bytes behind the checksum itself."""
    file.seek(DIGEST_SIZE)
    return hashlib.file_digest(file, DIGEST).digest()


def _moved(model: ModelFile, name: str, outside: IO[bytes], file: IO[bytes]) -> Iterator[tuple[Field, bytes]]:
    """Copies the weights outside the model into the entry; the messages that describe them there."""
    for graph in model.graphs():
        for tensor in model.messages(graph, Graph.INITIALIZER):
            parts = list(model.fields(tensor))
            places = dict(model.pair(part) for part in parts if part.number == Tensor.EXTERNAL_DATA)
            if not places:
                continue
            kept = [model.read(part.start, part.end) for part in parts if part.number != Tensor.EXTERNAL_DATA]
            places["offset"] = str(_copy(outside, int(places["offset"]), int(places["length"]), file))
            places["location"] = name
            for key in places:
                if key.startswith("prepacked"):
                    places[key] = _packed(places[key], outside, file)
            yield tensor, written(Graph.INITIALIZER, b"".join(kept) + pairs(Tensor.EXTERNAL_DATA, places))


def _packed(value: str, outside: IO[bytes], file: IO[bytes]) -> str:
    """ONNX Runtime's description of a packed weight, whose blobs are copied: ``key|offset;length;checksum|...``."""
    key, *blobs = value.split("|")
    for index, blob in enumerate(blobs):
        offset, length, checksum = blob.split(";")
        blobs[index] = f"{_copy(outside, int(offset), int(length), file)};{length};{checksum}"
    return "|".join([key, *blobs])


def _copy(outside: IO[bytes], offset: int, length: int, file: IO[bytes]) -> int:
    place = file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
    outside.seek(offset)
    left = length
    while left:
        data = outside.read(min(left, _CHUNK))
        if not data:
            raise ModelError("the weights end too soon")
        file.write(data)
        left -= len(data)
    return place
