"""`zrt.values.symbolic_shapes`: symbolic dimensions that are resolved from the shapes of feeds."""

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
        assert symbolic_shapes.fits(declared, shape)

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
        assert not symbolic_shapes.fits(declared, shape)


class TestBind:
    def test_names_get_their_sizes(self):
        assert symbolic_shapes.bind([info("a", 3, None), info("b")], [(1, 3, 4), (5,)]) == {"a": 1, "b": 5}
        assert symbolic_shapes.bind([OPEN_RANK], [(1, 2)]) == {}

    def test_name_with_two_sizes_is_left_out(self):
        inputs = [info("a", "b"), info("a"), info("b", "a")]
        assert symbolic_shapes.bind(inputs, [(1, 2), (3,), (2, 1)]) == {"b": 2}
        assert symbolic_shapes.bind([info("a", "a")], [(1, 2)]) == {}

    def test_order_of_the_sizes_does_not_matter(self):
        for sizes in ([1, 2, 1], [1, 1, 2], [2, 1, 1]):
            assert symbolic_shapes.bind([info("a")] * 3, [(size,) for size in sizes]) == {}


class TestComplete:
    infos = (info("n", 3, name="x"), info("n", name="w"), info("m", None, name="v"))

    def test_sizes_of_given_shapes_are_shared_by_name(self):
        assert symbolic_shapes.complete(self.infos, {"x": (2, 3)}) == [(2, 3), (2,), None]
        assert symbolic_shapes.complete(self.infos, {"w": (2,), "v": (5, 6)}) == [(2, 3), (2,), (5, 6)]

    def test_open_sizes_are_filled_in(self):
        assert symbolic_shapes.complete(self.infos, {"w": (2,)}, open_size=1) == [(2, 3), (2,), (1, 1)]
        assert symbolic_shapes.complete([OPEN_RANK], {}, open_size=1) == [None]

    def test_contradicting_sizes_are_not_shared(self):
        infos = [info("n", name=name) for name in "xwv"]
        assert symbolic_shapes.complete(infos, {"x": (2,), "w": (1,)}) == [(2,), (1,), None]


class TestContradictions:
    def texts(self, *inputs: tuple[ValueInfo, tuple[int, ...]]) -> list[str]:
        return [str(each) for each in symbolic_shapes.contradictions(*zip(*inputs, strict=True))]

    def test_name_both_inputs_and_both_sizes(self):
        assert self.texts((info("n", 3, name="x"), (2, 3)), (info("m", "n", name="w"), (4, 5))) == [
            "inputs 'x' and 'w' give the size 'n' two values, 2 and 5"
        ]
        assert self.texts((info("n", name="x"), (2,)), (info("n", name="w"), (2,))) == []

    def test_sizes_that_do_not_broadcast_come_first(self):
        pair = [info("a", "b", name="x"), info("a", "b", name="w"), info("b", name="v")]
        first, second = symbolic_shapes.contradictions(pair, [(1, 1), (2, 3), (4,)])
        assert (first.dim, first.inputs, first.sizes, first.broadcasts) == ("b", ("w", "v"), (3, 4), False)
        assert (second.dim, second.inputs, second.sizes, second.broadcasts) == ("a", ("w", "x"), (2, 1), True)

    def test_input_that_contradicts_itself_says_nothing(self):
        assert self.texts((info("n", "n", name="x"), (2, 3)), (info("n", name="w"), (4,))) == []


class TestSolve:
    @pytest.mark.parametrize(
        ("declared", "sizes", "open_size", "shape"),
        [
            (info("a", 3, "b"), {"a": 1, "b": 0}, None, (1, 3, 0)),
            (info(), {}, None, ()),
            (info("a", "c"), {"a": 1}, None, None),
            (info(None), {"a": 1}, None, None),
            (OPEN_RANK, {"a": 1}, None, None),
            (info("a", "c", None, 0), {"a": 2}, 1, (2, 1, 1, 0)),
            (OPEN_RANK, {"a": 1}, 1, None),
        ],
    )
    def test_solve(self, declared, sizes, open_size, shape):
        assert symbolic_shapes.solve(declared, sizes, open_size) == shape


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
