"""The CPUs that a process may use, and the threads that its sessions make."""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from zrt.environment import cpu_limits
from zrt.environment.cpu_limits import quota

Script = Callable[..., subprocess.CompletedProcess[str]]

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2, reason="needs an affinity mask and two CPUs"
)


def version_1(folder: str, granted: str, period: str) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": granted, f"{folder}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        *(
            ("0::/\n", {"cpu.max": content}, expected)
            for content, expected in (
                ("max 100000\n", None),
                ("200000 100000\n", 2),
                ("150000 100000\n", 1.5),
                ("5000 100000\n", 0.05),
                ("50000 25000\n", 2),
                ("200000\n", 2),
                ("", None),
                ("0 100000\n", None),
                ("100000 0\n", None),
                ("many few\n", None),
            )
        ),
        *(
            ("5:memory:/a\n4:cpu,cpuacct:/\n1:name=systemd:/\n", version_1("cpu,cpuacct", *times), expected)
            for *times, expected in (
                ("-1", "100000", None),
                ("250000", "100000", 2.5),
                ("50000", "", None),
                ("", "100000", None),
            )
        ),
        # The smallest of the groups around it.
        (
            "0::/pod/box\n",
            {"pod/box/cpu.max": "400000 100000", "pod/cpu.max": "150000 100000", "cpu.max": "max 100000"},
            1.5,
        ),
        # A container that sees the path of the host.
        ("3:cpu,cpuacct:/docker/1234\n0::/../docker\n", version_1("cpu", "300000", "100000"), 3),
        # Both versions side by side.
        ("2:cpu:/a\n0::/a\n", {"unified/a/cpu.max": "200000 100000", **version_1("cpu/a", "300000", "100000")}, 2),
        *((groups, {}, None) for groups in ("", "nonsense\n", "1:cpu\n", "::\n", "0::\n")),
    ],
)
def test_quota_of_a_made_up_system(tmp_path, groups, files, expected):
    """`groups` are the lines of /proc/self/cgroup, `files` those below /sys/fs/cgroup."""
    for name, content in files.items():
        file = tmp_path / "mounts" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "cgroup").write_text(groups)
    assert quota(str(tmp_path / "cgroup"), str(tmp_path / "mounts")) == expected


def test_no_quota_on_other_systems(tmp_path):
    assert quota(str(tmp_path / "none"), str(tmp_path)) is None


class TestRules:
    """From the limits to the threads of a pool."""

    @pytest.fixture(autouse=True)
    def forget(self) -> Iterator[None]:
        yield
        for cached in (quota, cpu_limits.machine_cpus, cpu_limits._cores):
            cached.cache_clear()

    @pytest.mark.parametrize(
        ("machine", "cores", "mask", "granted", "cpus", "threads"),
        [
            (16, 16, 16, None, 16, 0),
            (16, 16, 4, None, 4, 4),
            (16, 16, 16, 4.0, 4, 4),
            (16, 16, 16, 2.9, 2, 2),
            (16, 16, 16, 0.3, 1, 1),
            (16, 16, 4, 2.0, 2, 2),
            (16, 16, 2, 4.0, 2, 2),
            (16, 16, 16, 64.0, 16, 0),
            # ONNX Runtime makes 8 threads here.
            (16, 8, 16, 12.0, 12, 0),
            (16, 8, 16, 8.0, 8, 0),
            (16, 8, 16, 6.0, 6, 6),
            (16, 8, 12, None, 12, 8),
            (1, 1, 1, None, 1, 0),
        ],
    )
    def test_threads(self, monkeypatch, machine, cores, mask, granted, cpus, threads):
        # The count with musl.
        monkeypatch.setattr(os, "cpu_count", lambda: mask)
        monkeypatch.setattr(cpu_limits, "affinity", lambda: mask)
        files = {cpu_limits.ONLINE: f"0-{machine - 1}\n", cpu_limits.SMT: str(int(cores < machine))}
        with monkeypatch.context() as patch:
            patch.setattr(cpu_limits, "_read", files.__getitem__)
            cpu_limits.machine_cpus.cache_clear()
            cpu_limits._cores.cache_clear()
            cpu_limits._cores()
        monkeypatch.setattr(cpu_limits, "quota", lambda: granted)
        assert cpu_limits.cpus() == cpus
        assert cpu_limits.pool_threads() == threads

    @pytest.mark.parametrize(("online", "cpus"), [("0\n", 1), ("0-3,8,10-11\n", 7), ("", 5), ("all\n", 5)])
    def test_cpus_of_the_machine(self, monkeypatch, online, cpus):
        monkeypatch.setattr(os, "cpu_count", lambda: 5)
        monkeypatch.setattr(cpu_limits, "_read", lambda path: online)
        cpu_limits.machine_cpus.cache_clear()
        assert cpu_limits.machine_cpus() == cpus


class TestSessions:
    """The threads that sessions really make, in processes with limits."""

    @needs_affinity
    @pytest.mark.parametrize("pools", ["session", "environment"])
    def test_affinity_mask(self, script, pools):
        script("limited_threads.py", pools, "affinity")

    @pytest.mark.parametrize("pools", ["session", "environment"])
    def test_quota_of_a_cgroup(self, script, pools):
        """In a real cgroup, where this process may make one."""
        done = script("limited_threads.py", pools, "cgroup")
        if "no cgroup" in done.stdout:
            pytest.skip(done.stdout.strip())

    @needs_affinity
    def test_mask_that_changes_between_loads(self, script):
        script("changing_affinity.py")
