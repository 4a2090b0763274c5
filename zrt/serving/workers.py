"""Serves by several processes that share a port, until a signal ends them; uvicorn starts and watches them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import SIGNALS, Multiprocess, Process

from zrt._common.files import temporary_folder
from zrt._native.thread_start import start_thread
from zrt.bench.child import how_ended
from zrt.environment import cpu_budget
from zrt.errors import ZrtError
from zrt.serving.asgi import Application
from zrt.serving.metrics import FOLDER, WORKER
from zrt.serving.server import configuration

logger: logging.Logger = logging.getLogger("zrt.serving")

# The file with the message of a worker that could not start.
FAILED = "failed"

# The signals that end all.
ENDING = {signal.SIGINT, signal.SIGTERM}

# A worker that does not react for so many seconds is replaced. One that starts on a busy machine takes some.
HUNG_S = 60

# A worker that has not ended so many seconds after the grace is killed.
LATE_S = 5


class StartError(ZrtError):
    """A worker could not start: the message is its error's."""


def serve(
    make: Callable[[], Application],
    workers: int,
    listening: socket.socket,
    grace: int | None,
    access_log: bool,
    started: Callable[[], None],
) -> None:
    """Serves by so many processes, each with an application that `make` makes, which must be picklable.

    After SIGTERM or SIGINT each finishes the requests that it took, for at most `grace` seconds; one that has not ended
    `LATE_S` seconds later, as its operator does not return, is killed. One that dies before is replaced. `started` is
    called when all have loaded their models. SIGINT raises `KeyboardInterrupt` at the end. Raises `StartError` if a
    worker cannot make or load its application, or dies before that.
    """
    with temporary_folder("zrt-serve-") as folder:
        # The workers inherit the variables.
        variables = {FOLDER: folder} | cpu_budget.variables(cpu_budget.by_variable() / workers)
        before = {name: os.environ[name] for name in variables.keys() & os.environ.keys()}
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        os.environ.update(variables)
        try:
            config = configuration(
                partial(_loaded, make, Path(folder)),
                grace,
                access_log,
                factory=True,
                workers=workers,
                timeout_worker_healthcheck=HUNG_S,
            )
            supervisor = _Supervisor(config, listening, Path(folder), started)
            supervisor.run()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            listening.close()
            for name in variables:
                del os.environ[name]
            os.environ.update(before)
        failed = Path(folder, FAILED)
        failure = failed.read_text("utf-8") if failed.exists() else supervisor.failure
        if failure:
            raise StartError(failure)
    if supervisor.interrupted:
        raise KeyboardInterrupt


class _End(threading.Event):
    """The event that ends uvicorn's supervisor. `is_set`, but not `wait`, knows of signals that nobody looked at yet.

    uvicorn looks at no signal while it replaces workers, which may take long, but it asks this event. The handler of a
    signal must not call `set`: that waits for a lock, which its own thread may have.
    """

    def __init__(self, signals: list[int]) -> None:
        super().__init__()
        self._waiting = signals

    def is_set(self) -> bool:
        return super().is_set() or not ENDING.isdisjoint(self._waiting)


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, which also says when all workers serve, and ends when one cannot start."""

    def __init__(
        self, config: uvicorn.Config, listening: socket.socket, folder: Path, started: Callable[[], None]
    ) -> None:
        super().__init__(config, [listening])
        self.should_exit = _End(self.signal_queue)
        self.interrupted = False
        self.failure: str = ""
        """How a worker died before all served."""
        self._folder = folder
        self._failed = folder / FAILED
        self._started: Callable[[], None] | None = started
        self._known: set[int | None] = set()

    def run(self) -> None:
        try:
            super().run()
        except BaseException:
            # Such as an OSError, where the system allows no further process. Python would wait for the workers.
            self.terminate_all()
            self.join_all()
            raise

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        for process in before:
            # The worker has its own: without this one, the wait for the answer of one that dies ends at once.
            process.child_conn.close()
        if not self._failed.exists():
            super().keep_subprocess_alive()
        if self._failed.exists():
            self.should_exit.set()
            return
        for old, new in zip(before, self.processes, strict=True):
            # uvicorn replaces no worker that ends with this status: it ends them all.
            if old is not new or old.exitcode == STARTUP_FAILURE:
                self._note_death(old)
        alive = {process.pid for process in self.processes}
        for pid in self._known - alive:
            # Its waiting requests are gone; its counters stay.
            mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]
            Path(self._folder, f"{WORKER}.{pid}").unlink(missing_ok=True)
        self._known = alive
        if self._started and all(Path(self._folder, f"{WORKER}.{pid}").exists() for pid in alive):
            self._started()
            self._started = None

    def _note_death(self, worker: Process) -> None:
        """Says how a worker ended. One that could not even load its models would only be replaced again and again."""
        said = f"worker {worker.pid} ended with {how_ended(worker.exitcode or 0)}"
        if self._started is None and worker.exitcode != STARTUP_FAILURE:
            logger.warning("%s: another one takes its place", said)
        # Ctrl-C reaches the workers too.
        elif ENDING.isdisjoint(self.signal_queue):
            self.failure = f"{said} before it served"
            if worker.exitcode == -signal.SIGKILL:
                self.failure += f": it took too much memory, or did not react for {HUNG_S} seconds"
            self.should_exit.set()

    def terminate_all(self) -> None:
        # Otherwise this process would hold connections that no worker takes any more.
        for listening in self.sockets:
            listening.close()
        super().terminate_all()

    def join_all(self) -> None:
        grace = self.config.timeout_graceful_shutdown
        end = None if grace is None else time.monotonic() + grace + LATE_S
        for worker in self.processes:
            worker.process.join(None if end is None else max(0.0, end - time.monotonic()))
            if worker.exitcode is None:
                logger.warning("worker %s did not end within %s seconds after the grace: killed", worker.pid, LATE_S)
                worker.kill()
                worker.join()

    def handle_int(self) -> None:
        self.interrupted = True
        super().handle_int()

    def handle_hup(self) -> None:
        if self._started is not None:
            # Nobody serves yet who could go on: the supervisor looks again in its next turn.
            self.signal_queue.append(signal.SIGHUP)
            return
        reason = ""
        try:
            super().handle_hup()
        except OSError as error:
            reason = str(error)
        if self._failed.exists():
            reason = self._failed.read_text("utf-8")
            self._failed.unlink()
        if reason:
            logger.error("the workers that serve go on, as a new one could not start: %s", reason)


def _loaded(make: Callable[[], Application], folder: Path) -> Application:
    """The application of a worker."""
    thread = threading.Thread(target=_end_with_parent, name="zrt-serve-parent", daemon=True)
    start_thread(thread)
    try:
        application = make()
        application.load()
    except Exception as error:
        own = folder / f"{FAILED}.{os.getpid()}"
        own.write_text(str(error).strip() or repr(error), "utf-8")
        own.replace(folder / FAILED)
        # After STARTUP_FAILURE, uvicorn would say that a worker failed, but not why.
        raise SystemExit(1) from None
    Path(folder, f"{WORKER}.{os.getpid()}").touch()
    return application


def _end_with_parent() -> None:
    """Ends this process, as SIGTERM does, when the one that started it has ended without a word."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    signal.raise_signal(signal.SIGTERM)
