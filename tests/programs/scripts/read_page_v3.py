"""RapidOCR over a page drawn here, in the version of `rapidocr`: prints texts, scores and boxes as JSON."""

import json

from page import draw
from rapidocr import RapidOCR

read = RapidOCR()(draw())
print(json.dumps([read.txts, read.scores, read.boxes.tolist()]))
