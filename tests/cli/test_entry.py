"""Usage, exit statuses and output streams, which all commands share."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

import zrt as package
from tests.support import models, processes
from zrt._common.installation import install_line
from zrt.cli.entry import COMMANDS

COMMAND = [sys.executable, "-m", "zrt"]
ROOT = Path(__file__).parents[2]
INTERRUPTIBLE = ROOT / "tests" / "cli" / "scripts" / "interruptible.py"


def start(*arguments: object, **options) -> subprocess.Popen[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


class TestUsage:
    def test_help_names_every_command(self, zrt):
        out = zrt("--help")
        assert all(command in out for command in COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_explains_itself(self, zrt, command):
        assert "--json" in zrt(command, "--help")

    def test_modules_of_other_commands_are_not_imported(self):
        code = "import sys; from zrt.cli import main; main(['info']); print(*sys.modules, file=sys.stderr)"
        loaded = processes.run(sys.executable, "-c", code).stderr.split()
        assert {f"zrt.cli.{command}" for command in COMMANDS} & set(loaded) == {"zrt.cli.info"}

    def test_the_version(self, zrt):
        assert zrt("--version").strip() == f"zrt {package.__version__}"

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("nope",),
            ("info", "--nope"),
            ("info", "model.onnx"),
            ("bench", "a.onnx", "b.onnx"),
            ("bench", "--runs", "0"),
            ("bench", "--runs", "many"),
            ("bench", "--threads", "-1"),
            ("serve", "--threads", "5000"),
            ("bench", "--lanes", "0"),
            ("bench", "--warmup", "1.5"),
            ("bench", "--shape", "x"),
            ("bench", "--shape", "=1,2"),
            ("bench", "--shape", "x=1,two"),
            ("bench", "--shape", "x=1,-2"),
            ("bench", "--policy", "huge"),
            ("bench", "--plot", "picture.txt"),
            ("bench", "--plot", "no-such-folder/picture.png"),
            ("compile", "a.onnx", "b.onnx", "c.onnx"),
            ("compile",),
            ("compile", "a.onnx", "no-such-folder/b.onnx"),
            ("run", "--input", "x"),
            ("run", "--input", "x="),
            ("profile", "--runs", "0"),
            ("profile", "--warmup", "-1"),
            ("profile", "--by", "thread"),
            ("profile", "--trace", "no-such-folder/trace.json"),
            ("profile", "--threads", "many"),
        ],
        ids=" ".join,
    )
    def test_wrong_usage_is_status_2_with_a_hint(self, complaint, arguments):
        assert "usage: zrt" in complaint(*arguments, status=2)

    @pytest.mark.parametrize("command", ["bench", "profile", "run"])
    def test_unknown_provider_is_wrong_usage_and_named(self, complaint, command):
        assert "'warp'" in complaint(command, "--provider", "warp", status=2)

    @pytest.mark.parametrize("command", ["info", "inspect", "run"])
    def test_wrong_variable_is_wrong_usage_and_named(self, command):
        done = processes.run(*COMMAND, command, "--json", env={**os.environ, "ZRT_CPUS": "nonsense"})
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"zrt {command}: ZRT_CPUS: 'nonsense'")

    @pytest.mark.parametrize("command", ["bench", "profile", "run"])
    @pytest.mark.parametrize(
        ("shapes", "said"),
        [
            (["nope=1"], "'nope'.*'image'"),
            (["image=1,2"], r"'image'.*batch, 1, 8, 8.*\[1, 2\]"),
            (["image=1,1,8,8", "image=2,1,8,8"], "'image' twice"),
        ],
    )
    def test_shape_that_does_not_fit_is_wrong_usage(self, complaint, command, shapes, said):
        options = [part for shape in shapes for part in ("--shape", shape)]
        assert re.search(said, complaint(command, *options, status=2))


class TestFailure:
    @pytest.mark.parametrize("command", ["bench", "inspect", "profile", "run"])
    def test_missing_model_prints_one_line(self, complaint, command):
        err = complaint(command, "nope.onnx", status=1)
        assert err == f"zrt {command}: model 'nope.onnx': there is no such file\n"

    @pytest.mark.parametrize("command", ["bench", "inspect", "profile", "run"])
    def test_invalid_model_is_named(self, complaint, saved, command):
        assert "broken.onnx" in complaint(command, saved(b"no model", "broken.onnx"), status=1)

    @pytest.mark.parametrize("command", ["bench", "info", "inspect", "profile", "run"])
    def test_missing_rich_message_says_what_to_install(self, complaint, missing, command):
        missing("rich")
        assert install_line("cli") in complaint(command, status=1)

    @pytest.mark.parametrize("command", ["bench", "profile", "run"])
    @pytest.mark.parametrize("batch", [10**12, 10**18])
    def test_too_large_inputs_are_named(self, complaint, command, batch):
        err = complaint(command, "--shape", f"image={batch},1,8,8", status=1)
        assert "input 'image'" in err

    def test_missing_library_prints_one_readable_message(self):
        with start("info", env={**os.environ, "ZRT_ORT_LIBRARY": "/nope/libonnxruntime.so"}) as process:
            out, err = process.communicate()
        assert process.returncode == 1
        assert out == ""
        assert "/nope/libonnxruntime.so" in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("command", "option", "name"), [("bench", "--plot", "figures.png"), ("profile", "--trace", "trace.json")]
)
class TestFilesThatAreWritten:
    @pytest.fixture(autouse=True)
    def _plots(self, option):
        if option == "--plot":
            pytest.importorskip("matplotlib")

    def test_existing_file_is_replaced_with_overwrite_only(
        self, zrt, complaint, saved, tmp_path, command, option, name
    ):
        path = tmp_path / name
        path.write_bytes(b"precious")
        arguments = (command, saved(models.add()), "--runs", 1, option, path)
        assert "--overwrite replaces it" in complaint(*arguments, status=2)
        assert path.read_bytes() == b"precious"
        zrt(*arguments, "--overwrite")
        assert path.stat().st_size > 100

    def test_model_is_not_replaced(self, complaint, saved, command, option, name):
        model = saved(models.add(), name)
        before = model.read_bytes()
        assert "the same file" in complaint(command, model, "--runs", 1, option, model, "--overwrite", status=2)
        assert model.read_bytes() == before

    @pytest.mark.parametrize("reason", ["too long", "written"])
    def test_name_that_the_system_refuses_is_wrong_usage(
        self, complaint, tmp_path, monkeypatch, command, option, name, reason
    ):
        path = tmp_path / name if reason == "written" else tmp_path / f"{'x' * 300}.png"
        # Root may write anywhere.
        monkeypatch.setattr(os, "access", lambda path, mode: reason != "written")
        # As from Python 3.14 on.
        monkeypatch.setattr(Path, "exists", lambda path: os.path.exists(path))
        assert reason in complaint(command, "--runs", 1, option, path, status=2)

    def test_folder_in_its_place_is_named(self, complaint, saved, tmp_path, command, option, name):
        folder = tmp_path / name
        folder.mkdir()
        assert str(folder) in complaint(command, saved(models.add()), "--runs", 1, option, folder, status=2)


@pytest.mark.parametrize("command", [("info",), ("inspect",), ("run",), ("profile", "--runs", 1)], ids=str)
def test_json_needs_no_package_for_its_output(zrt_json, missing, command):
    missing("rich")
    missing("tomli_w")
    assert zrt_json(*command)


class TestDefaultModel:
    def test_variable_names_the_default_model(self, zrt_json, saved, monkeypatch):
        path = saved(models.add())
        monkeypatch.setenv("ZRT_MODEL", str(path))
        assert zrt_json("inspect")["model"] == str(path)
        assert zrt_json("run")["model"] == str(path)
        assert zrt_json("bench", "--runs", 1)["model"]["path"] == str(path)

    def test_command_line_overrides_the_variable(self, zrt_json, saved, monkeypatch):
        monkeypatch.setenv("ZRT_MODEL", "nope.onnx")
        path = saved(models.add())
        assert zrt_json("inspect", path)["model"] == str(path)

    def test_empty_variable_is_ignored(self, zrt_json, monkeypatch):
        monkeypatch.setenv("ZRT_MODEL", "")
        assert Path(zrt_json("inspect")["model"]).name == "digits.onnx"


class TestProcess:
    def test_standard_output_has_only_json(self, saved):
        with start("bench", saved(models.add()), "--runs", 2, "--json") as process:
            out, _ = process.communicate()
        assert process.returncode == 0
        assert (out[0], out[-2:]) == ("{", "}\n")

    @pytest.mark.parametrize(
        ("arguments", "statuses"),
        # argparse passes over a failing print, and may have printed all before Python flushes.
        [(["inspect"], {141}), (["inspect", "--json"], {141}), (["--help"], {0, 141})],
        ids=["people", "json", "help"],
    )
    def test_closed_reader_is_not_an_error(self, arguments, statuses):
        with start(*arguments) as process:
            assert process.stdout is not None
            process.stdout.close()
            err = process.stderr.read()
        assert err == ""
        assert process.returncode in statuses

    def test_ctrl_c_ends_it_quietly(self, tmp_path):
        marker = tmp_path / "started.onnx"
        os.mkfifo(marker)
        # As in a terminal: children of a shell's background job ignore Ctrl-C, unless they restore its handler.
        command = [sys.executable, INTERRUPTIBLE, "run", "--input", f"image={marker}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # Opening the pipe waits until the command reads it, so the command has started.
        with subprocess.Popen(command, env=processes.environment(), **pipes) as process, marker.open("w"):
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, "")

    @pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
    def test_signals_end_it_without_leaving_files(self, tmp_path, number, status):
        process = start("profile", "--runs", 10**6, env={**processes.environment(), "TMPDIR": str(tmp_path)})
        while not any(tmp_path.glob("zrt-profile-*/*")) and process.poll() is None:
            time.sleep(0.01)
        # The trace of a run is gone when the next one begins.
        for _ in range(20):
            assert len(list(tmp_path.glob("zrt-profile-*/*"))) <= 2
            time.sleep(0.01)
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("", "")
        assert (process.returncode, list(tmp_path.iterdir())) == (status, [])

    @pytest.mark.parametrize(
        ("function", "arguments"),
        [
            ("Path.write_text", ("tune", "m.onnx", "--seconds", "0.000001", "--output", "written.json")),
            ("Path.write_text", ("compile", "m.onnx", "written", "--required-operators")),
            ("origin.append", ("compile", "m.onnx", "written.onnx")),
        ],
    )
    def test_signal_while_a_file_is_written_leaves_none(self, saved, tmp_path, function, arguments):
        saved(models.add(), "m.onnx")
        program = (
            "import signal, sys; from pathlib import Path; from zrt.loading import origin; from zrt.cli import main\n"
            "def end(path, *_): open(path, 'ab').write(b'half'); signal.raise_signal(signal.SIGTERM)\n"
            f"{function} = end\n"
            "sys.exit(main(sys.argv[1:]))"
        )
        environment = {**processes.environment(), "TMPDIR": str(tmp_path)}
        done = processes.run(sys.executable, "-c", program, *arguments, "--json", cwd=tmp_path, env=environment)
        assert (done.returncode, done.stderr, os.listdir(tmp_path)) == (143, "", ["m.onnx"])

    def test_hangup_is_ignored_after_nohup(self, tmp_path):
        heed_not = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
        options = {"env": {**processes.environment(), "TMPDIR": str(tmp_path)}, "preexec_fn": heed_not}
        process = start("profile", "--runs", 400, "--json", **options)
        while not any(tmp_path.glob("zrt-profile-*/*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        assert process.poll() is None
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err, json.loads(out)["runs"]) == (0, "", 400)

    @pytest.mark.parametrize("module", ["entry", "info"])
    def test_ctrl_c_while_its_modules_are_imported_ends_it_quietly(self, module, monkeypatch, capfd):
        class Interrupting(MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == f"zrt.cli.{module}":
                    raise KeyboardInterrupt

        monkeypatch.delitem(sys.modules, f"zrt.cli.{module}", raising=False)
        monkeypatch.delattr(package.cli, module, raising=False)
        monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
        assert package.cli.main(["info"]) == 130
        assert capfd.readouterr() == ("", "")

    def test_encoding_without_block_characters_works(self):
        with start("run", env={**os.environ, "PYTHONIOENCODING": "ascii"}) as process:
            out, err = process.communicate()
        assert process.returncode == 0, err
        assert "353 of 360 right" in out

    def test_progress_bar_is_shown_on_a_terminal_and_removed(self, saved):
        master, terminal = pty.openpty()
        command = [*COMMAND, "bench", str(saved(models.convolution())), "--shape", "image=1,1,64,64", "--runs", "40"]
        # A terminal that can go back in its line, whatever this runs in.
        able = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal, env=able)
        os.close(terminal)
        seen = _read_all(master)
        assert process.wait(30) == 0
        assert b"batches" in seen
        assert b"single calls" in seen
        # It ends by erasing its lines.
        assert seen.rstrip(b"\r\n").endswith(b"\x1b[2K")


def _read_all(descriptor: int) -> bytes:
    """The output of a pseudo-terminal until its other end is closed."""
    seen = b""
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline:
            chunk = os.read(descriptor, 4096)
            if not chunk:
                break
            seen += chunk
    except OSError:
        # Linux raises this when the other end is closed.
        pass
    finally:
        os.close(descriptor)
    return seen
