"""Connections to clusters, and the cluster of these tests."""

from __future__ import annotations

import socket
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the packages of the extra ray")

import ray

import zrt
from zrt.errors import ArgumentError
from zrt.ray import connection


def imported() -> tuple[str, str]:
    return ray.get_runtime_context().get_node_id(), zrt.__file__


def test_workers_of_both_nodes_import_this_zrt(cluster: Any) -> None:
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    task = ray.remote(imported)
    strategies = [ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    found = ray.get([task.options(scheduling_strategy=strategy).remote() for strategy in strategies], timeout=60)
    assert found == [(node, zrt.__file__) for node in nodes]
    assert len(nodes) == 2


def test_a_connected_process_stays_connected(cluster: Any) -> None:
    with connection.connected("127.0.0.1:1"):
        pass
    assert ray.is_initialized()


@pytest.mark.parametrize("address", ["", "nothing", "127.0.0.1", "host:port", ":1", "127.0.0.1:99999", "ray://x"])
def test_address_without_a_sense_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ArgumentError, match="is no address of a cluster"), connection.connected(address):
        pass


def test_server_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(connection, "REACH_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(ConnectionError, match=r"does not answer as one of Ray in 0\.5 seconds"),
            connection.connected(address),
        ):
            pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_address_without_a_cluster_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConnectionError, match="no cluster of Ray"), connection.connected(address):
        pass
