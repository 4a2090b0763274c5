"""The settings that `zrt.tune` tries, each of one option."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from zrt._common.config_keys import SessionConfigKey
from zrt.bench.footprint import Setting
from zrt.environment.cpu_limits import cpus
from zrt.loading.session_options import WRITING_NOTHING, SessionOptions
from zrt.session.spec import SessionSpec

Goal: TypeAlias = Literal["latency", "p99", "throughput", "memory"]

SPINNING: Final = "spinning"
# From the level below the default on.
LEVELS: Final = ("ENABLE_EXTENDED", "ENABLE_BASIC", "DISABLE_ALL")


def candidates(given: SessionOptions, goal: Goal) -> list[Setting]:
    """The settings to try for this goal, the most promising first. Options that are not the default are left out."""
    usable = cpus()
    counts = [*(1 << power for power in range(usable.bit_length()) if 1 << power < usable), usable]
    key = SessionConfigKey.DISABLE_PREPACKING
    threads = [_setting("threads", intra_op_num_threads=count) for count in counts]
    settings = [
        # Both fields, as one excludes the other.
        _setting("arena", memory="bounded", enable_cpu_mem_arena=True),
        _setting("arena", enable_cpu_mem_arena=False, memory=None),
        _setting("memory pattern", enable_mem_pattern=False),
        _setting("allocator of weights", use_device_allocator_for_initializers=True),
        *(_setting("optimization", graph_optimization_level=level) for level in LEVELS),
        Setting("prepacking", f"{key}=1", entries={key: "1"}),
    ]
    # Threads matter little for the memory, and spinning not at all.
    spinning = _setting(SPINNING, intra_op_allow_spinning=False)
    settings = [*settings, *threads] if goal == "memory" else [*threads, spinning, *settings]
    taken = given._changes().keys() | given.config_entries.keys()
    return [setting for setting in settings if taken.isdisjoint([*setting.options, *setting.entries])]


def _setting(knob: str, **fields: Any) -> Setting:
    """A setting whose first field says it."""
    name, value = next(iter(fields.items()))
    return Setting(knob, f"{name}={value}", fields)


def with_options(spec: SessionSpec, options: SessionOptions) -> SessionSpec:
    """The recipe with other options. Raises `ArgumentError` for options that contradict each other."""
    return SessionSpec(
        spec.model,
        options,
        spec.providers,
        external_data_dir=spec.external_data_dir,
        strict=spec.strict,
        allow=spec.allow,
    )


def writing_nothing(spec: SessionSpec) -> SessionSpec:
    """The recipe without the options by which each load writes files."""
    return with_options(spec, replace(spec.options, **WRITING_NOTHING))
