"""`zrt.values.symbolic_shapes`: symbolic dimensions that are resolved from the shapes of feeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zrt.errors import ShapeError
from zrt.types import ElementType, ValueKind
from zrt.values import symbolic_shapes
from zrt.values.type_info import ValueInfo


def info(*shape: int | str | None, name: str = "x") -> ValueInfo:
    return ValueInfo(name, ValueKind.TENSOR, ElementType.FLOAT, shape)


OPEN_RANK = ValueInfo("x", ValueKind.TENSOR, ElementType.FLOAT, None)


class TestCheck:
    @pytest.mark.parametrize(
        ("declared", "shape"),
        [
            (info(), ()),
            (info(2, 3), (2, 3)),
            (info("n", 3), (0, 3)),
            (info(None, "n"), (5, 7)),
            (info("n", "n"), (1, 2)),
            (OPEN_RANK, ()),
            (OPEN_RANK, (1, 2, 3)),
        ],
    )
    def test_matching_shapes_pass(self, declared, shape):
        symbolic_shapes.check(declared, shape, "input 'x'")

    @pytest.mark.parametrize(
        ("declared", "shape", "message"),
        [
            (info(2, 3), (2, 4), r"expected shape \[2, 3\], got \[2, 4\]"),
            (info(2), (2, 1), r"expected shape \[2\], got \[2, 1\]"),
            (info("n", None, 3), (1, 3), r"expected shape \[n, \?, 3\], got \[1, 3\]"),
            (info(), (1,), r"expected shape \[\], got \[1\]"),
            (info(0), (1,), r"expected shape \[0\], got \[1\]"),
        ],
    )
    def test_refused(self, declared, shape, message):
        with pytest.raises(ShapeError, match=f"input 'x': {message}"):
            symbolic_shapes.check(declared, shape, "input 'x'")


class TestBind:
    def test_names_get_their_sizes(self):
        assert symbolic_shapes.bind([info("a", 3, None), info("b")], [(1, 3, 4), (5,)]) == {"a": 1, "b": 5}

    def test_unknown_rank_resolves_nothing(self):
        assert symbolic_shapes.bind([OPEN_RANK], [(1, 2)]) == {}

    def test_name_with_two_sizes_is_left_out(self):
        inputs = [info("a", "b"), info("a"), info("b", "a")]
        assert symbolic_shapes.bind(inputs, [(1, 2), (3,), (2, 1)]) == {"b": 2}
        assert symbolic_shapes.bind([info("a", "a")], [(1, 2)]) == {}

    def test_order_of_the_sizes_does_not_matter(self):
        for sizes in ([1, 2, 1], [1, 1, 2], [2, 1, 1]):
            assert symbolic_shapes.bind([info("a")] * 3, [(size,) for size in sizes]) == {}


class TestSolve:
    def test_all_sizes_known(self):
        assert symbolic_shapes.solve(info("a", 3, "b"), {"a": 1, "b": 0}) == (1, 3, 0)
        assert symbolic_shapes.solve(info(), {}) == ()

    def test_unresolved_dimensions_give_none(self):
        assert symbolic_shapes.solve(info("a", "c"), {"a": 1}) is None
        assert symbolic_shapes.solve(info(None), {"a": 1}) is None
        assert symbolic_shapes.solve(OPEN_RANK, {"a": 1}) is None


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", 1, 2, None]), max_size=4), max_size=4), st.data())
def test_solve_returns_the_shapes_that_were_bound(declared, data):
    """For feeds of any matching shapes, each input's declaration resolves to its shape, or to None."""
    infos = [info(*dims) for dims in declared]
    fed = [tuple(dim if isinstance(dim, int) else data.draw(st.integers(0, 3)) for dim in dims) for dims in declared]
    sizes = symbolic_shapes.bind(infos, fed)
    for one, shape in zip(infos, fed, strict=True):
        symbolic_shapes.check(one, shape, "input")
        assert symbolic_shapes.solve(one, sizes) in (shape, None)
        contradicted = any(isinstance(dim, str) and dim not in sizes for dim in one.shape)
        assert (symbolic_shapes.solve(one, sizes) is None) == (contradicted or None in one.shape)
