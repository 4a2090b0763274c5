"""Runs in a second interpreter of the process, which sets `sys.path` and `ADD`: zrt works or cannot be imported."""

import warnings

warnings.simplefilter("ignore")
try:
    import numpy as np

    from zrt.session.session import Session
except ImportError:
    # An extension without support for several interpreters raises this; numpy does from the second one on.
    pass
else:
    feeds = {"x": np.ones(4, np.float32), "y": np.ones(4, np.float32)}
    session = Session(ADD)  # noqa: F821
    lane = session.lane({"x": 4, "y": 4})
    lane.run()
    view = lane.outputs["z"]
    assert session.run(feeds)[0].sum() == 8
