"""Values of every kind may be dropped in any order, used by several threads, and left to the interpreter's end."""

from __future__ import annotations

import pytest

from tests.robustness.conftest import Child

# One of each, and what it must still hold whatever else has gone.
VALUES = """
import scipy.sparse as sp

def numbers():
    return np.arange(500, dtype=np.float32).copy()

def things():
    sequence = zrt.Value.from_sequence([numbers(), zrt.Value.from_array(numbers())])
    maps = zrt.Value.from_sequence([{"a": 1.5}], "float32", "str")
    sparse = zrt.Value.from_sparse(sp.csr_array(numbers().reshape(20, 25)))
    insert = zrt.Session(models.longer(), QUIET)
    binding = insert.binding()
    binding.bind_input("s", sequence)
    binding.bind_input("t", numbers())
    binding.bind_output("u")
    binding.run()
    return {
        "sequence": (sequence, lambda it: [a.sum() for a in it.to_list()] == [TOTAL] * 2),
        "elements": (sequence.elements(), lambda it: it[1].numpy().sum() == TOTAL),
        "view of an element": (sequence.elements()[0].numpy(), lambda it: it.sum() == TOTAL),
        "maps": (maps, lambda it: it.to_list() == [{"a": 1.5}]),
        "keys": (maps.elements()[0].elements()[0], lambda it: it.strings() == ["a"]),
        "strings": (zrt.Value.from_strings(["a" * 100, "b"]), lambda it: it.strings() == ["a" * 100, "b"]),
        "sparse": (sparse, lambda it: it.sparse().values.sum() == TOTAL),
        "views of sparse": (sparse.sparse(), lambda it: it.values.sum() == TOTAL and it.indptr[-1] == len(it.indices)),
        "longer": (binding.outputs()["u"], lambda it: [a.sum() for a in it.to_list()] == [TOTAL] * 3),
        "binding": (binding, lambda it: (it.run(), len(it.outputs()["u"].to_list()) == 3)[1]),
        "result": (insert.run({"s": sequence, "t": numbers()})[0], lambda it: len(it) == 3),
        "empty": (zrt.Value.from_sequence([], "int64"), lambda it: it.to_list() == []),
    }

TOTAL = numbers().sum()
"""


@pytest.mark.slow
def test_dropped_in_any_order(child: Child) -> None:
    child(
        VALUES,
        """
        for seed in range(30):
            alive = things()
            names = sorted(alive)
            random.Random(seed).shuffle(names)
            for name in names:
                thing, holds = alive.pop(name)
                assert holds(thing), name
                if hasattr(thing, "close") and seed % 2:
                    thing.close()
                del thing
                gc.collect()
                junk = [np.full(500, 7, np.float32) for _ in range(8)]
            assert all(holds(thing) for thing, holds in alive.values())
        """,
    )


def test_left_to_the_end_of_the_interpreter(child: Child) -> None:
    child(VALUES, "kept = things()\nimport builtins\nbuiltins.kept = kept\nsys.kept = things()")


def test_from_several_threads(child: Child) -> None:
    child(
        VALUES,
        """
        shared = things()

        def use():
            for _ in range(10):
                for name, (thing, holds) in shared.items():
                    if name != "binding":
                        assert holds(thing), name
                assert zrt.Value.from_sequence([], "uint8").to_list() == []
                zrt.Value.from_strings(["x"] * 50).strings()

        threads = [threading.Thread(target=use) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """,
    )
