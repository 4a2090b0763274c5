"""The pinned releases of ONNX Runtime: what the flake makes of them on every system, with the stand-in for nixpkgs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.nix.conftest import ARCHIVES, ROOT, SYSTEMS, Flake, Json


class TestPins:
    def test_project_s_tests_run_on_versions_of_the_pins(self, flake: Flake, pins: Json) -> None:
        groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
        tested = {line.removeprefix("onnxruntime==") for line in groups["dev"] if line.startswith("onnxruntime==")}
        assert tested <= {version for version, release in pins.items() if "wheels" in release}
        assert groups["newest"] == [f"onnxruntime=={flake.version('onnxruntime-bin')}"]

    def test_other_files_repeat_no_version_or_hash(self, pins: Json) -> None:
        folder = ROOT / "nix"
        for file in [ROOT / "flake.nix", *folder.rglob("*")]:
            # A build hook that ran has left bytecode.
            if file.is_file() and file.suffix != ".pyc" and file != folder / "pins.nix" and file.parent.name != "pins":
                text = file.read_text("utf-8")
                # Commands are explained by a version as an example.
                named = [version for version in pins if version in text and file.stem != "update-pins"]
                assert not named, file
                assert not re.search(r"\b([0-9a-f]{40}|[0-9a-f]{64})\b|sha(1|256|512)-", text), file

    def test_fetched_files_have_the_hashes_of_the_pins(self, nix: Any, flake: Flake, pins: Json) -> None:
        named: list[Json] = [json.loads(nix("eval", "--json", "--file", "nix/pins.nix", "headers"))]
        wheels = set()
        for release in pins.values():
            named += [release[key] for key in ("source",) if key in release] + [*release.get("archives", {}).values()]
            wheels |= {(release["version"], wheel["sha256"]) for wheel in release.get("wheels", {}).values()}
        known = {(entry["url"], entry.get("sha256") or entry["sha1"]) for entry in named}
        names = [f"packages.{system}.{name}" for system, found in flake.packages.items() for name in found]
        fetched = {
            (recipe["env"]["url"], recipe["env"]["outputHash"])
            for recipe in flake.derivations(*names).values()
            if "outputHash" in recipe["env"]
        }
        packages = {(url, sha256) for url, sha256 in fetched if url.startswith("package:")}
        assert len(packages) == 4
        assert fetched - packages <= known
        assert {(url.split("-")[1], sha256) for url, sha256 in packages} <= wheels

    def test_every_pinned_release_evaluates(self, nix: Any, pins: Json) -> None:
        """From source, and as the official library, wherever its pins say so, and nowhere else."""
        done = nix.expression("""
          let
            inherit (pkgs) lib;
            try = package: builtins.tryEval (builtins.seq package.drvPath package.version);
            make = { system, cuda ? false }: version:
              let
                pkgs = stand-in { inherit system; config.allowUnfreePredicate = _: true; };
                package = prebuilt: import (nix + /onnxruntime) { inherit pkgs cuda prebuilt version; };
              in map (prebuilt: try (package prebuilt)) [ false true ];
            kinds = {
              x86_64-linux.system = "x86_64-linux";
              aarch64-linux.system = "aarch64-linux";
              aarch64-darwin.system = "aarch64-darwin";
              x86_64-linux-cuda = { system = "x86_64-linux"; cuda = true; };
            };
          in lib.genAttrs (builtins.attrNames (import (nix + /pins.nix)).releases) (
            version: builtins.mapAttrs (_: kind: make kind version) kinds
          )
        """)
        assert done.returncode == 0, done.stderr
        needed = {system: ARCHIVES[system, "onnxruntime-cpu"] for system in SYSTEMS}
        needed["x86_64-linux-cuda"] = ARCHIVES["x86_64-linux", "onnxruntime-cuda-hybrid"]
        for version, kinds in json.loads(done.stdout).items():
            assert kinds.keys() == needed.keys()
            for kind, (source, prebuilt) in kinds.items():
                complete = needed[kind] <= pins[version].get("archives", {}).keys()
                assert source == {"success": complete, "value": version if complete else False}
                there = kind in pins[version].get("wheels", {})
                assert prebuilt == {"success": there, "value": version if there else False}

    def test_packages_are_of_the_newest_complete_release(self, flake: Flake, pins: Json) -> None:
        def newest(versions: list[str]) -> str:
            return max(versions, key=lambda version: [int(number) for number in version.split(".")])

        for (system, name), archives in ARCHIVES.items():
            complete = [version for version, it in pins.items() if archives <= it.get("archives", {}).keys()]
            assert flake.version(name, system) == newest(complete)
        for system in SYSTEMS:
            there = [version for version, release in pins.items() if system in release.get("wheels", {})]
            assert flake.version("onnxruntime-bin", system) == newest(there)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ('version = "1.2.3";', "ONNX Runtime 1.2.3 is not pinned: "),
            ('version = "1.32.0";', "the pins of ONNX Runtime 1.32.0 have no abseil_cpp date"),
            ('version = "1.28.2"; prebuilt = true;', "the pins of ONNX Runtime 1.28.2 have no wheel for x86_64-linux"),
        ],
    )
    def test_release_that_is_not_pinned_is_a_readable_error(self, nix: Any, arguments: str, message: str) -> None:
        done = nix.expression(f"(import (nix + /onnxruntime) {{ inherit pkgs; {arguments} }}).outPath")
        assert done.returncode != 0, done.stdout
        assert message in done.stderr
        assert re.search(r"nix run \.#update-pins -- 1\.\d+\.\d+ makes its pins", done.stderr)

    def test_system_without_an_official_library_is_a_readable_error(self, nix: Any) -> None:
        done = nix.expression("""
          (import (nix + /onnxruntime) {
            pkgs = stand-in { system = "aarch64-linux"; };
            prebuilt = true;
            cuda = true;
          }).outPath
        """)
        assert done.returncode != 0
        assert "no pinned release of ONNX Runtime has all that it takes for aarch64-linux-cuda" in done.stderr

    def test_file_of_update_pins_is_a_release_too(self, nix: Any) -> None:
        (nix.scratch / "own.nix").write_text(
            (ROOT / "nix" / "pins" / "1.28.2.nix").read_text().replace("1.28.2", "9.8.7")
        )
        path = nix.inside(nix.scratch / "own.nix")
        for version in (path, f'"{path}"'):
            done = nix.expression(f"(import (nix + /zrt) {{ inherit pkgs; version = {version}; }}).onnxruntime.name")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == "onnxruntime-cpu-9.8.7"

    def test_archives_are_those_of_the_release(self, pins: Json, source: Path) -> None:
        rows = (source / "cmake" / "deps.txt").read_text("utf-8").splitlines()
        deps = {row.split(";")[0]: row.split(";")[1:] for row in rows if row and not row.startswith("#")}
        for name, archive in pins["1.27.0"]["archives"].items():
            assert deps[name] == [archive["url"], archive["sha1"]], name

    # The archives that upstream's CMake files need for builds that this flake does not have.
    OTHER_BUILDS = frozenset(
        [
            "cxxopts",
            "dawn",
            "directx_headers",
            "dlpack",
            "duktape",
            "extensions",
            "fxdiv",
            "google_benchmark",
            "googletest",
            "googlexnnpack",
            "kleidiai-qmx",
            "microsoft_wil",
            "mimalloc",
            "onnx_tensorrt",
            "protoc_linux_aarch64",
            "protoc_linux_x64",
            "protoc_linux_x86",
            "protoc_win32",
            "protoc_win64",
            "pthreadpool",
            "pybind11",
            "tensorboard",
            "vulkan_headers",
        ]
    )

    def test_no_archive_of_the_release_is_missing(self, pins: Json, source: Path) -> None:
        files = [*(source / "cmake").rglob("*.cmake"), *(source / "cmake").rglob("CMakeLists.txt")]
        taken = {name for file in files for name in re.findall(r"DEP_URL_([\w-]+)\}", file.read_text("utf-8"))}
        assert taken == pins["1.27.0"]["archives"].keys() | self.OTHER_BUILDS
