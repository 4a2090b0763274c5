"""Find the two lines of a text that are most alike, by processes that have the weights of their model in memory once.

pip install tokenizers
python share_model.py minilm.onnx tokenizer.json lines.txt --processes 4
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tokenizers import Tokenizer

import zrt


def split(model: str, folder: Path) -> zrt.SessionSpec:
    """The recipe of a session over the model, whose weights get a file that all processes map."""
    zrt.save_optimized(model, folder / "model.onnx", weights_file="model.weights")
    # A kernel that packs its weights would have a copy of its own.
    entries = {zrt.SessionConfigKey.DISABLE_PREPACKING: "1"}
    return zrt.SessionSpec(folder / "model.onnx", zrt.SessionOptions(intra_op_num_threads=1, config_entries=entries))


def work(spec: zrt.SessionSpec, tokenizer: str, lines: list[str], parent: Connection) -> None:
    """A process: sends the vectors of these lines, and stays until the parent closes its end."""
    session, splitter = spec.shared(), Tokenizer.from_file(tokenizer)
    splitter.no_padding()
    vectors = [session.run([[one.ids], [one.attention_mask]])[0] for one in splitter.encode_batch(lines)]
    parent.send(np.concatenate(vectors))
    parent.poll(None)


def resident(pids: list[int | None], file: str) -> tuple[float, float]:
    """MB of a file in the memory of these processes: together, and as if each had its own."""
    maps = "".join(Path(f"/proc/{pid}/smaps").read_text("utf-8") for pid in pids)
    mappings = [mapping for mapping in re.split(r"^(?=[0-9a-f]+-)", maps, flags=re.MULTILINE) if file in mapping]
    together, apart = (
        sum(int(size) for mapping in mappings for size in re.findall(rf"^{field}: +(\d+) kB", mapping, re.MULTILINE))
        for field in ("Pss", "Rss")
    )
    return together / 1024, apart / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Find the two lines of a text that are most alike.")
    parser.add_argument("model", help="from input_ids and attention_mask to one vector for each text")
    parser.add_argument("tokenizer", help="its tokenizer.json")
    parser.add_argument("text", type=Path)
    parser.add_argument("--processes", type=int, default=2, help="default 2")
    arguments = parser.parse_args()
    try:
        lines = [line for line in arguments.text.read_text("utf-8").splitlines() if line.strip()]
        if len(lines) < 2:
            raise ValueError("expected two lines at least")
    except (OSError, ValueError) as error:
        sys.exit(f"{arguments.text}: {error}")
    count = max(1, min(arguments.processes, len(lines)))

    context = multiprocessing.get_context("forkserver")  # makes processes from one without a session
    with TemporaryDirectory() as folder:
        spec = split(arguments.model, Path(folder))
        processes, ends = [], []
        for number in range(count):
            end, other = context.Pipe()
            ends.append(end)
            job = (spec, arguments.tokenizer, lines[number::count], other)
            processes.append(context.Process(target=work, args=job, daemon=True))
            processes[-1].start()
            other.close()  # so that the end of the process ends the wait for its vectors
        try:
            parts = [end.recv() for end in ends]
        except EOFError:
            sys.exit("a process has failed")
        if sys.platform == "linux":
            together, apart = resident([process.pid for process in processes], folder)
            print(f"weights in memory: {together:.0f} MB; {apart:.0f} MB if {count} processes did not share them")
        for end, process in zip(ends, processes, strict=True):
            end.close()  # and so does this for the wait of the process
            process.join()

    vectors = np.empty((len(lines), parts[0].shape[1]))
    for number, part in enumerate(parts):
        vectors[number::count] = part
    alike = vectors @ vectors.T - 2 * np.eye(len(lines))
    first, second = np.unravel_index(alike.argmax(), alike.shape)
    print(f"{alike[first, second]:.2f}: {lines[first]} | {lines[second]}")


if __name__ == "__main__":
    main()
