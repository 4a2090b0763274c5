import pytest

from zrt.cli.units import duration, mebibytes, plural


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(891, "0.891 µs"), (25_897, "25.90 µs"), (290_815, "290.8 µs"), (4_369_257, "4.369 ms"), (2e9, "2,000.0 ms")],
)
def test_times_have_a_fitting_unit(nanoseconds, text):
    assert duration(nanoseconds) == text


def test_plurals_and_mebibytes():
    assert (plural(1, "thread"), plural(2, "thread")) == ("1 thread", "2 threads")
    assert mebibytes(3 << 19) == "1.5 MiB"
