"""`Service`: a deployment that is on a cluster for as long as its command runs."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import ray
from ray import serve

# The one way to read the address at which Ray Serve listens.
from ray.serve.context import _get_global_client

from zrt._native.thread_start import start_thread
from zrt.errors import ZrtError

Value = TypeVar("Value")

# The seconds in which the cluster answers a call, and those in which Ray Serve starts or ends something.
ANSWER_S = 30.0
CHANGE_S = 90.0
POLL_S = 0.2
# The seconds that the end of a deployment takes beside its grace.
END_S = 30.0
# A proxy refuses a request this much later than a replica would.
PROXY_SLACK_S = 1.0

# How often each of the proxies that share a port is asked: chance decides which of them answers.
ASKED_EACH = 8

WILDCARDS = ("0.0.0.0", "::")


class ServiceError(ZrtError):
    """The service cannot start, or it ended."""


class Http(NamedTuple):
    """Where the proxies of Ray Serve listen, and the seconds that they give a request; None is Ray Serve's default."""

    host: str | None
    port: int | None
    timeout: float | None

    def options(self) -> dict[str, Any]:
        """The options for ``serve.start``."""
        timeout = None if self.timeout is None else self.timeout + PROXY_SLACK_S
        options = {"host": self.host, "port": self.port, "request_timeout_s": timeout}
        return {name: value for name, value in options.items() if value is not None}


class Service:
    """An application of Ray Serve on the cluster to which this process is connected.

    Ray Serve is started where it does not run, and then it ends with its last application.
    """

    def __init__(self, name: str, route_prefix: str) -> None:
        self.name = name
        self.route_prefix = route_prefix
        self._started_serve = False
        self._deployed = False
        self._running: Future[Any] | None = None
        # Ray Serve logs each step there.
        logging.getLogger("ray.serve").setLevel(logging.ERROR)

    def start(self, deployment: serve.Deployment, http: Http, within: float, stop: threading.Event) -> list[str]:
        """Deploys, and returns the addresses when all replicas are ready, or none if `stop` was set before.

        Raises `ServiceError` if that takes more than `within` seconds or does not succeed. `end` must follow.
        """
        until = time.monotonic() + within
        before = _answer(serve.status)
        if self.name in before.applications:
            raise ServiceError(f"the cluster has an application {self.name!r} already")
        self._started_serve = not before.proxies
        if self._started_serve:
            _answer(lambda: serve.start(http_options=http.options()), CHANGE_S)
        else:
            _check_address(http)
        self._deployed = True
        target = deployment.bind()
        running = _start(lambda: serve.run(target, name=self.name, route_prefix=self.route_prefix))
        self._running = running
        while not wait([running], POLL_S).done:
            if stop.is_set():
                return []
            if time.monotonic() > until:
                raise ServiceError(f"the replicas did not start in {within:g} seconds: {self._reason()}")
        try:
            running.result()
        except ServiceError as error:
            raise ServiceError(f"the replicas cannot start: {self._reason() or error}") from None
        addresses = self._addresses()
        self._wait_for_proxies(addresses, until, stop)
        return addresses

    def check(self) -> None:
        """Raises `ServiceError` if the application is not on the cluster any more."""
        if self.name not in _answer(serve.status).applications:
            raise ServiceError(f"somebody deleted the application {self.name!r} from the cluster")

    def end(self, grace: float) -> None:
        """Takes the application from the cluster, when its requests are answered or `grace` seconds are over."""
        until = time.monotonic() + grace + END_S
        if self._deployed:
            _answer(self._delete, CHANGE_S)
            while self.name in _answer(serve.status).applications and time.monotonic() < until:
                time.sleep(POLL_S)
        if self._started_serve and not _answer(serve.status).applications:
            _answer(serve.shutdown, CHANGE_S)
            if self._running is not None:
                # After a failed start it asks Ray Serve once a second, which ends with the first error. If this process
                # had left the cluster by then, Ray would connect it anew.
                wait([self._running], END_S)

    def _delete(self) -> None:
        # It waits for a minute at most, and the deletion goes on.
        with suppress(TimeoutError):
            serve.delete(self.name)

    def _reason(self) -> str:
        """The message of Ray Serve about the deployment: of an exception's text the line that names it."""
        status = _answer(serve.status).applications.get(self.name)
        messages = [one.message for one in status.deployments.values()] if status else []
        return " ".join(_last_line(message) for message in messages)

    def _wait_for_proxies(self, addresses: list[str], until: float, stop: threading.Event) -> None:
        """Waits until the proxies know the application, since before they answer 404.

        One that this process does not reach is left alone.
        """
        proxies = len(_answer(serve.status).proxies)
        # Those of one machine share its port, and each connection reaches one of them.
        times = 1 if len(addresses) == proxies else ASKED_EACH * proxies
        for address in addresses:
            in_a_row = 0
            while in_a_row < times:
                routes = _routes(address)
                if routes is None:
                    break
                in_a_row = in_a_row + 1 if routes.get(self.route_prefix) == self.name else 0
                if not in_a_row:
                    if time.monotonic() > until:
                        raise ServiceError(f"the proxy at {address} did not learn of the application in time")
                    if stop.wait(POLL_S):
                        return

    def _addresses(self) -> list[str]:
        config = _get_global_client().http_config
        hosts = {str(config.host)}
        if config.host in WILDCARDS:
            proxies = _answer(serve.status).proxies
            hosts = {node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] in proxies}
        path = self.route_prefix.rstrip("/")
        return sorted(f"http://{f'[{host}]' if ':' in host else host}:{config.port}{path}" for host in hosts)


def _routes(address: str) -> dict[str, str] | None:
    """The applications that a proxy of Ray Serve knows, by their prefixes; None if this process does not reach it."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=ANSWER_S)
    try:
        connection.request("GET", "/-/routes")
        answer = connection.getresponse()
        text = answer.read()
        return dict(json.loads(text)) if answer.status == 200 else {}
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _check_address(http: Http) -> None:
    """Raises if Ray Serve runs and listens elsewhere."""
    config = _get_global_client().http_config
    for name in ("host", "port"):
        wanted, current = getattr(http, name), getattr(config, name)
        if wanted not in (None, current):
            raise ServiceError(
                f"Ray Serve runs on this cluster already, at {config.host}, port {config.port}: {name} {wanted} is not "
                "possible"
            )


def _answer(call: Callable[[], Value], seconds: float = ANSWER_S) -> Value:
    """The value of a call to Ray Serve, which may have no time limit, while the cluster may be gone."""
    try:
        return _start(call).result(seconds)
    except TimeoutError:
        raise ServiceError(f"the cluster did not answer in {seconds:g} seconds") from None


def _start(call: Callable[[], Value]) -> Future[Value]:
    """Begins a call on a thread of its own, which does not hinder the end of the process."""
    future: Future[Value] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(ServiceError(_last_line(str(error))))

    start_thread(threading.Thread(target=run, name="zrt-ray-serve", daemon=True))
    return future


def _last_line(text: str) -> str:
    """The last line of a text that is not empty: there is the error in the text of a traceback."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
