"""Eight threads import zrt and make the first session at the same time; prints the answer of each."""

import threading
from pathlib import Path

start = threading.Barrier(8)
answers = []


def answer():
    start.wait()
    import numpy as np

    import zrt

    model = Path(zrt.__file__).with_name("models") / "digits.onnx"
    [scores] = zrt.Session(model).run([np.full((1, 1, 8, 8), 0.5, np.float32)])
    answers.append(scores.argmax())


threads = [threading.Thread(target=answer) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*answers)
