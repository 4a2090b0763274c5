"""Changes what a reader reads, led by the code that each input reaches. Ends with an error at the first fault.

The arguments: the name of a reader, a folder of inputs to begin with, which gets those that reach new code, and options
of libFuzzer, such as ``-max_total_time=60``, or ``-merge=1`` and a folder for the fewest inputs that reach the same.
"""

import shlex
import sys
from pathlib import Path

import atheris

name, folder, *options = sys.argv[1:]
with atheris.instrument_imports(include=["zrt"]):
    from tests.robustness import readers

    reader = readers.READERS[name]
    begin = [*reader.examples(), *readers.kept(name)]
    for each in begin:
        readers.takes(name, each)

for index, each in enumerate(begin):
    (Path(folder) / f"begin-{index}").write_bytes(each)
# By this command libFuzzer starts itself for a merge.
command = shlex.join([sys.executable, "-P", *sys.argv[:3]])
arguments = [command, *options, f"-max_len={reader.most}", "-rss_limit_mb=2048", "-timeout=20", folder]
atheris.Setup(arguments, lambda data: readers.takes(name, data))
atheris.Fuzz()
