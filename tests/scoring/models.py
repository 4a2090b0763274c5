"""Models to score with."""

from tests.support.models import parse


def affine(batch: int | str = "batch") -> bytes:
    """``y = x @ w + 1`` for rows of 3 numbers, with ``w`` all ones, and ``n = 2 * k`` for one whole number a row."""
    return parse(
        f"""(float[{batch}, 3] x, int64[{batch}] k) => (float[{batch}, 2] y, int64[{batch}] n)
        <float[3, 2] w = {{1, 1, 1, 1, 1, 1}}, float[2] one = {{1, 1}}> {{
            p = MatMul(x, w)
            y = Add(p, one)
            n = Add(k, k)
        }}"""
    )


def sums() -> bytes:
    """``s``: the sum of each row, whose length is open."""
    return parse("(float[b, l] x) => (float[b] s) <int64[1] a = {1}> { s = ReduceSum <keepdims = 0> (x, a) }")


def batch_sums() -> bytes:
    """``y``: for each row the sums of its whole batch."""
    return parse(
        """(float[b, 3] x) => (float[b, 3] y) <int64[1] first = {0}> {
            s = ReduceSum <keepdims = 1> (x, first)
            n = Shape (x)
            y = Expand (s, n)
        }"""
    )


def texts() -> bytes:
    """``t = s`` for a text a row."""
    return parse("(string[batch] s) => (string[batch] t) { t = Identity(s) }")


def same(kind: str) -> bytes:
    """``y = x`` of this type."""
    return parse(f"({kind} x) => ({kind} y) {{ y = Identity(x) }}")


def lookup() -> bytes:
    """``y``: the value of a table of 10 at the place ``k``; the run fails for any other place."""
    return parse(
        """(int64[batch] k) => (float[batch] y)
        <float[10] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}> { y = Gather(table, k) }"""
    )


def countdown() -> bytes:
    """``y``: ``x``, a whole number above 0, counted down to 0; any other never ends."""
    return parse(
        """(float[batch] x) => (float[batch] y) <float one = {1}, float zero = {0}, bool go = {1}> {
            y = Loop (, go, x) <body = step (int64 i, bool c, float[batch] a) => (bool d, float[batch] b) {
                b = Sub(a, one)
                s = ReduceSum <keepdims = 0> (b)
                e = Equal(s, zero)
                d = Not(e)
            }>
        }"""
    )


def misdeclared() -> bytes:
    """``y = x``, whose second size is declared as that of the rows, which it is for one row in a batch of one."""
    return parse("(float[batch, 2] x) => (float[batch, batch] y) { y = Identity(x) }")
