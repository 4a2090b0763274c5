"""`deployment`: an application as replicas on a cluster, by Ray Serve."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from zrt._common import installation
from zrt._common.arguments import integer, require_type, seconds, shown, wrong_type
from zrt._common.public import public_in
from zrt.environment import cpu_budget
from zrt.errors import ArgumentError
from zrt.serving.asgi import Application

if TYPE_CHECKING:
    from ray import serve

GRACE_S = 30.0

# Ray's own default leaves a dead replica for 10 seconds.
HEALTH_PERIOD_S = 2.0

# Ray Serve takes no larger number.
MOST_PER_NODE = 100

# Of a processor; Ray takes no smaller one, but 0.
LEAST_PART = 0.0001

# The controller of Ray Serve keeps and sends the whole application.
MAX_BYTES = 64 << 20


@public_in("zrt.ray")
def deployment(
    application: Application,
    *,
    replicas: int = 1,
    per_node: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    grace: float = GRACE_S,
) -> serve.Deployment:
    """An application as a deployment of Ray Serve, which ``serve.run(deployment.bind())`` starts on a cluster.

    There are `replicas` processes, at most `per_node` of them on a node (up to 100; None: as many as fit). Each one
    loads the models and answers requests as the application does elsewhere. It takes `cpus` and `gpus` of what Ray
    counts on a node, where more than one GPU is a whole number; the number of threads is that of the session's options.
    Where the variable ``ZRT_CPUS`` sets a budget of CPUs, that of each replica is `cpus`, at least 1. A replica that
    ends gets `grace` seconds for the requests that it has.

    The returned deployment has Ray's own ``options``, for autoscaling for example.

    Models travel as the application's recipes say: bytes go to each replica, at most 64 MiB in all, and a path is read
    on each node. Raises `NotCopyableError` for a model that was given as a `Session`, `ArgumentError` for more
    bytes, and `UnsupportedError` where Ray is missing: ``pip install "zrt-onnx[ray]"``.
    """
    require_type(application, Application, "application", "an Application of zrt.serving")
    integer(replicas, "replicas", 1)
    options: dict[str, Any] = {}
    if per_node is not None:
        options["max_replicas_per_node"] = integer(per_node, "per_node", 1, MOST_PER_NODE)
    resources = {"num_cpus": _number(cpus, "cpus"), "num_gpus": _number(gpus, "gpus")}
    if gpus > 1 and gpus != int(gpus):
        raise ArgumentError(f"gpus: {shown(gpus)}: above 1 Ray gives whole GPUs alone")
    size = len(pickle.dumps(application))
    if size > MAX_BYTES:
        raise ArgumentError(
            f"application: its models have {size} bytes, and at most {MAX_BYTES} can be sent: give their paths in a "
            "folder that all nodes share"
        )
    installation.require("ray", "ray", "a deployment of replicas")
    from ray import serve
    from ray.serve.config import RequestRouterConfig

    from zrt.ray.routing import AllNodes

    return serve.deployment(
        _replica(application, cpu_budget.variables(cpus)),
        name="zrt",
        num_replicas=replicas,
        ray_actor_options=resources,
        # A full application refuses requests itself. One that waits in a proxy would not be answered any more if the
        # deployment were deleted meanwhile, and its deadline would not count.
        max_ongoing_requests=2 * application.capacity,
        # Those of a proxy that finds no replica.
        max_queued_requests=application.capacity,
        graceful_shutdown_timeout_s=seconds(grace, "grace"),
        health_check_period_s=HEALTH_PERIOD_S,
        request_router_config=RequestRouterConfig(request_router_class=AllNodes),
        **options,
    )


def _replica(application: Application, variables: dict[str, str]) -> type:
    """The class of a replica with these variables. It is pickled with its application, of which each replica has a
    copy.
    """
    from ray import serve

    def loaded() -> Application:
        return application

    @serve.ingress(loaded)
    class Replica:
        def __init__(self) -> None:
            os.environ.update(variables)
            # Ray reports the error of a constructor with its reason, and that of an application's start without.
            application.load()

        async def check_health(self) -> None:
            if not application.ready:
                raise RuntimeError("the application is closed")

    return Replica


def _number(value: Any, subject: str) -> float:
    """A number of processors, which may be a part of one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(subject, "a number", value)
    if not 0 <= value < 1 << 31:
        raise ArgumentError(f"{subject}: {shown(value)} is no number of processors")
    if 0 < value < LEAST_PART:
        raise ArgumentError(f"{subject}: {shown(value)} is less than {LEAST_PART:g}, the smallest part that Ray counts")
    return value
