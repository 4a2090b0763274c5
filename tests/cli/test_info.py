import os
import platform

import numpy as np
import pytest

import zrt as package
from zrt import available_providers, providers
from zrt._native import library as native
from zrt._native import library_files
from zrt._native.library import NEWEST_TESTED, library
from zrt.environment import cpu_limits, cuda_parts, devices, telemetry
from zrt.environment.cuda_parts import Part
from zrt.errors import NotImplementedByOrtError


def test_json_has_all_facts(zrt_json):
    document = zrt_json("info")
    loaded = library()
    assert document["versions"] == {
        "zrt": package.__version__,
        "onnxruntime": loaded.version,
        "api_version": loaded.api_version,
        "path": loaded.path,
        "source": loaded.source,
        "build_info": loaded.build_info,
        "newest_tested": NEWEST_TESTED,
    }
    machine = document["machine"]
    assert machine["numpy"] == np.__version__
    assert platform.python_version() in machine["python"]
    assert machine["processor"]
    assert 1 <= machine["usable_cores"] <= machine["cores"] == os.cpu_count()
    assert machine["cache_bytes"] >= 1 << 20
    assert set(document["mode"]) == {"core", "extension", "gil"}


def test_threads_and_the_limits_behind_them(zrt_json, zrt, monkeypatch):
    monkeypatch.setattr(cpu_limits, "affinity", lambda: 6)
    monkeypatch.setattr(cpu_limits, "quota", lambda: 2.5)
    monkeypatch.setattr(cpu_limits, "machine_cpus", lambda: 8)
    monkeypatch.setattr(cpu_limits, "_cores", lambda: 8)
    assert zrt_json("info")["threads"] == {"affinity": 6, "quota": 2.5, "cpus": 2, "session": 2}
    assert "2 in a session; affinity to 6 CPUs, a quota of 2.5 CPUs" in zrt("info")
    monkeypatch.setattr(cpu_limits, "affinity", lambda: 8)
    monkeypatch.setattr(cpu_limits, "quota", lambda: None)
    assert zrt_json("info")["threads"] == {"affinity": 8, "quota": None, "cpus": 8, "session": None}
    assert "as many as ONNX Runtime chooses in a session; affinity to 8 CPUs, no quota" in zrt("info")


def test_each_provider_is_usable_or_has_a_reason(zrt_json):
    listed = zrt_json("info")["providers"]
    assert list(listed) == available_providers()
    assert listed["CPUExecutionProvider"] == {"usable": True, "reason": None}
    for name, state in listed.items():
        assert state["reason"] == providers.usable(name)


def test_text_has_the_same_facts(zrt):
    out = zrt("info")
    loaded = library()
    for fact in (package.__version__, loaded.version, loaded.source, np.__version__, "CPUExecutionProvider"):
        assert fact in out
    # A list such as "git-branch=HEAD, git-commit-id=8f0278c77b, build type=Release".
    facts = dict(fact.split("=", 1) for fact in loaded.build_info.split(", "))
    assert facts["build type"] in out


@pytest.mark.parametrize(
    ("version", "newer"),
    [("1.27.0", False), ("1.9.9", False), (NEWEST_TESTED, False), ("1.32.1", True), ("1.33.0", True), ("2.0", True)],
)
def test_library_newer_than_the_newest_tested_is_named(zrt, monkeypatch, version, newer):
    monkeypatch.setattr(native, "_library", library()._replace(version=version))
    assert (f"ONNX Runtime  {version}, API version" in zrt("info")) is True
    assert (f"newer than the newest tested, {NEWEST_TESTED}" in zrt("info")) is newer


@pytest.mark.parametrize(
    ("version", "faulty"),
    [
        ("1.27.0", True),
        ("1.28.2", True),
        ("1.28.3", False),
        ("1.29.0", True),
        ("1.30.0", True),
        ("1.30.1", False),
        ("1.31.0", False),
        ("1.32.0", False),
        ("2.0", False),
    ],
)
def test_library_with_faults_is_named(zrt, zrt_json, monkeypatch, version, faulty):
    monkeypatch.setattr(native, "_library", library()._replace(version=version))
    assert bool(zrt_json("info")["faults"]) is faulty
    assert ("can write outside its memory" in zrt("info")) is faulty


@pytest.mark.parametrize(
    ("able", "variable", "words"),
    [
        (False, "ORT_DISABLE_TELEMETRY", "none in this library"),
        (False, None, "none in this library"),
        (True, "ORT_DISABLE_TELEMETRY", "off, by ORT_DISABLE_TELEMETRY; this library can report"),
        (True, None, "not switched off (ORT_DISABLE_TELEMETRY=1 does so); this library can report"),
        (None, "CI", "off, by CI; whether this library can report is unknown"),
        (None, None, "not switched off (ORT_DISABLE_TELEMETRY=1 does so); whether this library can report is unknown"),
    ],
)
def test_telemetry_and_its_switch_are_named(zrt, zrt_json, monkeypatch, able, variable, words):
    monkeypatch.setattr(telemetry, "can_report", lambda file: able)
    monkeypatch.setattr(telemetry, "switched_off_by", lambda: variable)
    assert zrt_json("info")["telemetry"] == {"can_report": able, "switched_off_by": variable}
    assert f"telemetry {words}" in " ".join(zrt("info").split())


def test_telemetry_is_that_of_the_loaded_library(zrt_json, monkeypatch):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "1")
    able = telemetry.can_report(cuda_parts.core_file())
    assert zrt_json("info")["telemetry"] == {"can_report": able, "switched_off_by": "ORT_DISABLE_TELEMETRY"}


def test_engine_with_few_kernels_names_its_list(zrt, zrt_json, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "_library", library()._replace(path=None))
    assert zrt_json("info")["required_operators"] is None
    path = tmp_path / "required-operators"
    monkeypatch.setattr(library_files, "_REQUIRED_OPERATORS", str(path))
    path.write_text("ai.onnx;17;Relu\n")
    assert zrt_json("info")["required_operators"] == str(path)
    assert "of the operators in" in zrt("info")


def test_list_of_operators_is_that_of_a_core_built_in(zrt_json, monkeypatch, tmp_path):
    """A library that a variable names has kernels of its own."""
    monkeypatch.setattr(native, "_library", library()._replace(path="/a/libonnxruntime.so"))
    monkeypatch.setattr(library_files, "_REQUIRED_OPERATORS", str(tmp_path))
    assert zrt_json("info")["required_operators"] is None


def test_library_that_cannot_list_devices_has_none(zrt, zrt_json, monkeypatch):
    """A minimal build of ONNX Runtime."""

    def refuse():
        raise NotImplementedByOrtError("GetNumHardwareDevices is not available in minimal build")

    monkeypatch.setattr(devices, "hardware_devices", refuse)
    monkeypatch.setattr(devices, "ep_devices", refuse)
    document = zrt_json("info")
    assert document["hardware"] == document["devices"] == []
    assert "CPUExecutionProvider" in zrt("info")


def test_library_without_cuda_needs_no_parts(zrt_json, zrt):
    if "CUDAExecutionProvider" in available_providers():
        pytest.skip("this library has CUDA, whose parts `zrt info` lists")
    assert zrt_json("info")["cuda"] is None
    assert "for CUDA" not in zrt("info")


def test_parts_for_cuda_have_a_place_or_a_mend(zrt_json, zrt, monkeypatch):
    parts = (
        Part("NVIDIA driver", "libcuda.so.1", problem="missing", mend="install it"),
        Part("cuDNN", "libcudnn.so.9", "/opt/lib/libcudnn.so.9", "9.1.2"),
    )
    monkeypatch.setattr(cuda_parts, "search", lambda: cuda_parts.Search(parts, ("/here", "there")))
    monkeypatch.setattr(providers, "available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    cuda = zrt_json("info")["cuda"]
    assert cuda["places"] == ["/here", "there"]
    assert [part["name"] for part in cuda["parts"]] == ["NVIDIA driver", "cuDNN"]
    assert cuda["parts"][1] == {
        "name": "cuDNN",
        "file": "libcudnn.so.9",
        "path": "/opt/lib/libcudnn.so.9",
        "version": "9.1.2",
        "problem": None,
        "mend": None,
        "optional": False,
    }
    out = " ".join(zrt("info").split())
    for words in ("for CUDA", "missing. install it", "9.1.2 /opt/lib/libcudnn.so.9", "looked in /here, there"):
        assert words in out


def test_long_path_is_shown_whole(zrt, monkeypatch):
    path = "/opt/" + "cuda/" * 40 + "libcudart.so.13"
    parts = (Part("CUDA runtime", "libcudart.so.13", path, "13.0"),)
    monkeypatch.setattr(cuda_parts, "search", lambda: cuda_parts.Search(parts, ()))
    monkeypatch.setattr(providers, "available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert path in "".join(zrt("info").split())


def test_devices_name_their_providers(zrt_json, zrt):
    document = zrt_json("info")
    assert len(document["hardware"]) == len(package.hardware_devices())
    (device,) = (device for device in document["devices"] if device["provider"] == "CPUExecutionProvider")
    assert (device["hardware"]["type"], device["vendor"], device["memory"]) == ("CPU", "Microsoft", None)
    assert device["hardware"] in document["hardware"]
    assert device["metadata"]["version"] == library().version
    out = zrt("info")
    assert "offered by" in out
    assert package.hardware_devices()[-1].vendor in out
