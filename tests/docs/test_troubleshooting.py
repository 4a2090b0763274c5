"""docs/troubleshooting.md: each heading under "By message" is a part of the message that its example provokes.

`test_docs.py` runs the examples and compares what they print with the texts below them.
"""

import re

import pytest

from tests.docs.test_docs import DOCS, examples
from zrt import errors

_, _, MESSAGES = (DOCS / "troubleshooting.md").read_text("utf-8").partition("\n## By message\n")
_, *ENTRIES = re.split(r"^#### ", MESSAGES, flags=re.MULTILINE)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.partition("\n")[0].strip("`"))
def test_heading_is_in_the_message_that_the_example_provokes(entry: str) -> None:
    heading, _, body = entry.partition("\n")
    [(_, shown)] = examples(body)
    assert shown is not None
    assert heading.strip("`") in shown.body


def test_messages_are_of_classes_that_exist() -> None:
    names = set(re.findall(r"^zrt\.errors\.(\w+): ", MESSAGES, re.MULTILINE))
    assert len(names) > 15
    assert names <= {*errors.__all__}
