"""``zrt serve --workers``: several processes behind one port."""

import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import zrt
from tests.cli.served import DIGITS, LAST_COUNT, ask, end, metrics
from tests.cli.served import installed as installed
from tests.cli.served import start as start
from tests.support import models, processes
from zrt.cli.entry import make_parser
from zrt.cli.serve import make_application


def _fail_after_a_signal(folder: Path) -> None:
    """A worker whose handler of SIGTERM, as uvicorn's, only makes a note."""
    from zrt.serving.workers import _loaded

    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.raise_signal(signal.SIGTERM)

    def fail() -> Any:
        raise OSError("no model")

    _loaded(fail, folder)


class TestWorkers:
    def processes(self, address: str) -> list[int]:
        names = [name for name in metrics(address) if name.startswith("process_cpu_seconds")]
        return [int(name.partition('"')[2].rstrip('"}')) for name in names]

    def test_they_share_the_port_and_count_together(self, start, eventually, monkeypatch):
        monkeypatch.setenv("ZRT_CPUS", "5")
        process, document = start("--workers", 2)
        address = document["address"]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: ask(address, "/v2/models/digits/infer", DIGITS), range(60)))
        eventually(lambda: metrics(address)[LAST_COUNT] == 60)
        for _ in range(10):
            # Any worker answers for all of them.
            counts = metrics(address)
            assert counts['zrt_requests_total{model="digits",status="200",version="1"}'] == 60
            assert counts[LAST_COUNT] == 60
            assert counts['zrt_rows_total{model="digits",version="1"}'] == 60
            [stats] = ask(address, "/v2/models/stats")["model_stats"]
            assert (stats["inference_count"], stats["inference_stats"]["success"]["count"]) == (60, 60)
        workers = self.processes(address)
        assert len(set(workers)) == 2
        assert process.pid not in workers
        if Path("/proc/self/environ").exists():
            for worker in workers:
                assert b"ZRT_CPUS=2" in Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
        assert end(process, signal.SIGTERM) == (0, "")
        with pytest.raises(urllib.error.URLError):
            ask(address, "/v2/health/live")

    def test_dead_one_is_replaced_and_its_counts_stay(self, start, eventually, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        process, document = start("--workers", 2)
        address = document["address"]
        for _ in range(10):
            ask(address, "/v2/models/digits/infer", DIGITS)
        eventually(lambda: metrics(address)[LAST_COUNT] == 10)
        before = self.processes(address)

        def replaced() -> bool:
            try:
                now = self.processes(address)
            except OSError:
                # This connection was one of the dead worker's.
                return False
            return len(now) == 2 and before[0] not in now

        os.kill(before[0], signal.SIGKILL)
        eventually(replaced)
        eventually(lambda: len(list(tmp_path.glob("zrt-serve-*/worker.*"))) == 2)
        counts = metrics(address)
        assert counts['zrt_requests_total{model="digits",status="200",version="1"}'] == 10
        assert ask(address, "/v2/models/digits/infer", DIGITS)["model_name"] == "digits"
        code, err = end(process, signal.SIGTERM)
        assert (code, err) == (0, f"worker {before[0]} ended with SIGKILL: another one takes its place\n")

    def test_one_that_dies_while_it_is_asked_whether_it_lives_is_replaced_at_once(self, start):
        from zrt.serving.workers import HUNG_S

        process, document = start("--workers", 2)
        worker = self.processes(document["address"])[0]
        os.kill(worker, signal.SIGSTOP)
        # Longer than the supervisor takes to ask it.
        time.sleep(1)
        killed = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        assert process.stderr.readline() == f"worker {worker} ended with SIGKILL: another one takes its place\n"
        assert time.monotonic() - killed < HUNG_S / 2
        # Ctrl-C ends them too, with its own status.
        assert end(process, signal.SIGINT) == (130, "")
        with pytest.raises(urllib.error.URLError):
            ask(document["address"], "/v2/health/live")

    def test_they_end_with_a_parent_that_is_killed(self, start, eventually):
        process, document = start("--workers", 2)
        workers = self.processes(document["address"])
        process.kill()
        process.wait(60)
        eventually(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))

    def test_model_that_cannot_be_loaded_is_a_complaint(self, installed):
        done = processes.run(*processes.ZRT, "serve", "--workers", 2, "--port", 0, "no such file.onnx")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("zrt serve: ")
        assert "no such file.onnx" in done.stderr
        # Each worker has the error, and one says it.
        assert done.stderr.count("\n") == 1

    def test_one_that_cannot_start_ends_even_if_uvicorn_took_its_signal(self, installed, tmp_path):
        worker = multiprocessing.get_context("spawn").Process(target=_fail_after_a_signal, args=(tmp_path,))
        worker.start()
        worker.join(30)
        try:
            assert worker.exitcode == 1
        finally:
            worker.kill()
        assert (tmp_path / "failed").read_text() == "no model"

    @contextmanager
    def importing(self, folder: Path, work: str) -> Iterator[subprocess.Popen[str]]:
        """A server of two workers, each of which does some work at an import."""
        (folder / "busy.py").write_text(
            "import multiprocessing, os, pathlib, signal, time, zrt\n"
            f"if multiprocessing.parent_process():\n    {work}\n"
            "class Op(zrt.CustomOp):\n    inputs = outputs = ['float32']\n    def compute(self, context): ...\n"
            "nobody = zrt.CustomOpDomain('nobody', [Op()])\n"
        )
        with subprocess.Popen(
            [*processes.ZRT, "serve", "--workers", "2", "--port", "0", "--import", "busy"],
            cwd=folder,
            env={**processes.environment(), "ZRT_MODEL": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @pytest.mark.parametrize(
        ("work", "words"),
        [
            ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL before it served: it took too much memory, or .*"),
            ("os.kill(os.getpid(), signal.SIGABRT)", "SIGABRT before it served"),
            ("os._exit(3)", "status 3 before it served"),
        ],
    )
    def test_one_that_dies_while_it_loads_is_a_complaint(self, installed, tmp_path, work, words):
        with self.importing(tmp_path, work) as process:
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (1, "")
        assert re.search(rf"^zrt serve: worker \d+ ended with {words}\n\Z", err, re.MULTILINE), err

    def test_hangup_while_they_load_hides_no_failure(self, installed, tmp_path, eventually):
        work = (
            "pathlib.Path(f'loading-{os.getpid()}').touch()\n"
            "    while not pathlib.Path('go').exists():\n        time.sleep(0.01)\n"
            "    raise ValueError('no model')"
        )
        with self.importing(tmp_path, work) as process:
            eventually(lambda: len(list(tmp_path.glob("loading-*"))) == 2)
            process.send_signal(signal.SIGHUP)
            # Longer than the supervisor takes to look at its signals.
            time.sleep(1)
            (tmp_path / "go").touch()
            _, err = process.communicate(timeout=60)
        assert len(list(tmp_path.glob("loading-*"))) == 2
        assert (process.returncode, err) == (
            1,
            "zrt serve: --import: 'busy' cannot be imported: ValueError: no model\n",
        )

    def test_new_models_that_cannot_be_loaded_leave_the_old_ones(self, start, digits, eventually):
        process, document = start(digits, "--workers", 2)
        workers = self.processes(document["address"])
        digits.write_bytes(b"no model")
        process.send_signal(signal.SIGHUP)
        first, second = process.stderr.readline(), process.stderr.readline()
        assert "keeping worker" in first
        assert re.match("the workers that serve go on, as a new one could not start: .*digits.onnx", second)
        # Longer than the supervisor takes to look at its workers.
        time.sleep(1)
        assert ask(document["address"], "/v2/models/digits/infer", DIGITS)["model_name"] == "digits"
        assert set(workers) <= set(self.processes(document["address"]))
        assert end(process, signal.SIGTERM)[0] == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_signal_does_not_wait_for_new_workers_that_load(self, installed, tmp_path, number, eventually):
        from zrt.serving.workers import HUNG_S

        work = (
            "pathlib.Path(f'loading-{os.getpid()}').touch()\n"
            "    while pathlib.Path('hold').exists():\n        time.sleep(0.01)"
        )
        with self.importing(tmp_path, work) as process:
            assert process.stdout.readline()
            (tmp_path / "hold").touch()
            process.send_signal(signal.SIGHUP)
            eventually(lambda: len(list(tmp_path.glob("loading-*"))) == 3)
            begin = time.monotonic()
            process.send_signal(number)
            _, err = process.communicate(timeout=2 * HUNG_S)
        assert time.monotonic() - begin < HUNG_S / 2
        assert (process.returncode, err) == (0 if number == signal.SIGTERM else 130, "")

    def test_one_whose_operator_does_not_return_is_killed_after_the_grace(
        self, start, tmp_path, monkeypatch, eventually
    ):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "stuck.py").write_text(
            "import pathlib, threading, zrt\n"
            "class Stuck(zrt.CustomOp):\n"
            "    inputs = outputs = ['float32']\n"
            "    def compute(self, context):\n"
            "        pathlib.Path('running').touch()\n"
            "        threading.Event().wait()\n"
            "own = zrt.CustomOpDomain('own', [Stuck()])\n"
        )
        model = models.parsed("(float[n] x) => (float[n] y) { y = own.Stuck(x) }")
        model.opset_import.add(domain="own", version=1)
        (tmp_path / "stuck.onnx").write_bytes(model.SerializeToString())
        process, document = start("stuck.onnx", "--import", "stuck", "--workers", 2, "--grace", 0)
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, document["address"], "/v2/models/stuck/infer", body)
            eventually(Path("running").exists)
            code, err = end(process, signal.SIGTERM)
            with pytest.raises(urllib.error.HTTPError) as caught:
                asked.result()
        assert (code, caught.value.code, json.load(caught.value)["error"]) == (0, 503, "the server ended the request")
        assert re.search(r"^worker \d+ did not end within 5 seconds after the grace: killed$", err, re.MULTILINE)

    def forbid_files(self, process: subprocess.Popen[str]) -> None:
        """The process opens no further file, and so starts no further process."""
        opened = len(os.listdir(f"/proc/{process.pid}/fd"))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (opened, opened))

    @pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system cannot limit another process")
    def test_new_process_that_the_system_refuses_leaves_the_old_ones(self, start):
        process, document = start("--workers", 2)
        workers = self.processes(document["address"])
        self.forbid_files(process)
        process.send_signal(signal.SIGHUP)
        words = "the workers that serve go on, as a new one could not start: .*Too many open files\n"
        assert re.fullmatch(words, process.stderr.readline())
        assert self.processes(document["address"]) == workers
        assert end(process, signal.SIGTERM) == (0, "")

    @pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system cannot limit another process")
    def test_place_of_a_dead_one_that_stays_empty_ends_all(self, start):
        process, document = start("--workers", 2)
        workers = self.processes(document["address"])
        self.forbid_files(process)
        os.kill(workers[0], signal.SIGKILL)
        # Python waits for the workers at its end.
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert re.fullmatch("zrt serve: .*Too many open files\n", err)

    def test_they_divide_the_cpus(self, installed, monkeypatch, tmp_path):
        monkeypatch.setattr("zrt.environment.cpu_limits.cpus", lambda: 9)
        (tmp_path / "o.json").write_text('{"session": {"inter_op_num_threads": 1}}')
        (tmp_path / "p.json").write_text('{"session": {"intra_op_num_threads": 3}}')
        for words, threads in (
            (["--workers", "1"], 0),
            (["--workers", "2"], 4),
            (["--workers", "20"], 1),
            (["--workers", "2", "--threads", "0"], 0),
            (["--workers", "2", "--threads", "5"], 5),
            (["--workers", "2", "--options", str(tmp_path / "o.json")], 4),
            (["--workers", "2", "--options", str(tmp_path / "p.json")], 3),
        ):
            spec = make_application(make_parser().parse_args(["serve", *words]))._models["digits"]["1"]
            assert isinstance(spec, zrt.SessionSpec)
            assert spec.options.intra_op_num_threads == threads, words

    def test_under_a_budget_of_cpus_sessions_have_one_thread(self, installed, monkeypatch):
        monkeypatch.setenv("ZRT_CPUS", "4")
        for words in ([], ["--workers", "2"], ["--ray", "auto", "--cpus", "3"]):
            spec = make_application(make_parser().parse_args(["serve", *words]))._models["digits"]["1"]
            assert spec.options.intra_op_num_threads == 0, words
