"""``zrt info``: which ONNX Runtime is in use, what it can run on, and on which machine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from zrt import providers
from zrt._native import _ort, library
from zrt.bench import machine
from zrt.cli import common
from zrt.cli.units import plural
from zrt.environment import cpu_limits, cuda_parts, devices

SUMMARY = "Say which ONNX Runtime is in use, what it can run on, and on which machine."


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """``zrt info`` has no options of its own."""


def run(arguments: argparse.Namespace) -> int:
    """Carries out ``zrt info``."""
    if not arguments.json:
        common.require_terminal()
    found = describe()
    if arguments.json:
        common.print_json(found)
    else:
        _show(found)
    return 0


def describe() -> dict[str, Any]:
    """The facts as plain data for JSON."""
    versions = machine.versions()
    reasons = {name: providers.usable(name) for name in providers.available_providers()}
    return {
        "versions": {**asdict(versions), "newest_tested": library.NEWEST_TESTED},
        "mode": {
            "core": "built in" if versions.path is None else "shared library",
            "extension": "abi3" if ".abi3." in str(_ort.__file__) else "this Python only",
            "gil": _has_gil(),
        },
        "providers": {name: {"usable": reason is None, "reason": reason} for name, reason in reasons.items()},
        "cuda": asdict(cuda_parts.search()) if providers.CUDA.name in reasons else None,
        "hardware": [_hardware(device) for device in devices.hardware_devices()],
        "devices": [_device(device) for device in devices.ep_devices()],
        "machine": asdict(machine.describe()),
        "threads": {
            "affinity": cpu_limits.affinity(),
            "quota": cpu_limits.quota(),
            "cpus": cpu_limits.cpus(),
            "session": cpu_limits.pool_threads() or None,
        },
    }


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


def _has_gil() -> bool:
    """Whether the GIL is on; it always is before Python 3.13."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is None or bool(enabled())


def _show(found: dict[str, Any]) -> None:
    from zrt.cli.terminal import console, facts, table

    versions, mode, host = found["versions"], found["mode"], found["machine"]
    newer = library.library().newer_than_tested
    tested = f", newer than the newest tested, {versions['newest_tested']}" if newer else ""
    threads = "with the GIL" if mode["gil"] else "free-threaded"
    out = console()
    out.print(
        facts(
            ("zrt", versions["zrt"]),
            ("ONNX Runtime", f"{versions['onnxruntime']}, API version {versions['api_version']}{tested}"),
            ("library", versions["path"] or "the core built into zrt"),
            ("found as", versions["source"]),
            ("built as", versions["build_info"]),
            ("mode", f"{mode['core']}, extension for {mode['extension']}"),
            ("Python", f"{host['python']}, {threads}, numpy {host['numpy']}"),
            ("processor", f"{host['processor']}, {plural(host['cores'], 'core')}, {host['architecture']}"),
            ("system", host["system"]),
            ("threads", _threads(found["threads"])),
        ),
        soft_wrap=True,
    )
    made = table("provider", "usable here", left=2)
    for name, state in found["providers"].items():
        made.add_row(name, "yes" if state["usable"] else f"no: {state['reason']}")
    out.print(made)
    if found["cuda"]:
        _show_cuda(found["cuda"])
    made = table("device", "vendor", "PCI", "offered by", left=4)
    for device in found["hardware"]:
        offers = [offer["provider"] for offer in found["devices"] if offer["hardware"] == device]
        number = f"{device['vendor_id']:04x}:{device['device_id']:04x}"
        made.add_row(device["type"], device["vendor"], number, ", ".join(offers) or "none")
    out.print(made)


def _threads(found: dict[str, Any]) -> str:
    """The CPUs that the process may use, and the threads of a session that leaves their number open."""
    granted = "no quota" if found["quota"] is None else f"a quota of {found['quota']:g} CPUs"
    made = "as many as ONNX Runtime chooses" if found["session"] is None else str(found["session"])
    return f"{made} in a session; affinity to {plural(found['affinity'], 'CPU')}, {granted}"


def _show_cuda(search: dict[str, Any]) -> None:
    from zrt.cli.terminal import console, table

    out = console()
    made = table("for CUDA", "version", "found", left=3)
    for part in search["parts"]:
        state = f"no: {part['problem']}. {part['mend']}" if part["problem"] else part["path"]
        made.add_row(part["name"], part["version"] or "", state)
    out.print(made)
    if any(part["problem"] for part in search["parts"]):
        out.print("looked in", ", ".join(search["places"]), soft_wrap=True)
