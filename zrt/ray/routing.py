"""`AllNodes`: the choice of a replica for a request."""

from __future__ import annotations

import random

from ray.serve.request_router import FIFOMixin, PendingRequest, RequestRouter, RunningReplica


class AllNodes(FIFOMixin, RequestRouter):  # type: ignore[misc, unused-ignore]
    """Of two replicas, chosen at random, the one with fewer requests; first come, first served.

    A proxy with Ray's own router uses the replicas of its own node until they are full, so that clients who know one
    address would leave the other nodes idle.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replicas of which Ray Serve takes the one with the shorter queue."""
        return [random.sample(candidate_replicas, min(2, len(candidate_replicas)))]
