"""Evaluations of the flake on every system, with the stand-in for nixpkgs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.nix.conftest import ARCHIVES, LINUX, ROOT, SYSTEMS, Flake, Json, files_of_the_checkout


class TestOutputs:
    def test_every_system_has_its_packages(self, flake: Flake) -> None:
        everywhere = {"default", "onnxruntime-bin", "onnxruntime-cpu", "zrt-cpu"}
        cuda = {"onnxruntime-bin-cuda", "onnxruntime-cuda-hybrid", "zrt-cuda", "bundle-cuda"}
        assert {system: set(packages) for system, packages in flake.packages.items()} == {
            "x86_64-linux": everywhere | {"bundle-cpu"} | cuda,
            "aarch64-linux": everywhere | {"bundle-cpu"},
            "aarch64-darwin": everywhere,
        }

    def test_default_package_is_zrt_on_its_own_core(self, flake: Flake) -> None:
        for packages in flake.packages.values():
            assert packages["default"] == packages["zrt-cpu"]

    def test_every_app_has_a_description(self, nix: Any) -> None:
        apps = nix.evaluate("apps", "builtins.mapAttrs (_: builtins.mapAttrs (_: app: app.meta.description))")
        names = {"default", "bench-cpu", "zrt", "update-pins"}
        assert {system: set(found) for system, found in apps.items()} == {
            "x86_64-linux": names | {"bench-cuda"},
            "aarch64-linux": names,
            "aarch64-darwin": names,
        }
        assert all(len(description) > 20 for found in apps.values() for description in found.values())

    def test_shells(self, nix: Any) -> None:
        shells = nix.evaluate("devShells", "builtins.mapAttrs (_: builtins.mapAttrs (_: shell: shell.drvPath))")
        names = {"default", "cpu", "source"}
        assert {system: set(found) for system, found in shells.items()} == {
            "x86_64-linux": names | {"cuda"},
            "aarch64-linux": names,
            "aarch64-darwin": names,
        }
        assert all(found["default"] == found["cpu"] for found in shells.values())

    def test_checks(self, nix: Any) -> None:
        checks = nix.evaluate("checks", "builtins.mapAttrs (_: builtins.attrNames)")
        names = {"tests", "lints", "formatting", "closure", "drop-in", "template"}
        assert {system: set(found) for system, found in checks.items()} == {
            system: names | ({"bundle"} if system in LINUX else set()) for system in SYSTEMS
        }

    def test_linters_get_every_python_file_and_script(self, nix: Any) -> None:
        source = nix.evaluate("checks.x86_64-linux.lints", "p: p.attributes.src")
        listed = nix.plain("store", "ls", "--recursive", source).split()
        wanted = {name for name in files_of_the_checkout() if name.endswith((".py", ".pyi", ".sh"))}
        assert wanted | {"pyproject.toml"} <= {name.removeprefix("./") for name in listed}

    @pytest.mark.parametrize("command", [["show", "--all-systems"], ["check", "--no-build", "--all-systems"]])
    def test_show_and_check_are_clean(self, nix: Any, command: list[str]) -> None:
        done = nix.run("flake", *command, *nix.overrides())
        assert done.returncode == 0, done.stderr
        # Nix warns that the stand-in is not in the lock file, which is intended.
        said = re.findall(r"warning: (.*)", done.stderr)
        assert [line for line in said if "not writing modified lock file" not in line] == []

    def test_lock_file_does_not_change(self, nix: Any) -> None:
        lock = nix.checkout / "flake.lock"
        before = lock.read_bytes()
        done = nix.run("flake", "lock")
        assert done.returncode == 0, done.stderr
        assert lock.read_bytes() == before
        node = json.loads(before)["nodes"]["nixpkgs"]
        assert node["original"] == {"owner": "NixOS", "ref": "nixos-unstable", "repo": "nixpkgs", "type": "github"}


class TestOnnxruntime:
    @pytest.mark.parametrize(("system", "name"), ARCHIVES)
    def test_mirror_is_complete(self, flake: Flake, pins: Json, system: str, name: str) -> None:
        archives = pins[flake.version(name, system)]["archives"]
        wanted = {archives[archive]["url"].removeprefix("https://") for archive in ARCHIVES[system, name]}
        assert set(flake.packages[system][name]["archives"]) == wanted

    @pytest.mark.parametrize(("system", "name"), ARCHIVES)
    def test_data_for_sboms_is_that_of_the_package(
        self, nix: Any, flake: Flake, pins: Json, system: str, name: str
    ) -> None:
        engines = json.loads(nix("eval", "--json", "--file", "nix/engines.nix"))
        engine, package = engines[f"{name}-{system}"], flake.packages[system][name]
        assert engine["archives"].keys() == ARCHIVES[system, name] | {"onnxruntime"}
        assert engine["version"] == flake.version(name, system)
        assert engine["archives"]["onnxruntime"]["sha256"] == pins[engine["version"]]["source"]["sha256"]
        assert engine["flags"] == {flag: package["flags"][flag] for flag in engine["flags"]}
        assert package["flags"].keys() - engine["flags"].keys() <= {"onnxruntime_CUDNN_HOME"}

    @pytest.mark.parametrize("system", sorted(SYSTEMS))
    def test_flags_of_every_build(self, flake: Flake, system: str) -> None:
        package = flake.packages[system]["onnxruntime-cpu"]
        flags = package["flags"]
        assert flags["FETCHCONTENT_TRY_FIND_PACKAGE_MODE"] == "NEVER"
        assert flags["protobuf_WITH_ZLIB"] is False
        assert flags["CMAKE_POSITION_INDEPENDENT_CODE"] is True
        assert flags["onnxruntime_BUILD_SHARED_LIB"] is False
        assert flags["onnxruntime_USE_CUDA"] is False
        assert flags["onnxruntime_USE_COREML"] is (system == "aarch64-darwin")
        assert flags["onnxruntime_USE_KLEIDIAI"] is flags["onnxruntime_USE_SVE"] is (system == "aarch64-linux")
        assert flags["onnxruntime_USE_TELEMETRY"] is False
        assert "FETCHCONTENT_FULLY_DISCONNECTED" not in flags
        assert "CMAKE_CUDA_ARCHITECTURES" not in flags
        assert "-Donnxruntime_BUILD_SHARED_LIB=OFF" in package["cmakeFlags"]
        assert "--compile-no-warning-as-error" in package["cmakeFlags"]
        # The hook of nixpkgs' cmake splits them at spaces.
        assert not [flag for flag in package["cmakeFlags"] if " " in flag]
        aligned = [flag for flag in package["cmakeFlags"] if flag.startswith("-DCMAKE_ASM_FLAGS=-include/nix/store/")]
        assert len(aligned) == (system == "x86_64-linux")
        assert any(flag.startswith("-Donnxruntime_CMAKE_DEPS_MIRROR_DIR=/nix/store/") for flag in package["cmakeFlags"])
        assert "re2" in package["postBuild"]
        assert package["preBuild"] == ""
        assert "check-no-cuda.sh" in package["installCheck"]
        assert "check-silent.sh" in package["installCheck"]
        assert package["providers"] is None or package["providers"] == []

    def test_flags_of_the_cuda_build(self, flake: Flake, pins: Json) -> None:
        package = flake.packages["x86_64-linux"]["onnxruntime-cuda-hybrid"]
        flags = package["flags"]
        assert flags["onnxruntime_USE_CUDA"] is True
        assert flags["onnxruntime_NVCC_THREADS"] == "1"
        assert flags["onnxruntime_CUDNN_HOME"].endswith("-cudnn-13.0-dev")
        # The last one is PTX, which later GPUs compile.
        assert flags["CMAKE_CUDA_ARCHITECTURES"] == ";".join(pins["1.27.0"]["cuda"]["architectures"])
        assert flags["CMAKE_CUDA_ARCHITECTURES"].endswith("-virtual")
        assert flags["onnxruntime_BUILD_SHARED_LIB"] is False
        assert "CUDAToolkit_ROOT" not in flags
        hooks = {name.removesuffix("-13.0") for name in package["hooks"]}
        assert hooks == {"cmake", "ninja", "python3-3.14", "cuda_nvcc"} | {
            "auto-add-driver-runpath-hook",
            "remove-references-to",
        }
        inputs = {name.removesuffix("-13.0") for name in package["inputs"]}
        assert inputs == {"cuda_cudart", "cuda_cccl", "libcublas", "libcurand", "libcufft", "cuda_nvrtc", "cudnn"}
        assert package["features"] == ["big-parallel"]
        assert "NIX_BUILD_CORES=8" in package["preBuild"]
        assert any("cuda_nvcc" in path for path in package["forbidden"])
        assert "check-cuda.sh" in package["installCheck"]
        assert package["providers"] == [
            f"{package['out']}/lib/libonnxruntime_providers_{name}.so" for name in ("shared", "cuda")
        ]

    @pytest.mark.parametrize("system", sorted(SYSTEMS))
    def test_how_to_link(self, flake: Flake, system: str) -> None:
        static, shared = (flake.packages[system][name] for name in ("onnxruntime-cpu", "onnxruntime-bin"))
        assert static["linkArgs"][0] == f"{static['out']}/lib/libonnxruntime.a"
        if system in LINUX:
            assert {"-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-Wl,-z,noexecstack"} <= set(static["linkArgs"])
        else:
            assert "CoreML" in static["linkArgs"]
        assert f"-Wl,-rpath,{shared['out']}/lib" in shared["linkArgs"]

    WRONG = (
        ("cuda = true; cudaPackages = pkgs.cudaPackages_13_3;", "cudaPackages is CUDA 13.3; ONNX Runtime"),
        ("cuda = true; cudaPackages = null;", "this nixpkgs has no CUDA set"),
        ("cuda = true; cudaPackages = { };", "is not a CUDA set of nixpkgs"),
        ('cuda = true; cudaPackages = removeAttrs pkgs.cudaPackages_13 [ "cudnn" ];', "(CUDA 13.0) lacks cudnn"),
        ("cuda = true;", "has an unfree license"),
        ('linkage = "dynamic";', "linkage must be one of static, shared"),
        ("coreml = true;", "CoreML is there on macOS only"),
        ("lto = true;", "lto goes with linkage"),
        ('profile = [ ./m ]; linkage = "shared";', 'profile goes with linkage = "static" on Linux, without CUDA'),
        ("minimal = true; cuda = true;", "minimal goes without CUDA"),
        ("models = [ ./m ]; requiredOperators = ./o;", "models and requiredOperators both say which kernels there are"),
        ('models = [ "model.onnx" ];', "models and profile are lists of files, such as [ ./model.onnx ]"),
        ("profile = ./model.onnx;", "models and profile are lists of files, such as [ ./model.onnx ]"),
        (
            'minimal = true; models = [ "${nix}/a/model.onnx" "${nix}/b/model.onnx" ];',
            "models with one name: model.ort model.ort would be files of one folder",
        ),
    )

    @pytest.mark.parametrize(("arguments", "message"), WRONG)
    def test_wrong_argument_is_a_readable_error(self, nix: Any, arguments: str, message: str) -> None:
        done = nix.expression(f"(import (nix + /onnxruntime) {{ inherit pkgs; {arguments} }}).outPath")
        assert done.returncode != 0, done.stdout
        assert message in done.stderr

    def test_a_shared_library(self, nix: Any) -> None:
        done = nix.expression("""
          let
            package = import (nix + /onnxruntime) {
              inherit pkgs;
              linkage = "shared";
              lto = true;
              extraFlags.onnxruntime_DISABLE_CONTRIB_OPS = true;
              maxJobs = 4;
            };
          in { inherit (package) flags; inherit (package.attributes) postBuild preBuild postInstall; }
        """)
        facts = json.loads(done.stdout)
        assert facts["flags"]["onnxruntime_BUILD_SHARED_LIB"] is facts["flags"]["onnxruntime_ENABLE_LTO"] is True
        assert facts["flags"]["onnxruntime_DISABLE_CONTRIB_OPS"] is True
        assert "NIX_BUILD_CORES=4" in facts["preBuild"]
        assert facts["postBuild"] == ""
        assert "merge-archives" not in facts["postInstall"]

    def test_minimal_engine_for_macos_has_no_coreml(self, nix: Any) -> None:
        """Upstream's build refuses both together."""
        done = nix.expression("""
          map
            (minimal: (import (nix + /onnxruntime) {
              inherit minimal;
              pkgs = stand-in { system = "aarch64-darwin"; };
              models = [ "${nix}/text.onnx" ];
            }).flags.onnxruntime_USE_COREML)
            [ false true ]
        """)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [True, False]

    def test_prepared_model_has_the_name_of_its_file(self, nix: Any) -> None:
        done = nix.expression("""
          (import (nix + /onnxruntime/prepared-models.nix) {
            inherit pkgs;
            models = [ (pkgs.fetchurl { url = "https://host/fetched.onnx"; sha256 = ""; }) "${nix}/text.onnx" ];
            minimal = true;
          }).attributes.buildCommand
        """)
        assert done.returncode == 0, done.stderr
        assert re.findall(r"\"\$out\"/(\S+\.ort)", json.loads(done.stdout)) == ["fetched.ort", "text.ort"]

    @pytest.mark.parametrize("cuda", ["false", "true"])
    def test_models_are_prepared_by_the_release_that_is_built(self, nix: Any, cuda: str) -> None:
        done = nix.expression(f"""
          let engine = import (nix + /onnxruntime) {{
            inherit pkgs;
            cuda = {cuda};
            models = [ "${{nix}}/text.onnx" ];
          }};
          in map (each: each.version) [
            engine
            (builtins.head engine.preparedModels.attributes.nativeBuildInputs).onnxruntime
          ]
        """)
        assert done.returncode == 0, done.stderr
        built, full = json.loads(done.stdout)
        assert built == full

    def test_engine_for_a_profile_takes_the_counts_of_another(self, nix: Any) -> None:
        done = nix.expression("""
          let
            core = arguments: import (nix + /onnxruntime) ({ inherit pkgs; } // arguments);
            trained = (import (nix + /zrt) { inherit pkgs; profile = [ (nix + /pins.nix) ]; }).onnxruntime;
          in
          map (core: [ core.outPath (core.flags.ZRT_COUNTED or "") ]) [ (core { }) trained (core { counting = true; }) ]
        """)
        assert done.returncode == 0, done.stderr
        paths, options = zip(*json.loads(done.stdout), strict=True)
        assert len(set(paths)) == 3
        assert [text.partition(";")[0] for text in options] == ["", "-fprofile-use", "-fprofile-generate"]


class TestZrt:
    @pytest.mark.parametrize("system", sorted(SYSTEMS))
    def test_core_is_linked_into_zrt(self, flake: Flake, system: str) -> None:
        package, core = (flake.packages[system][name] for name in ("zrt-cpu", "onnxruntime-cpu"))
        environment = package["environment"]
        assert environment["ZRT_ORT_INCLUDE_DIR"] == f"{core['out']}/include"
        assert environment["ZRT_ORT_LINK_ARGS"].startswith(f"{core['out']}/lib/libonnxruntime.a ")
        assert ("-Wl,-exported_symbol,_PyInit__ort" in environment["ZRT_ORT_LINK_ARGS"]) is (system not in LINUX)
        assert ("check-extension.sh" in package["postFixup"]) is (system in LINUX)
        assert package["forbidden"] == [core["out"]]
        assert "check-no-cuda.sh" in package["postFixup"]
        assert "ln -s" not in package["postFixup"]

    def test_providers_are_linked_beside_the_extension(self, flake: Flake) -> None:
        package = flake.packages["x86_64-linux"]["zrt-cuda"]
        for provider in flake.packages["x86_64-linux"]["onnxruntime-cuda-hybrid"]["providers"]:
            assert f"ln -s {provider} $out/lib/python3.14/site-packages/zrt/_native/" in package["postFixup"]
        assert package["forbidden"] == []
        assert "check-no-cuda.sh" not in package["postFixup"]

    @pytest.mark.parametrize("system", sorted(SYSTEMS))
    def test_cpu_outputs_do_not_depend_on_cuda(self, flake: Flake, system: str) -> None:
        outputs = [name for name in flake.packages[system] if "cuda" not in name]
        recipes = flake.derivations(
            *(f"packages.{system}.{name}" for name in outputs),
            *(f"devShells.{system}.{name}" for name in ("cpu", "source")),
            *(f"checks.{system}.{name}" for name in ("tests", "template")),
        )
        names = {recipe["name"] for recipe in recipes.values()}
        assert any(name.startswith("zrt-") for name in names)
        assert not [name for name in names if re.search("cuda|cudnn|cublas|nvidia", name)]

    def test_sources_have_no_files_of_other_kinds(self, nix: Any) -> None:
        source = nix.evaluate("packages.x86_64-linux.zrt-cpu", "p: p.attributes.src")
        listed = nix.plain("store", "ls", "--recursive", source).split()
        assert {
            "./zrt/session/session.py",
            "./zrt/_native/src/lane.c",
            "./zrt/models/digits.onnx",
            "./pyproject.toml",
        } <= set(listed)
        assert not [path for path in listed if path.startswith(("./nix", "./tests/nix", "./tests/docs", "./flake"))]
        assert not [path for path in listed if path.startswith("./docs")]

    def test_new_files_are_included_by_folder(self, nix: Any) -> None:
        """All files below zrt/ and tests/ are sources, except the tests of the flake and the guide."""
        source = nix.evaluate("packages.x86_64-linux.zrt-cpu", "p: p.attributes.src")
        listed = set(nix.plain("store", "ls", "--recursive", source).split())
        files = [path.relative_to(nix.checkout) for path in nix.checkout.rglob("*") if path.is_file()]
        left_out = (Path("tests/nix"), Path("tests/docs"))
        wanted = {
            f"./{path}"
            for path in files
            if path.parts[0] in ("zrt", "tests", "benches")
            and path.suffix != ".so"
            and not any(path.is_relative_to(folder) for folder in left_out)
        }
        assert wanted <= listed
        assert len(wanted) > 100

    def test_requirements_are_those_of_pyproject(self, nix: Any) -> None:
        document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        wanted = {re.split(r"[^\w.-]", line)[0] for line in document["dependency-groups"]["dev"]}
        inputs = nix.evaluate("packages.x86_64-linux.zrt-cpu", "p: map (i: i.name) p.attributes.nativeCheckInputs")
        left_out = {"clang-format", "onnxruntime", "pyright", "ruff", "ziglang"}
        assert {f"python-{name}" for name in wanted - left_out} <= set(inputs)

    def test_requirement_missing_from_the_package_set_is_named(self, nix: Any) -> None:
        done = nix.expression("""
          (import (nix + /zrt/requirements.nix) {
            inherit (pkgs) lib;
            python.pkgs = removeAttrs pkgs.python3.pkgs [ "hypothesis" ];
          }).develop
        """)
        assert done.returncode != 0
        assert "pyproject.toml asks for hypothesis, which this Python set lacks" in done.stderr

    def test_cuda_zrt_needs_a_cuda_library(self, nix: Any) -> None:
        done = nix.expression("""
          (import (nix + /zrt) {
            inherit pkgs;
            cuda = true;
            onnxruntime = import (nix + /onnxruntime) { inherit pkgs; };
          }).outPath
        """)
        assert done.returncode != 0
        assert "the given onnxruntime has no CUDA provider" in done.stderr

    @pytest.mark.parametrize(
        ("function", "arguments", "message"),
        [
            ("zrt", 'version = "1.27.0"; models = [ ];', "zrt: version, models: no effect on the given onnxruntime"),
            ("zrt", "minimal = true;", "zrt: minimal: no effect on the given onnxruntime"),
            ("zrt/env.nix", 'version = "1.27.0";', "zrt: version: no effect on the given onnxruntime"),
            ("zrt/env.nix", "cuda = true;", "the given onnxruntime has no CUDA provider"),
        ],
    )
    def test_given_engine_is_made_already(self, nix: Any, function: str, arguments: str, message: str) -> None:
        done = nix.expression(f"""
          (import (nix + /{function}) {{
            inherit pkgs;
            onnxruntime = import (nix + /onnxruntime) {{ inherit pkgs; }};
            {arguments}
          }}).env
        """)
        assert done.returncode != 0, done.stdout
        assert message in done.stderr

    def test_engine_that_reads_no_onnx_is_not_tested(self, nix: Any) -> None:
        done = nix.expression("""
          map (minimal: (import (nix + /zrt) { inherit pkgs minimal; }).attributes.doCheck) [ false true ]
        """)
        assert json.loads(done.stdout) == ["1", ""]

    def test_zrt_on_a_cuda_library_says_so(self, nix: Any) -> None:
        done = nix.expression("""
          let
            pkgs = stand-in {
              system = "x86_64-linux";
              config.allowUnfreePredicate = _: true;
            };
            onnxruntime = import (nix + /onnxruntime) {
              inherit pkgs;
              cuda = true;
            };
          in
          (import (nix + /zrt) { inherit pkgs onnxruntime; }).cuda
        """)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) is True

    def test_the_environment_for_other_languages(self, nix: Any, flake: Flake) -> None:
        done = nix.expression("""
          let environment = import (nix + /zrt/env.nix) { inherit pkgs; };
          in {
            inherit (environment) env shellHook;
            inputs = map (input: input.outPath) environment.buildInputs;
          }
        """)
        facts = json.loads(done.stdout)
        core = flake.packages["x86_64-linux"]["onnxruntime-cpu"]["out"]
        assert facts["inputs"] == [core]
        assert facts["env"]["ORT_LIB_LOCATION"] == f"{core}/lib"
        assert facts["env"]["ORT_PREFER_DYNAMIC_LINK"] == "0"
        assert facts["env"]["ZRT_ORT_INCLUDE_DIR"] == f"{core}/include"
        assert "ZRT_ORT_PROVIDERS" in facts["shellHook"]

    def test_overlay_extends_the_python_sets(self, nix: Any, flake: Flake) -> None:
        done = nix.expression("""
          let
            pkgs = stand-in {
              system = "x86_64-linux";
              overlays = [ (import (nix + /overlay.nix)) ];
            };
          in {
            zrt = pkgs.python3.pkgs.zrt-onnx.outPath;
            environment = (pkgs.python3.withPackages (p: [ p.zrt-onnx ])).drvPath;
          }
        """)
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert facts["zrt"] == flake.packages["x86_64-linux"]["zrt-cpu"]["out"]
        assert facts["environment"].endswith(".drv")


class TestDropIn:
    @pytest.mark.parametrize("system", sorted(SYSTEMS))
    def test_overlay_puts_zrt_in_the_place_of_onnxruntime(self, nix: Any, flake: Flake, system: str) -> None:
        done = nix.expression(f"""
          let
            packages = (stand-in {{
              system = "{system}";
              overlays = [ (builtins.getFlake "git+file://{nix.inside(nix.checkout)}").overlays.onnxruntime ];
            }}).python3.pkgs;
          in {{
            inherit (packages.onnxruntime) pname version;
            needs = map (package: package.outPath) packages.onnxruntime.dependencies;
            zrt = packages.zrt-onnx.outPath;
          }}
        """)
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert (facts["pname"], facts["version"]) == ("onnxruntime", flake.version("onnxruntime-cpu", system))
        assert facts["needs"] == [facts["zrt"]] == [flake.packages[system]["zrt-cpu"]["out"]]


class TestBundles:
    def test_only_the_cuda_bundle_has_a_second_licence(self, flake: Flake) -> None:
        cpu, cuda = (flake.packages["x86_64-linux"][name] for name in ("bundle-cpu", "bundle-cuda"))
        assert len(cpu["license"]) == 1
        assert len(cuda["license"]) == 2


class TestTemplate:
    @pytest.mark.parametrize(("name", "program"), [("inference", "infer"), ("app", "classify")])
    def test_template_evaluates_in_its_new_folder(self, nix: Any, name: str, program: str) -> None:
        folder = nix.scratch / "templates" / name
        folder.mkdir(parents=True)
        done = nix.run("flake", "show", "--all-systems", *self.arguments(nix, folder))
        assert done.returncode == 0, done.stderr
        assert program in done.stdout + done.stderr

    def arguments(self, nix: Any, folder: Path) -> list[str]:
        """Copies the template into a folder; returns the options with which a command of Nix reads it there."""
        for file in (ROOT / "nix" / "templates" / folder.name).iterdir():
            (folder / file.name).write_text(file.read_text("utf-8"))
        checkout, stand_in = nix.inside(nix.checkout), nix.inside(nix.stand_in)
        return [
            f"path:{nix.inside(folder)}",
            "--no-write-lock-file",
            *("--override-input", "zrt", f"git+file://{checkout}"),
            *("--override-input", "zrt/nixpkgs", f"path:{stand_in}"),
        ]
