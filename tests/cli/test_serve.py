from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import pytest

import zrt
from tests.conftest import LOOP
from tests.support import processes
from zrt._common.installation import install_line
from zrt.cli.entry import make_parser
from zrt.cli.serve import make_application

DIGITS = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0] * 64}]}


@pytest.fixture
def installed() -> None:
    for package in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install --group serving")


@pytest.fixture
def start(installed: None) -> Iterator[Callable[..., Any]]:
    """Starts ``zrt serve --json`` at a free port: the process, and the document that it prints."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "zrt", "serve", "--json", "--port", "0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=processes.environment(),
            # Python handles Ctrl-C only where SIGINT is not ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        running.append(process)
        return process, processes.document(process)

    yield start
    for process in running:
        process.kill()
        process.communicate()


def ask(address: str, path: str, document: Any = None) -> Any:
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", data), timeout=60) as answer:
        return json.load(answer)


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == ""
    return process.returncode, err


def test_classifier_is_served_without_a_model(start: Callable[..., Any]) -> None:
    process, document = start()
    assert document["models"] == ["digits"]
    assert len(ask(document["address"], "/v2/models/digits/infer", DIGITS)["outputs"][0]["data"]) == 10
    assert end(process, signal.SIGTERM) == (0, "")


def test_ctrl_c_ends_the_server(start: Callable[..., Any]) -> None:
    process, _ = start()
    code, err = end(process, signal.SIGINT)
    assert (code, "Traceback" in err) == (130, False)


def test_sigterm_answers_the_requests_in_progress(start: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "loop.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> test {LOOP}'), path)
    process, document = start(path, "--lanes", 1, "--threads", 1)
    body = {
        "inputs": [
            {"name": "n", "datatype": "INT64", "shape": [], "data": [300_000]},
            {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]},
        ]
    }
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, document["address"], "/v2/models/loop/infer", body) for _ in range(3)]
        taken = 'zrt_waiting_requests{model="loop",version="1"} 2.0'
        while not any(one.done() for one in asked):
            with urllib.request.urlopen(f"{document['address']}/metrics") as answer:
                if taken in answer.read().decode():
                    break
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert [one.result()["outputs"][0]["data"] for one in asked] == [[0]] * 3
    assert process.wait(60) == 0


def test_models_have_names_and_versions(start: Callable[..., Any], saved: Callable[..., Path], installed: None) -> None:
    digits = Path(sys.modules["zrt"].__file__ or "").parent / "models" / "digits.onnx"
    copy = saved(digits.read_bytes(), "copy.onnx")
    process, document = start(copy, f"a={copy}", f"a:2={digits}", "--access-log", "--max-batch", 4, "--timeout", 9)
    assert document["models"] == ["copy", "a"]
    assert ask(document["address"], "/v2/models/a")["versions"] == ["1", "2"]
    assert ask(document["address"], "/v2/models/copy/versions/1/infer", DIGITS)["model_name"] == "copy"
    _, err = end(process, signal.SIGTERM)
    assert "POST /v2/models/copy/versions/1/infer" in err


def test_without_json_one_line_says_the_address(
    installed: None, zrt: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from zrt.serving import server

    monkeypatch.setattr(server, "serve", lambda app, listening, grace, log, started: (started(), listening.close()))
    out = zrt("serve", "--port", 0)
    assert out.startswith("zrt serves digits at http://127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("a/b=model.onnx",), 2, "'a/b'"),
        (("=model.onnx",), 2, "'=model.onnx'"),
        (("a=",), 2, "'a='"),
        (("a=x.onnx", "a=y.onnx"), 2, "'a' twice"),
        (("--max-batch", "0"), 2, "--max-batch"),
        (("--max-wait", "-1"), 2, "--max-wait"),
        (("--timeout", "0"), 2, "--timeout"),
        (("--timeout", "soon"), 2, "--timeout"),
        (("--provider", "nonsense"), 2, "nonsense"),
        (("no such file.onnx",), 1, "no such file"),
        (("--port", "65536"), 2, "65535"),
        (("--host", "host.invalid"), 1, "host.invalid"),
        (("--replicas", "2"), 2, "--replicas needs --ray"),
        (("--per-node", "2"), 2, "--per-node needs --ray"),
        (("--cpus", "2"), 2, "--cpus needs --ray"),
        (("--gpus", "0"), 2, "--gpus needs --ray"),
        (("--send",), 2, "--send needs --ray"),
        (("--app-name", "a"), 2, "--app-name needs --ray"),
        (("--route-prefix", "/a"), 2, "--route-prefix needs --ray"),
        (("--start-timeout", "2"), 2, "--start-timeout needs --ray"),
        (("--ray", "auto", "--access-log"), 2, "--access-log does not apply with --ray"),
        (("--ray", "auto", "--port", "0"), 2, "--port 0 does not apply with --ray"),
        (("--ray", "auto", "--route-prefix", "a"), 2, "'a' does not begin with /"),
        (("--ray", "auto", "--replicas", "0"), 2, "--replicas"),
        (("--ray", "auto", "--send", "no such file.onnx"), 1, "no such file.onnx"),
    ],
)
def test_wrong_use_is_a_complaint(
    installed: None, complaint: Callable[..., str], arguments: tuple[str, ...], status: int, words: str
) -> None:
    assert words in complaint("serve", *arguments, status=status)


def test_port_in_use_is_a_complaint(start: Callable[..., Any], complaint: Callable[..., str]) -> None:
    _, document = start()
    port = document["address"].rpartition(":")[2]
    assert port in complaint("serve", "--port", port, status=1)


def test_missing_package_is_a_complaint(complaint: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert install_line("serve") in complaint("serve", status=1)


def test_missing_ray_is_a_complaint(
    installed: None, complaint: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ray" else find(name))
    assert install_line("ray") in complaint("serve", "--ray", status=1)


def test_models_travel_to_a_cluster_by_path_or_as_bytes(installed: None, saved: Callable[..., Path]) -> None:
    digits = Path(sys.modules["zrt"].__file__ or "").parent / "models" / "digits.onnx"
    path = saved(digits.read_bytes(), "copy.onnx")
    for sent, model in ((["--send"], digits.read_bytes()), ([], str(path))):
        words = ["serve", str(path), "--ray", "auto", "--cpus", "3", "--provider", "tensorrt", *sent]
        made = make_application(make_parser().parse_args(words))
        spec = made._models["copy"]["1"]
        assert isinstance(spec, zrt.SessionSpec)
        # Those of --cpus.
        assert (spec.model, spec.options.intra_op_num_threads) == (model, 3)
        # This machine has not got it.
        assert spec.providers == [("TensorrtExecutionProvider", {})]


def test_defaults_are_those_of_the_application() -> None:
    arguments = make_parser().parse_args(["serve"])
    assert [arguments.max_batch, arguments.max_wait, arguments.lanes, arguments.timeout] == [None] * 4
