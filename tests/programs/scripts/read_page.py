"""RapidOCR over a page drawn here, in the version of `rapidocr-onnxruntime`: prints boxes, texts and scores as JSON."""

import json

from page import draw
from rapidocr_onnxruntime import RapidOCR

lines, _ = RapidOCR()(draw())
print(json.dumps(lines))
