"""A real cluster of Ray: two nodes on this machine, for all tests of this folder."""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import processes

NODES = 2
# Logical ones: an actor takes as many as it asks for.
CPUS = 4
STORE_BYTES = 150 << 20

# Workers inherit these from the nodes.
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}


# Ray's own: its context of data sets sets deprecated fields of itself, and Ray Serve's classes are made in an old way.
WARNINGS = (
    "ignore::DeprecationWarning:ray.data.context",
    "ignore:Using extra keyword arguments on `Field` is deprecated:DeprecationWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    for line in WARNINGS:
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` of two nodes, to which this process is connected."""
    ray = pytest.importorskip("ray", reason="needs the packages of the extra ray")
    from ray.cluster_utils import Cluster

    # Sockets lie in the folder, and their names must be short.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        path = processes.environment()["PYTHONPATH"]
        for name, value in {**VARIABLES, "RAY_TMPDIR": folder, "PYTHONPATH": path}.items():
            patch.setenv(name, value)
        node = {"num_cpus": CPUS, "object_store_memory": STORE_BYTES}
        made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        try:
            for _ in range(NODES - 1):
                made.add_node(**node)
            ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def every_cpu_is_free_again(eventually: Callable[..., None]) -> Iterator[None]:
    """After the tests of a file: a CPU that an actor of theirs keeps would be missing in a later file."""
    yield
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        eventually(lambda: ray.available_resources().get("CPU") == NODES * CPUS)


@pytest.fixture(autouse=True)
def no_actor_is_garbage() -> Iterator[None]:
    """The tracebacks of Ray Data's errors refer to themselves, and keep actors until the garbage is collected."""
    yield
    gc.collect()
