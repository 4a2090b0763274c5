"""Looks for the parts that a provider library needs; prints them, and the error where one is raised."""

import json
import sys
from dataclasses import asdict

from zrt.environment import cuda_parts
from zrt.errors import ProviderError

provider = sys.argv[1]
try:
    cuda_parts.require(provider)
    error = None
except ProviderError as raised:
    error = str(raised)
print(json.dumps({"error": error, **asdict(cuda_parts.search(provider))}))
