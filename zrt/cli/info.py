"""``zrt info``: which ONNX Runtime is in use, what it can run on, and on which machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from zrt import providers
from zrt._native import _ort, library
from zrt.bench import machine
from zrt.cli import common
from zrt.cli.options import Option
from zrt.cli.units import plural
from zrt.environment import cpu_limits, cuda_parts, devices, telemetry
from zrt.errors import NotImplementedByOrtError

OPTIONS: tuple[Option, ...] = ()


def run(arguments: argparse.Namespace) -> int:
    document = describe()
    common.print_result(arguments, document, _show, document)
    return 0


def describe() -> dict[str, Any]:
    """The facts as plain data for JSON."""
    versions = machine.versions()
    reasons = {name: providers.usable(name) for name in providers.available_providers()}
    return {
        "versions": {**asdict(versions), "newest_tested": library.NEWEST_TESTED},
        "faults": library.library().faults,
        "required_operators": library.library().required_operators,
        "telemetry": {
            "can_report": telemetry.can_report(cuda_parts.core_file()),
            "switched_off_by": telemetry.switched_off_by(),
        },
        "mode": {
            "core": "built in" if versions.path is None else "shared library",
            "extension": "abi3" if ".abi3." in str(_ort.__file__) else "this Python only",
            # Python before 3.13 has no such function, and always a GIL.
            "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        },
        "providers": {name: {"usable": reason is None, "reason": reason} for name, reason in reasons.items()},
        "cuda": cuda_parts.search().to_dict() if providers.CUDA.name in reasons else None,
        "hardware": [_hardware(device) for device in _listed(devices.hardware_devices)],
        "devices": [_device(device) for device in _listed(devices.ep_devices)],
        "machine": asdict(machine.describe()),
        "threads": {
            "affinity": cpu_limits.affinity(),
            "quota": cpu_limits.quota(),
            "cpus": cpu_limits.cpus(),
            "session": cpu_limits.pool_threads() or None,
        },
    }


def _listed(devices: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """The devices; none for a minimal build of ONNX Runtime, which cannot list them."""
    try:
        return devices()
    except NotImplementedByOrtError:
        return ()


def _hardware(device: devices.HardwareDevice) -> dict[str, Any]:
    return {
        "type": device.type.name,
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }


def _device(device: devices.EpDevice) -> dict[str, Any]:
    return {
        "provider": device.provider,
        "vendor": device.vendor,
        "hardware": _hardware(device.hardware),
        "memory": None if device.memory is None else device.memory.name,
        "metadata": dict(device.metadata),
        "options": dict(device.options),
    }


def _show(page: common.Page, document: dict[str, Any]) -> None:
    versions, mode, host = document["versions"], document["mode"], document["machine"]
    newer = library.library().newer_than_tested
    tested = f", newer than the newest tested, {versions['newest_tested']}" if newer else ""
    gil = "with the GIL" if mode["gil"] else "free-threaded"
    page.facts(
        ("zrt", versions["zrt"]),
        ("ONNX Runtime", f"{versions['onnxruntime']}, API version {versions['api_version']}{tested}"),
        ("library", versions["path"] or "the core built into zrt"),
        ("found as", versions["source"]),
        ("built as", versions["build_info"]),
        ("telemetry", _telemetry(document["telemetry"])),
        ("mode", f"{mode['core']}, extension for {mode['extension']}"),
        *(("kernels", f"of the operators in {path} alone") for path in [document["required_operators"]] if path),
        ("Python", f"{host['python']}, {gil}, numpy {host['numpy']}"),
        ("processor", f"{host['processor']}, {plural(host['cores'], 'core')}, {host['architecture']}"),
        ("system", host["system"]),
        ("threads", _threads(document["threads"])),
        *(("fault", fault) for fault in document["faults"]),
    )
    states = document["providers"].items()
    usable = [(name, "yes" if state["usable"] else f"no: {state['reason']}") for name, state in states]
    page.table(("provider", "usable here"), usable, left=2)
    if document["cuda"]:
        _show_cuda(page, document["cuda"])
    rows = []
    for device in document["hardware"]:
        offers = [offer["provider"] for offer in document["devices"] if offer["hardware"] == device]
        number = f"{device['vendor_id']:04x}:{device['device_id']:04x}"
        rows.append((device["type"], device["vendor"], number, ", ".join(offers) or "none"))
    page.table(("device", "vendor", "PCI", "offered by"), rows, left=4)


def _telemetry(state: dict[str, Any]) -> str:
    """Whether this process can report to Microsoft, and the reason."""
    able, variable = state["can_report"], state["switched_off_by"]
    if able is False:
        return "none in this library"
    knowledge = "this library can report" if able else "whether this library can report is unknown"
    if variable:
        return f"off, by {variable}; {knowledge}"
    return f"not switched off (ORT_DISABLE_TELEMETRY=1 does so); {knowledge}"


def _threads(counts: dict[str, Any]) -> str:
    """The CPUs that the process may use, and the threads of a session that leaves their number open."""
    quota = "no quota" if counts["quota"] is None else f"a quota of {counts['quota']:g} CPUs"
    threads = counts["session"] or "as many as ONNX Runtime chooses"
    return f"{threads} in a session; affinity to {plural(counts['affinity'], 'CPU')}, {quota}"


def _show_cuda(page: common.Page, search: dict[str, Any]) -> None:
    rows = []
    for part in search["parts"]:
        state = f"no: {part['problem']}. {part['mend']}" if part["problem"] else part["path"]
        rows.append((part["name"], part["version"] or "", state))
    page.table(("for CUDA", "version", "found"), rows, left=3)
    if any(part["problem"] for part in search["parts"]):
        page.line(f"looked in {', '.join(search['places'])}")
