"""A `DynamicRuntime` asked for shapes that it has: a look-up, and nothing is worked out or allocated."""

from __future__ import annotations

import pytest

from tests.support import models
from zrt import DynamicRuntime, Session
from zrt.lanes import lane_shapes
from zrt.values import symbolic_shapes


class TestHits:
    @pytest.fixture
    def no_arithmetic(self, monkeypatch):
        """From here on neither shapes nor lanes may be worked out."""

        def refuse(*_, **__):
            raise AssertionError("a hit worked something out")

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
    def test_a_hit_does_no_shape_arithmetic(self, no_arithmetic, given, output_shapes):
        runtime = DynamicRuntime(Session(models.non_zero("n")))
        lane = runtime.lane(given, 0, output_shapes)
        no_arithmetic()
        for _ in range(2):
            assert runtime.lane(given, 0, output_shapes) is lane
        with pytest.raises(AssertionError, match="a hit worked something out"):
            runtime.lane({"x": (5,)}, 0, output_shapes)

    def test_a_hit_keeps_nothing_and_allocates_nothing_in_c(self, python):
        code = """
            import sys
            from itertools import repeat
            import zrt
            from tests.support import models
            from zrt._native import library

            calls = []

            class Watched:
                def __getattr__(self, name):
                    calls.append(name)
                    return getattr(table, name)

            runtime = zrt.DynamicRuntime(zrt.Session(models.double()), 2)
            runtime.lane({"x": (2, 4)}), runtime.lane({"x": (3, 4)})
            table = library.api()
            for module in [module for name, module in sys.modules.items() if name.startswith("zrt")]:
                if hasattr(module, "api"):
                    module.api = Watched
                if hasattr(module, "lib"):
                    module.lib = Watched()

            def blocks(count):
                before = sys.getallocatedblocks()
                for _ in repeat(None, count):
                    runtime.lane({"x": (2, 4)}, 1)
                    runtime.lane({"x": (3, 4)})
                return sys.getallocatedblocks() - before

            # The counter of hits outgrows the small ints first, and from then on is one block.
            blocks(300)
            print(blocks(1000), blocks(0), calls, runtime.counters.hits)
        """
        kept, none, calls, hits = python(code).stdout.split()
        assert (kept, calls, hits) == (none, "[]", "2600")
