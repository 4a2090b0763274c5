"""`zrt.serving.application` checks its arguments, and makes plain data until it loads."""

import asyncio
import pickle
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zrt
from zrt._common.installation import install_line
from zrt.errors import ArgumentError, DTypeError, ModelNotFoundError, NotCopyableError, UnsupportedError
from zrt.serving import Application, application

MODEL = Path(zrt.__file__).parent / "models" / "digits.onnx"

BAD: dict[str, tuple[Any, dict[str, Any], type[zrt.Error], list[str]]] = {
    "models no dict": ([MODEL], {}, DTypeError, ["models", "dict"]),
    "no models": ({}, {}, ArgumentError, ["models"]),
    "name no string": ({5: MODEL}, {}, DTypeError, ["models", "5"]),
    "name empty": ({"": MODEL}, {}, ArgumentError, ["models", "''"]),
    "name with a slash": ({"a/b": MODEL}, {}, ArgumentError, ["models", "'a/b'"]),
    "name with a newline": ({"a\n": MODEL}, {}, ArgumentError, ["models", "'a\\n'"]),
    "name of another address": ({"stats": MODEL}, {}, ArgumentError, ["models: 'stats'"]),
    "no versions": ({"m": {}}, {}, ArgumentError, ["models['m']", "versions"]),
    "version no string": ({"m": {1: MODEL}}, {}, DTypeError, ["models['m']", "1"]),
    "model of a wrong type": ({"m": 5}, {}, DTypeError, ["5"]),
    "model None": ({"m": None}, {}, DTypeError, ["None"]),
    "max_batch 0": ({"m": MODEL}, {"max_batch": 0}, ArgumentError, ["max_batch"]),
    "max_batch True": ({"m": MODEL}, {"max_batch": True}, DTypeError, ["max_batch"]),
    "max_wait negative": ({"m": MODEL}, {"max_wait": -1}, ArgumentError, ["max_wait"]),
    "max_wait no int": ({"m": MODEL}, {"max_wait": 0.5}, DTypeError, ["max_wait"]),
    "lanes 0": ({"m": MODEL}, {"lanes": 0}, ArgumentError, ["lanes"]),
    "lanes 1025": ({"m": MODEL}, {"lanes": 1025}, ArgumentError, ["lanes: 1025 is not between 1 and 1024"]),
    "max_queue 0": ({"m": MODEL}, {"max_queue": 0}, ArgumentError, ["max_queue"]),
    "max_body 0": ({"m": MODEL}, {"max_body": 0}, ArgumentError, ["max_body"]),
    "max_body huge": ({"m": MODEL}, {"max_body": 2**80}, ArgumentError, ["max_body"]),
    "timeout 0": ({"m": MODEL}, {"timeout": 0}, ArgumentError, ["timeout"]),
    "timeout negative": ({"m": MODEL}, {"timeout": -1.0}, ArgumentError, ["timeout"]),
    "timeout NaN": ({"m": MODEL}, {"timeout": float("nan")}, ArgumentError, ["timeout"]),
    "record no path": ({"m": MODEL}, {"record": 5}, DTypeError, ["record", "5"]),
    "record a plain file": ({"m": MODEL}, {"record": __file__}, ArgumentError, ["record", "is no folder"]),
    "slower_than 0": ({"m": MODEL}, {"record": "capsules", "slower_than": 0}, ArgumentError, ["slower_than"]),
    "slower_than a string": ({"m": MODEL}, {"record": "capsules", "slower_than": "1"}, DTypeError, ["slower_than"]),
    "slower_than without record": ({"m": MODEL}, {"slower_than": 1}, ArgumentError, ["record", "slower_than"]),
    "timeout a string": ({"m": MODEL}, {"timeout": "1"}, DTypeError, ["timeout"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_argument_raises_by_name(case: str) -> None:
    models, settings, error, words = BAD[case]
    with pytest.raises(error) as caught:
        application(models, **settings)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("package", ["starlette", "prometheus_client"])
def test_missing_package_is_named_with_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zrt._common.installation.find_spec", lambda name: None if name == package else name)
    with pytest.raises(UnsupportedError, match=re.escape(f"{package} package: {install_line('serve')}")):
        application({"m": MODEL})


def test_import_of_zrt_and_of_serving_loads_no_server(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    python(
        """
        import sys
        import zrt
        assert not any(name.startswith("zrt.serving") for name in sys.modules)
        import zrt.serving
        assert not {"starlette", "uvicorn", "prometheus_client", "asyncio"} & set(sys.modules)
        """
    )


@pytest.fixture
def _installed() -> None:
    for package in ("starlette", "prometheus_client"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install --group serving")


@pytest.mark.usefixtures("_installed")
def test_worker_that_makes_its_files_is_no_error_of_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zrt.serving.metrics import FOLDER, Metrics

    (tmp_path / "counter_7.db").touch()
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert Metrics().samples() == {}


@pytest.mark.usefixtures("_installed")
def test_folder_of_metrics_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("/no such folder", __file__, ""):
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", folder)
        with pytest.raises(ArgumentError) as caught:
            application({"m": MODEL}).load()
        assert str(caught.value) == f"PROMETHEUS_MULTIPROC_DIR: {folder!r} is no folder"


@pytest.mark.usefixtures("_installed")
class TestApplication:
    def test_nothing_is_loaded_before_load(self) -> None:
        app = application({"m": "no such file.onnx"})
        assert not app.ready
        with pytest.raises(ModelNotFoundError, match="no such file"):
            app.load()
        assert not app.ready
        app.close()

    def test_load_and_close_may_be_repeated(self) -> None:
        app = application({"m": MODEL, "n": {"a": MODEL, "b": MODEL}})
        for _ in range(2):
            app.load()
            app.load()
            assert app.ready
            app.close()
            app.close()
            assert not app.ready
            # Other tests serve models whose names begin with m, for as long as the process lives.
            own = ("zrt-serve-m-", "zrt-serve-n-")
            assert not any(thread.name.startswith(own) for thread in threading.enumerate())
        assert app.models == ("m", "n")
        assert repr(app) == "Application(m, n)"

    def test_sessions_stay_open(self, double: zrt.Session) -> None:
        app = application({"m": double})
        app.load()
        app.close()
        assert not double.closed

    def test_closed_session_is_refused_at_load(self, double: zrt.Session) -> None:
        double.close()
        app = application({"m": double})
        with pytest.raises(zrt.errors.ClosedError):
            app.load()

    def test_load_that_fails_ends_its_recordings(
        self, double: zrt.Session, load: Callable[..., zrt.Session], tmp_path: Path
    ) -> None:
        lists = load("(seq(float[n]) x) => (int64 y) { y = SequenceLength(x) }")
        app = application({"m": double, "n": lists}, record=tmp_path / "capsules")
        with pytest.raises(UnsupportedError) as caught:
            app.load()
        assert caught.tb is not None
        double.record().close()
        lists.record().close()

    def test_application_can_be_pickled_unless_it_has_a_session(self, double: zrt.Session) -> None:
        app = application({"m": {"1": zrt.SessionSpec(MODEL)}, "n": MODEL}, max_batch=3)
        app.load()
        copy = pickle.loads(pickle.dumps(app))
        assert isinstance(copy, Application)
        assert (copy.models, copy._settings, copy.ready) == (app.models, app._settings, False)
        app.close()
        with pytest.raises(NotCopyableError, match="SessionSpec"):
            pickle.dumps(application({"m": double}))

    def test_server_that_says_nothing_of_its_start_gets_answers(self, double: zrt.Session) -> None:
        """ASGI leaves the lifespan to the server."""
        app = application({"m": double})

        async def ask(method: str, path: str, body: bytes) -> tuple[int, bytes]:
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": body}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
            await app(scope, receive, send)
            return sent[0]["status"], sent[1]["body"]

        text = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
        for _ in range(2):
            # Each time another event loop.
            status, body = asyncio.run(ask("POST", "/v2/models/m/infer", text))
            assert (status, b"[2.0,4.0,6.0,8.0]" in body) == (200, True)
        assert asyncio.run(ask("GET", "/v2/health/ready", b""))[0] == 200
        app.close()
        assert asyncio.run(ask("GET", "/v2/health/ready", b""))[0] == 503
        assert asyncio.run(ask("POST", "/v2/models/m/infer", text))[0] == 503
        app.load()
        assert asyncio.run(ask("POST", "/v2/models/m/infer", text))[0] == 200
        app.close()
        # One that was closed before its first request.
        app = application({"m": double})
        app.load()
        app.close()
        assert asyncio.run(ask("POST", "/v2/models/m/infer", text))[0] == 503
        assert not app.ready

    def test_unexpected_error_is_left_to_the_server_to_log(
        self, double: zrt.Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = application({"m": double})
        sent: list[Any] = []

        def fail() -> Any:
            raise ArithmeticError("a fault")

        async def ask() -> None:
            async def receive() -> Any:
                return {"type": "http.request"}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "GET", "path": "/v2/models/stats", "headers": [], "query_string": b""}
            await app(scope, receive, send)

        monkeypatch.setattr(app._load().metrics, "samples", fail)
        with pytest.raises(ArithmeticError):
            asyncio.run(ask())
        app.close()
        assert (sent[0]["status"], sent[1]["body"]) == (500, b'{"error":"the server failed: its log has the reason"}')
        assert "a fault" not in caplog.text

    def test_forked_child_loads_anew(self, python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        """As under gunicorn with `--preload`."""
        python(
            f"""
            import asyncio, os, signal, zrt
            from zrt.errors import ForkedError
            from zrt.serving import application

            async def ask(app):
                sent = []

                async def receive():
                    image = b'"name": "image", "datatype": "FP32", "shape": [0, 1, 8, 8], "data": []'
                    return {{"type": "http.request", "body": b'{{"inputs": [{{' + image + b'}}]}}'}}

                async def send(message):
                    sent.append(message)

                scope = {{"type": "http", "method": "POST", "path": "/v2/models/m/infer", "headers": []}}
                await app(scope, receive, send)
                return sent[0]["status"]

            model = {str(MODEL)!r}
            session = zrt.Session(model)
            apps = application({{"m": model}}), application({{"m": session}})
            for app in apps:
                app.load()
                assert asyncio.run(ask(app)) == 200
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                recipe, of_session = apps
                assert not recipe.ready
                assert asyncio.run(ask(recipe)) == 200
                recipe.close()
                recipe.load()
                assert asyncio.run(ask(recipe)) == 200
                assert asyncio.run(ask(of_session)) == 500
                try:
                    of_session.load()
                except ForkedError:
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            for app in apps:
                assert asyncio.run(ask(app)) == 200
                app.close()
            """
        )

    def test_signal_handler_may_close_what_its_thread_loads(
        self, double: zrt.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # It needs the packages that the class needs.
        from zrt.serving import loaded

        app = application({"m": double})

        def interrupted(*arguments: Any) -> loaded.Loaded:
            app.close()
            return make(*arguments)

        make = loaded.Loaded
        monkeypatch.setattr(loaded, "Loaded", interrupted)
        thread = threading.Thread(target=app.load, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert app.ready
        app.close()

    def test_client_that_leaves_gets_no_answer(self, double: zrt.Session) -> None:
        app = application({"m": double})

        async def leave() -> None:
            async def receive() -> Any:
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                raise AssertionError(message)

            path = "/v2/models/m/infer"
            await app({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)

        asyncio.run(leave())
        app.close()

    def test_client_that_does_not_go_on_with_its_body_is_given_up(
        self, double: zrt.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from zrt.serving import infer

        monkeypatch.setattr(infer, "PATIENCE", 0.1)
        app = application({"m": double})

        async def half() -> list[Any]:
            came = [{"type": "http.request", "body": b"{", "more_body": True}]
            sent: list[Any] = []

            async def receive() -> Any:
                return came.pop() if came else await asyncio.Event().wait()

            async def send(message: Any) -> None:
                sent.append(message)

            path = "/v2/models/m/infer"
            await app({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
            return sent

        head, body = asyncio.run(half())
        assert (head["status"], body["body"]) == (408, b'{"error":"no part of the body came for 0.1 seconds"}')
        app.close()

    def test_loop_that_ended_before_it_woke_a_thread_stops_no_other(self, double: zrt.Session) -> None:
        app = application({"m": double}, lanes=1)
        app.load()
        model = app._load().find("m", None)
        ended = asyncio.new_event_loop()
        ended.close()
        model._waking = ended

        async def ask() -> Any:
            feeds = {"x": np.ones((1, 4), np.float32)}
            return await asyncio.wait_for(model.answer(feeds, lambda results: results["y"].tolist(), None), 60)

        assert asyncio.run(ask()) == [[2] * 4]
        app.close()
