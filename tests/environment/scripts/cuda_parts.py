"""Looks for the parts that a provider library needs; prints them, and the error where one is raised.

NVIDIA's Python packages are those in the library's folder, not those of this Python.
"""

import json
import os
import sys

from zrt.environment import cuda_parts
from zrt.errors import ProviderError

provider = sys.argv[1]
packages = [folder for folder in cuda_parts.nvidia_folders() if folder.startswith(os.path.dirname(provider))]
cuda_parts.nvidia_folders = lambda: iter(packages)
try:
    cuda_parts.require(provider)
    error = None
except ProviderError as raised:
    error = str(raised)
print(json.dumps({"error": error, **cuda_parts.search(provider).to_dict()}))
