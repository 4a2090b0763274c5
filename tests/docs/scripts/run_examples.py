"""Runs a page's examples, read from standard input as [page, [[line, source, raises], ...]], in one namespace.

Writes [outputs, failure] as JSON: the text that each example printed, and the line and the traceback of the first one
that failed, or null. An example that `raises` fails if it does not; its error, as Python shows it, ends its text.
"""

import contextlib
import io
import json
import signal
import sys
import traceback

# Python leaves SIGINT ignored where its parent had it so, as background jobs of a shell do.
signal.signal(signal.SIGINT, signal.default_int_handler)

page, examples = json.load(sys.stdin)
namespace = {"__name__": "__main__"}
outputs, failure = [], None
for line, source, raises in examples:
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            # Line breaks before the source give its lines their numbers on the page.
            exec(compile("\n" * (line - 1) + source, page, "exec"), namespace)
        if raises:
            failure = [line, "it raises no error"]
            break
    except BaseException as error:
        if raises:
            outputs.append(output.getvalue() + "".join(traceback.format_exception_only(error)))
            continue
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == page]
        failure = [lines[0] if lines else getattr(error, "lineno", None) or line, traceback.format_exc()]
        break
    outputs.append(output.getvalue())
json.dump([outputs, failure], sys.stdout)
