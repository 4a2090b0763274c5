"""Children import this package too, by whichever way they start: start_children.py METHOD [early]."""

import importlib
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import zrt.onnxruntime

SHOW = "import onnxruntime; print(onnxruntime.__name__)"


def module_of_onnxruntime():
    import onnxruntime

    return onnxruntime.__name__


def of_command(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout.strip()


def of_pool(method):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as executor:
        return executor.submit(module_of_onnxruntime).result()


def of_execnet():
    gateway = importlib.import_module("execnet").makegateway()
    channel = gateway.remote_exec("import onnxruntime; channel.send(onnxruntime.__name__)")
    module = channel.receive()
    gateway.exit()
    return module


def of_joblib():
    joblib = importlib.import_module("joblib")
    [module] = joblib.Parallel(n_jobs=2)(joblib.delayed(module_of_onnxruntime)() for _ in range(1))
    return module


def of_posix_spawn():
    reader, writer = os.pipe()
    action = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", SHOW], os.environ, file_actions=action)
    os.close(writer)
    with os.fdopen(reader) as output:
        text = output.read()
    assert os.waitpid(child, 0)[1] == 0
    return text.strip()


STARTS = {
    "subprocess": lambda: of_command(sys.executable, "-c", SHOW),
    "safe path": lambda: of_command(sys.executable, "-P", "-c", SHOW),
    "grandchild": lambda: of_command("sh", "-c", f"{sys.executable} -c '{SHOW}'"),
    "other folder": lambda: of_command(sys.executable, "-c", SHOW, cwd="/"),
    "posix_spawn": of_posix_spawn,
    "execnet": of_execnet,
    "joblib": of_joblib,
}

if __name__ == "__main__":
    if sys.argv[2:] == ["early"]:
        from multiprocessing import popen_forkserver, popen_spawn_posix  # noqa: F401
    zrt.onnxruntime.install()
    method = sys.argv[1]
    found = STARTS[method]() if method in STARTS else of_pool(method)
    assert found == "zrt.onnxruntime", found
