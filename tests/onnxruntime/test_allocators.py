"""The allocators that sessions share are configured and registered as in the official package."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import zrt
from zrt.errors import ArgumentError

FIELDS = (
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
)
UNSET = [0, -1, -1, -1, -1, -1]


def fields(config: Any) -> list[int]:
    return [getattr(config, name) for name in FIELDS]


class TestConfig:
    def test_takes_four_numbers(self, ort) -> None:
        assert fields(ort.OrtArenaCfg(4, 1, 2, 3)) == [4, 1, 2, 3, -1, -1]

    def test_takes_a_dict(self, ort) -> None:
        assert fields(ort.OrtArenaCfg({})) == UNSET
        numbers = dict(zip(FIELDS, range(1, 7), strict=True))
        assert fields(ort.OrtArenaCfg(numbers)) == list(numbers.values())

    @pytest.mark.parametrize("arguments", [(), (1, 2), ("1", 2, 3, 4), (-1, 2, 3, 4), (1, 2.0, 3, 4), ([],), (None,)])
    def test_refuses_other_arguments(self, ort, arguments) -> None:
        with pytest.raises(TypeError):
            ort.OrtArenaCfg(*arguments)

    @pytest.mark.parametrize("wrong", [{"max_mem": "5"}, {"max_mem": -1}, {1: 5}, {"arena_extend_strategy": None}])
    def test_refuses_wrong_items_of_the_dict(self, ort, wrong) -> None:
        with pytest.raises(RuntimeError):
            ort.OrtArenaCfg(wrong)

    def test_refuses_an_unknown_field(self, ort) -> None:
        with pytest.raises(RuntimeError, match="Invalid OrtArenaCfg option: x"):
            ort.OrtArenaCfg({"x": 5})

    def test_can_be_changed(self, ort) -> None:
        config = ort.OrtArenaCfg({})
        for name in FIELDS:
            setattr(config, name, 7)
            assert getattr(config, name) == 7
            for wrong in ("7", 7.0, None):
                with pytest.raises(TypeError):
                    setattr(config, name, wrong)
        with pytest.raises(AttributeError):
            config.other = 1


@pytest.fixture
def memory(ort) -> Any:
    def make(name: str = "Cpu", kind: str = "ORT_ARENA_ALLOCATOR") -> Any:
        return ort.OrtMemoryInfo(name, getattr(ort.OrtAllocatorType, kind), 0, ort.OrtMemType.DEFAULT)

    return make


class TestRegistration:
    @pytest.fixture(autouse=True)
    def unregistered(self) -> Iterator[None]:
        """Later tests of this process have none: the official package has no call that unregisters one."""
        yield
        with suppress(ArgumentError):
            zrt.Environment().unregister_allocator()

    @pytest.mark.parametrize("kind", ["ORT_ARENA_ALLOCATOR", "ORT_DEVICE_ALLOCATOR"])
    @pytest.mark.parametrize("config", [{}, {"arena_extend_strategy": 1, "max_mem": 1 << 30}, None])
    def test_takes_the_hosts_memory(self, ort, memory, kind, config) -> None:
        arena = None if config is None else ort.OrtArenaCfg(config)
        assert ort.create_and_register_allocator(memory(kind=kind), arena) is None
        options = {"key": "value"}
        arguments = ("CPUExecutionProvider", memory(kind=kind), options, arena)
        assert ort.create_and_register_allocator_v2(*arguments) is None

    def test_refuses_other_memory(self, ort, memory) -> None:
        says = "Error when creating and registering allocator: Only CPU devices are supported"
        with pytest.raises(RuntimeError, match=says):
            ort.create_and_register_allocator(memory("Cuda"), ort.OrtArenaCfg({}))

    def test_refuses_unknown_providers(self, ort, memory) -> None:
        says = r"in create_and_register_allocator_v2: Nope is not implemented in CreateAndRegisterAllocatorV2\(\)"
        with pytest.raises(RuntimeError, match=says):
            ort.create_and_register_allocator_v2("Nope", memory(), {}, ort.OrtArenaCfg({}))

    def test_refuses_other_objects(self, ort, memory) -> None:
        arena = ort.OrtArenaCfg({})
        for arguments in ((1, arena), (memory(), 1), (memory(),)):
            with pytest.raises(TypeError):
                ort.create_and_register_allocator(*arguments)
        for arguments in ((1, memory(), {}, arena), ("CPUExecutionProvider", memory(), [], arena)):
            with pytest.raises(TypeError):
                ort.create_and_register_allocator_v2(*arguments)
