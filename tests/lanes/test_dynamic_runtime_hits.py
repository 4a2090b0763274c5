"""`DynamicRuntime`: a hit is one look-up, without shape arithmetic or allocation."""

from __future__ import annotations

import pytest

from tests.support import models
from zrt import DynamicRuntime, Session
from zrt.lanes import lane_shapes
from zrt.values import symbolic_shapes


class TestHits:
    @pytest.fixture
    def no_arithmetic(self, monkeypatch):
        """Returns a function; after its call, shape arithmetic and new lanes raise."""

        def refuse(*_, **__):
            raise AssertionError("shape arithmetic or a new lane")

        def forbid() -> None:
            for module, name in (
                (lane_shapes, "by_name"),
                (lane_shapes, "input_shapes"),
                (lane_shapes, "resolve"),
                (symbolic_shapes, "check"),
                (symbolic_shapes, "bind"),
                (symbolic_shapes, "solve"),
            ):
                monkeypatch.setattr(module, name, refuse)
            monkeypatch.setattr("zrt.lanes.runtime.Lane", refuse)

        return forbid

    @pytest.mark.parametrize(
        ("given", "output_shapes"),
        [
            ({"x": (4,)}, None),
            ([(4,)], None),
            (((4,),), None),
            ({"x": 4}, None),
            ({"x": (4,)}, {"indices": (1, 2)}),
            ([(4,)], [(1, 2)]),
        ],
    )
    def test_hit_does_no_shape_arithmetic(self, no_arithmetic, given, output_shapes):
        runtime = DynamicRuntime(Session(models.non_zero("n")))
        lane = runtime.lane(given, 0, output_shapes)
        no_arithmetic()
        for _ in range(2):
            assert runtime.lane(given, 0, output_shapes) is lane
        with pytest.raises(AssertionError, match="shape arithmetic or a new lane"):
            runtime.lane({"x": (5,)}, 0, output_shapes)

    def test_hit_allocates_nothing_and_calls_no_c_function(self, script):
        kept, none, calls, hits = script("dynamic_runtime_hits.py").stdout.split()
        assert (kept, calls, hits) == (none, "[]", "2600")
