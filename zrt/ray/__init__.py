"""Models on a cluster of Ray: `Scorer` puts the rows of its data sets through a model, `deployment` serves models.

``pip install "zrt-onnx[ray]"`` installs the packages that it needs.
"""

from zrt.ray.replicas import deployment
from zrt.ray.scorer import Scorer

__all__ = ["Scorer", "deployment"]
