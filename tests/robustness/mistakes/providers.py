"""The arguments `strict` and `allow`."""

import zrt
from tests.robustness.bad import LOADS
from tests.robustness.vocabulary import Bad, Kind
from zrt.errors import ProviderError

STRICT = [
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": 1}, "strict", "int 1"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": None}, "strict", "None"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": True, "allow": "Add"}, "allow", "'Add'"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": True, "allow": 5}, "allow", "5"),
    Bad(Kind.WRONG_TYPE, lambda w: {"strict": True, "allow": [5]}, "allow", "int 5"),
    Bad(Kind.WRONG_VALUE, lambda w: {"strict": True, "allow": ["a\0"]}, "allow", "NUL"),
    Bad(Kind.WRONG_VALUE, lambda w: {"strict": True, "allow": ["\ud800"]}, "allow", "UTF-8"),
    Bad(Kind.WRONG_VALUE, lambda w: {"allow": ["Add"]}, "allow", "strict=True"),
]
if "AzureExecutionProvider" in zrt.available_providers():
    STRICT += [
        Bad(Kind.WRONG_VALUE, lambda w, more=more: {"providers": ["azure"], "strict": True, **more}, "Add",
            error=ProviderError)
        for more in ({}, {"allow": ["Mul"]}, {"allow": ["com.microsoft::Add"]})
    ]  # fmt: skip

TAKES = [
    *((call, "strict", STRICT, lambda w, bad, do=do: do(w, **bad)) for call, do in LOADS.items()),
    # The other mistakes are found by the load.
    ("SessionSpec.__init__", "strict", STRICT[:7], lambda w, bad: zrt.SessionSpec(w.model, **bad)),
]
