"""Asynchronous runs of strings, and of custom operators that wait for other runs."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

import zrt
from tests.support.models import LOOP
from zrt import CustomOp, CustomOpDomain, errors

QUIET = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
X = np.arange(4, dtype=np.float32)

pytestmark = pytest.mark.usefixtures("no_run_left")


class Waits(CustomOp):
    """An operator that waits for a run in the background, and ends it if it cannot."""

    inputs = outputs = ("float32",)

    def __init__(self, session, feeds):
        self.session, self.feeds = session, feeds

    def compute(self, context):
        options = zrt.RunOptions()
        future = self.session.submit(self.feeds, options=options)
        try:
            future.result()
        finally:
            options.terminate()


def test_operator_cannot_wait_for_another_run(build, endless):
    """Each thread for runs may be in such an operator, and none is left for the runs that they wait for."""
    operator = Waits(zrt.Session(build(LOOP), QUIET), endless)
    options = replace(QUIET, custom_ops=[CustomOpDomain("my.ops", [operator])])
    session = zrt.Session(build("(float[n] x) => (float[n] y) { y = my.ops.Waits(x) }"), options)
    with pytest.raises(errors.CallbackError, match="an operator that a run calls cannot wait") as caught:
        session.submit([X]).result(60)
    assert isinstance(caught.value.__cause__, errors.UnsupportedError)
    with pytest.raises(errors.CallbackError, match="an operator that a run calls cannot wait"):
        asyncio.run(session.run_async([X]))


class TestStrings:
    """Strings are checked and converted in the caller's thread, whichever runs came before."""

    @pytest.fixture
    def copy(self, build):
        session = zrt.Session(build("(string[n] x) => (string[n] y) { y = Identity(x) }"), QUIET)
        for _ in range(2):
            session.run([np.array(["a", "b"], object)])
        return session

    @pytest.mark.parametrize("dtype", [object, "<U3", "S3", np.dtypes.StringDType()], ids=str)
    def test_each_kind_of_strings_runs(self, copy, dtype):
        feed = np.array(["a", "b"]).astype(dtype)
        assert copy.submit([feed]).result(60)[0].tolist() == ["a", "b"]
        assert asyncio.run(copy.run_async([feed]))[0].tolist() == ["a", "b"]

    def test_wrong_element_raises_at_once(self, copy):
        with pytest.raises(errors.DTypeError, match="element 1: expected a str"):
            copy.submit([np.array(["a", None], object)])
