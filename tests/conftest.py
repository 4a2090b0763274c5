"""Fixtures of all tests: small models, sessions over them, onnxruntime's results; and the reasons to skip a test."""

import gc
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# Before numpy comes: its library for linear algebra starts threads that spin, in each of the tests' many processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and sys.pycache_prefix is None:
    # Each of these processes would compile the modules anew. Their bytecode lies outside the checkout.
    BYTECODE = tempfile.TemporaryDirectory(prefix="zrt-tests-")
    os.environ["PYTHONPYCACHEPREFIX"] = BYTECODE.name

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, settings

import zrt
from tests.support import models, processes
from tests.support import plugin as plugin_library
from zrt.environment import shared_allocators
from zrt.providers import Azure, usable

ROOT = Path(__file__).parents[1]

# A busy machine must not fail a test: speed is measured in benches.
settings.register_profile("zrt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zrt")

# Files outside the repository: the marker of tests that need them, the variable that names their folder.
NAMED = {
    "headers": ("ZRT_ORT_INCLUDE_DIR", "the folder of official headers that .ci/headers makes"),
    "source": ("ZRT_ORT_SOURCE", "a source tree of ONNX Runtime 1.27"),
}


@pytest.fixture(autouse=True, scope="module")
def no_registered_allocator() -> Iterator[None]:
    """A module's tests leave no allocator of the host registered: with one, no session of the process is bounded."""
    yield
    assert not shared_allocators._host_registered


@pytest.fixture
def collector_off() -> Iterator[None]:
    """Only reference counting frees objects in the test: the GC is off."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@cache
def onnx_left_out(kind: str) -> bool:
    """Whether a distribution left that folder out of the test data of its `onnx`. The package that pip installs has all
    of it: there a missing file fails its test.
    """
    if any((Path(onnx.__file__).parent / "backend" / "test" / "data" / kind).glob("*")):
        return False
    return importlib.metadata.distribution("onnx").read_text("INSTALLER") is None


@cache
def official_problem() -> str | None:
    """Why the onnxruntime package cannot be imported; None if it can. The one for GPUs needs a library of CUDA."""
    try:
        importlib.import_module("onnxruntime")
    except ImportError as error:
        return str(error)
    return None


def pytest_collection_finish() -> None:
    # Many tests collect garbage: half a million objects of pytest and of the packages need no look each time.
    gc.collect()
    gc.freeze()


# Before those of folders, which import the packages.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        reason = usable("CUDA")
        if reason:
            pytest.skip(f"no CUDA session can be made here: {reason}")
    if item.get_closest_marker("azure") and Azure.name not in zrt.available_providers():
        pytest.skip("this ONNX Runtime was built without the Azure provider, which takes no node of these models")
    if item.get_closest_marker("official") and official_problem():
        pytest.skip(f"the onnxruntime Python package, to compare with, cannot be imported: {official_problem()}")
    for library in ("cupy", "jax", "torch"):
        if item.get_closest_marker(library) and importlib.util.find_spec(library) is None:
            pytest.skip(f"the Python package {library}, whose tensors are exchanged, is not installed")
    for marker in item.iter_markers("programs"):
        for package in marker.args:
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"the Python package {package} is not installed: pip install --group programs")
    for marker in item.iter_markers("onnx_data"):
        for kind in marker.args:
            if onnx_left_out(kind):
                pytest.skip(f"this distribution of onnx leaves its test data out: {kind}")
    for marker, (variable, what) in NAMED.items():
        if item.get_closest_marker(marker) and not os.environ.get(variable):
            pytest.skip(f"{variable} is not set: it would name {what}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    before = sys.exc_info()[1]
    yield
    assert sys.exc_info()[1] is before, "an exception is still being handled: see tests.support.interrupts.on_its_own"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    # Release the test's fixtures before its module's, which they may use; pytest keeps them longer.
    if isinstance(item, pytest.Function):
        item.funcargs.clear()


@pytest.fixture(scope="session")
def build() -> Callable[..., onnx.ModelProto]:
    """A model from ONNX's own notation: `build("(float[n] x) => (float[n] y) { y = Add(x, w) }", w=array)`."""
    return models.parsed


@pytest.fixture(scope="session")
def load() -> Callable[..., zrt.Session]:
    """A session over a model in that notation, on the caller's thread alone and silent; keywords are `build`'s."""

    def load(text: str, **keywords: Any) -> zrt.Session:
        options = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL")
        return zrt.Session(models.parsed(text, **keywords), options)

    return load


@pytest.fixture
def relu(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`y = Relu(x)` over float32 [n]."""
    return load("(float[n] x) => (float[n] y) { y = Relu(x) }")


@pytest.fixture
def add(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`z = x + y` over float32 [n]."""
    return load("(float[n] x, float[n] y) => (float[n] z) { z = Add(x, y) }")


@pytest.fixture
def nonzero(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`where = NonZero(x)`: the output's shape depends on the data."""
    return load("(float[n] x) => (int64[1, k] where) { where = NonZero(x) }")


@pytest.fixture
def loop(load: Callable[..., zrt.Session]) -> zrt.Session:
    """`y = x * 2**n` in n steps; fed with `models.ENDLESS` as n it runs until it is terminated."""
    return load(models.LOOP)


@pytest.fixture
def endless() -> dict[str, np.ndarray[Any, Any]]:
    """Feeds with which `loop` runs until it is terminated."""
    return {"n": models.ENDLESS, "x": np.ones(4, np.float32)}


class PluginDevices(NamedTuple):
    """The devices of the tests' own provider library (tests/support/plugin.c), which negates."""

    own: zrt.EpDevice
    """On the CPU, with memory that it declares as its own, streams and graphs."""
    npu: zrt.EpDevice
    """On a simulated NPU; it computes in the host's memory."""


@pytest.fixture(scope="module")
def plugin() -> Iterator[PluginDevices]:
    """The tests' own provider library, registered as "tests" for the time of a module."""
    environment = zrt.Environment()
    environment.register_provider_library("tests", plugin_library.path())
    yield PluginDevices(*plugin_library.devices("tests"))
    gc.collect()
    environment.unregister_provider_library("tests")


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches of 1 MiB for benches: a server has 500 MiB, which take a second to empty before each run."""
    from zrt.bench import caches

    monkeypatch.setattr(caches, "last_level_size", lambda: 1 << 20)
    caches._block.cache_clear()
    yield
    assert caches._block.cache_info().currsize == 1, "they were not emptied"
    caches._block.cache_clear()


@pytest.fixture
def environment() -> Iterator[zrt.Environment]:
    """The environment, which has no provider library when the test begins and when it ends."""
    environment = zrt.Environment()
    assert environment.provider_libraries == {}
    yield environment
    gc.collect()
    for name in environment.provider_libraries:
        environment.unregister_provider_library(name)


@pytest.fixture
def negate(build: Callable[..., onnx.ModelProto], plugin: PluginDevices) -> Callable[..., zrt.Session]:
    """`y = -x` over float32 [n], by default on the device with memory of its own; keywords are SessionOptions'."""

    def load(providers: Any = None, **options: Any) -> zrt.Session:
        settings = zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", **options)
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        return zrt.Session(model, settings, [plugin.own] if providers is None else providers)

    return load


@pytest.fixture(scope="session")
def official() -> Callable[..., list[Any]]:
    """onnxruntime's own results for a model and feeds by name."""

    def results(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, feeds))

    return results


class Background:
    """A call in a thread of its own: `result()` returns its result or raises its error."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._clock: int | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    @property
    def running(self) -> bool:
        return self.thread.is_alive()

    def under_way(self) -> None:
        """Waits until the call has used enough CPU time to be inside ONNX Runtime, even on a busy machine."""
        if not hasattr(time, "pthread_getcpuclockid"):
            time.sleep(0.1)
        while self.running and (self._clock is None or time.clock_gettime(self._clock) < 0.01):
            time.sleep(0.001)

    def result(self, timeout: float = 60) -> Any:
        self.thread.join(timeout)
        assert not self.running, "the call in the background does not end"
        if self._error is not None:
            raise self._error
        return self._result


@pytest.fixture
def background() -> Iterator[Callable[[Callable[[], Any]], Background]]:
    """Runs a call in a thread: `background(lambda: session.run(feeds))`."""
    started: list[Background] = []

    def start(call: Callable[[], Any]) -> Background:
        started.append(Background(call))
        return started[-1]

    yield start
    for job in started:
        job.thread.join(60)
        assert not job.running, "a call in the background outlived its test"


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Waits until a condition holds, for a minute at most."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the condition did not become true"
            time.sleep(0.001)

    return wait


@pytest.fixture
def cache_variable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets ``ZRT_CACHE``, which a process reads once."""
    from zrt.loading.session_options import cache_by_variable

    def change(value: str) -> None:
        monkeypatch.setenv("ZRT_CACHE", value)
        cache_by_variable.cache_clear()

    yield change
    monkeypatch.undo()
    cache_by_variable.cache_clear()


@pytest.fixture
def no_run_left(eventually: Callable[..., None]) -> Iterator[None]:
    """Waits after the test until every asynchronous run has ended."""
    from zrt.session import async_runs

    yield
    eventually(lambda: not async_runs._under_way)


def child(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments, which must exit with status 0."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, which a shell's command in the background ignores."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a process of its own, which must exit with status 0."""
    return lambda script: child("-c", textwrap.dedent(script))


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a file of the folder `scripts` beside the test in a process of its own, which must exit with status 0."""
    folder = request.path.parent / "scripts"
    return lambda name, *arguments: child(str(folder / name), *map(str, arguments), env=processes.environment())
