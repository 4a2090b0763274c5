"""The unit, the container file and the probes of docs/deployment.md fit the command and the server."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import DOCS, fences
from zrt.cli.entry import make_parser
from zrt.cli.serve import GRACE

PAGE = (DOCS / "deployment.md").read_text("utf-8")
UNIT, CONTAINER, POD = [fence.body for fence in fences(PAGE) if fence.info == "text"]


def setting(name: str) -> str:
    [value] = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return str(value)


def container(instruction: str) -> list[str]:
    [words] = re.findall(rf"^{instruction} (.*)$", CONTAINER, re.MULTILINE)
    return list(json.loads(words))


def test_commands_are_understood() -> None:
    program, *words = shlex.split(setting("ExecStart"))
    arguments = make_parser().parse_args(words)
    assert program == container("ENTRYPOINT")[0] == "/opt/zrt/bin/zrt"
    assert arguments.workers == 2
    assert arguments.grace < int(setting("TimeoutStopSec"))
    arguments = make_parser().parse_args([*container("ENTRYPOINT")[1:], *container("CMD")])
    assert (arguments.host, arguments.port, arguments.models) == ("0.0.0.0", 8000, ["digits=/srv/models/digits.onnx"])
    [stop] = re.findall(r"--stop-timeout (\d+)", PAGE)
    [args] = re.findall(r"args: (\[.*\])", POD)
    [period] = re.findall(r"terminationGracePeriodSeconds: (\d+)", POD)
    [pause] = re.findall(r'"sleep", "(\d+)"', POD)
    assert int(stop) > GRACE
    assert make_parser().parse_args(["serve", *json.loads(args)]).grace + int(pause) < int(period)


def test_probes_ask_addresses_of_the_server() -> None:
    pytest.importorskip("starlette", reason="starlette is not installed: pip install --group serving")
    from starlette.routing import Route

    from zrt.serving import application, routes

    app = application({"m": b"model"})
    made = routes.make(app)
    served = {route.path for route in made.routes if isinstance(route, Route)}
    asked = set(re.findall(r"/v2/health/\w+", PAGE))
    assert asked == {"/v2/health/live", "/v2/health/ready"}
    assert asked <= served


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_unit_is_understood_by_systemd(tmp_path: Path) -> None:
    unit = tmp_path / "zrt.service"
    # It must be a program that exists.
    unit.write_text(UNIT.replace("/opt/zrt/bin/zrt", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
