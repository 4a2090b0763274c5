"""Nix for the tests of the flake, with the stand-in for nixpkgs.

ZRT_NIX names the command: a nix, or a program that runs `nix` in a root of its own, with the checkout it is
started in at /repo and what NIX_HERE_BIND names. `.ci/nix` sets it; without it the nix on the path is taken, and none
where it is empty.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import compiler as c_compiler

ROOT = Path(__file__).parents[2]


LINUX = {"x86_64-linux", "aarch64-linux"}
SYSTEMS = LINUX | {"aarch64-darwin"}
# The third-party archives of each package that is built from source.
COMMON = frozenset(
    [
        "abseil_cpp",
        "date",
        "eigen",
        "flatbuffers",
        "json",
        "microsoft_gsl",
        "mp11",
        "onnx",
        "protobuf",
        "pytorch_cpuinfo",
        "re2",
        "safeint",
    ]
)
ARCHIVES: dict[tuple[str, str], frozenset[str]] = {
    ("x86_64-linux", "onnxruntime-cpu"): COMMON,
    ("aarch64-linux", "onnxruntime-cpu"): COMMON | {"kleidiai"},
    ("aarch64-darwin", "onnxruntime-cpu"): COMMON | {"psimd", "fp16", "coremltools", "protoc_mac_universal"},
    ("x86_64-linux", "onnxruntime-cuda-hybrid"): COMMON | {"cutlass", "cudnn_frontend"},
}

Json = Any


def files_of_the_checkout() -> list[str]:
    """The files that git tracks, or would track."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("these files are no git checkout, and a flake is made of what git knows")
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


class Nix:
    """A checkout of its own, the stand-in, and the command that evaluates and builds there."""

    # The longest time of a command, and of each build, in seconds.
    longest = 1800

    def __init__(self, command: str, folder: Path) -> None:
        self.apart = Path(command).name != "nix"
        self.command = [command, "nix"] if self.apart else [command]
        self.checkout = folder / "checkout"
        self.scratch = folder / "scratch"
        self.stand_in = self.scratch / "nixpkgs"
        for name in files_of_the_checkout():
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.checkout / name)
        self.commit(self.checkout)
        self.bound = [f"{self.scratch}:/scratch"]
        onnx = importlib.util.find_spec("onnx")
        if onnx and onnx.origin:
            # ONNX's own small models, which some distributions leave out of their package.
            models = "onnx/backend/test/data/light"
            self.bound.append(f"{Path(onnx.origin).parents[1] / models}:/usr/lib/python3/dist-packages/{models}")
        nvidia = os.environ.get("ZRT_NVIDIA")
        if nvidia:
            self.bound.append(f"{nvidia}:/opt/nvidia")
        shutil.copytree(ROOT / "tests" / "nix" / "nixpkgs-stub", self.stand_in)

    def with_sources(self, name: str) -> Nix:
        """A copy with its own stand-in and an empty folder of sources, which replace fetched files."""
        other = copy.copy(self)
        other.stand_in = self.scratch / name
        shutil.copytree(self.stand_in, other.stand_in)
        (other.stand_in / "sources").mkdir()
        return other

    @staticmethod
    def commit(folder: Path) -> None:
        """Makes a folder a git repository that knows its files."""
        for arguments in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", "-C", str(folder), *arguments], check=True)

    def inside(self, path: Path) -> str:
        """The path as Nix sees it."""
        if not self.apart:
            return str(path)
        for folder, name in ((self.checkout, "/repo"), (self.scratch, "/scratch")):
            if path.is_relative_to(folder):
                return os.path.normpath(f"{name}/{path.relative_to(folder)}")
        raise ValueError(path)

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs `nix` with these arguments in the checkout."""
        environment = {**os.environ, "NIX_HERE_BIND": " ".join(self.bound)}
        options = ["--extra-experimental-features", "nix-command flakes", "--option", "timeout", str(self.longest)]
        command = [*self.command, *arguments[:1], *options, *arguments[1:]]
        # Into files: a process that a build leaves running could keep a pipe open.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                command, cwd=cwd or self.checkout, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
            try:
                process.wait(self.longest + 60)
            except subprocess.TimeoutExpired:
                process.kill()
                err.seek(0)
                pytest.fail(f"{command} took more than {self.longest} s:\n{err.read()[-4000:]}")
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())

    def overrides(self) -> list[str]:
        """The options that put the stand-in in the place of nixpkgs."""
        return ["--no-write-lock-file", "--override-input", "nixpkgs", f"path:{self.inside(self.stand_in)}"]

    def plain(self, *arguments: str) -> str:
        """The output of a command that does not use the flake; the command must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __call__(self, *arguments: str) -> str:
        """The output of a command on the flake; the command must succeed."""
        return self.plain(*arguments, *self.overrides())

    def evaluate(self, attribute: str, function: str = "x: x") -> Any:
        """The value of an output, through a function."""
        return json.loads(self("eval", "--json", f".#{attribute}", "--apply", function))

    def bound_expression(self, text: str) -> str:
        """Nix code in which `pkgs` is the stand-in on x86_64-linux and `nix` the flake's folder of that name."""
        return f"""
          let
            pkgs = stand-in {{ system = "x86_64-linux"; }};
            stand-in-folder = {self.inside(self.stand_in)};
            stand-in = import stand-in-folder;
            nix = {self.inside(self.checkout)}/nix;
          in {text}
        """

    def expression(self, text: str) -> subprocess.CompletedProcess[str]:
        """Evaluates such code."""
        return self.run("eval", "--json", "--impure", "--expr", self.bound_expression(text))

    def build_expression(self, text: str) -> subprocess.CompletedProcess[str]:
        """Builds what such code gives."""
        options = ("-L", "--no-link", "--print-out-paths", "--impure")
        return self.run("build", *options, "--expr", self.bound_expression(text))

    def build(self, attribute: str, *options: str) -> list[str]:
        """The paths of a built output."""
        return self("build", "-L", "--no-link", "--print-out-paths", f".#{attribute}", *options).split()


@pytest.fixture(scope="session")
def nix(tmp_path_factory: pytest.TempPathFactory) -> Nix:
    """Nix with the stand-in; skips if there is no Nix."""
    command = os.environ.get("ZRT_NIX", shutil.which("nix"))
    if not command:
        pytest.skip("no Nix is on the path and ZRT_NIX names none; .ci/nix finds one, or makes one")
    return Nix(command, tmp_path_factory.mktemp("nix"))


class Flake:
    """Evaluations that several tests share."""

    def __init__(self, nix: Any) -> None:
        self.nix = nix
        self.packages: dict[str, Json] = nix.evaluate(
            "packages",
            """builtins.mapAttrs (_: builtins.mapAttrs (_: p: {
              inherit (p) name;
              version = p.version or null;
              linkage = p.linkage or null;
              flags = p.flags or null;
              archives = map (entry: entry.name) (p.mirror.entries or [ ]);
              linkArgs = p.linkArgs or null;
              providers = p.providers or null;
              out = p.outPath;
              cmakeFlags = p.attributes.cmakeFlags or null;
              hooks = map (input: input.name) (p.attributes.nativeBuildInputs or [ ]);
              inputs = map (input: input.name) (p.attributes.buildInputs or [ ]);
              environment = p.attributes.env or null;
              features = p.attributes.requiredSystemFeatures or [ ];
              forbidden = map toString (p.attributes.disallowedReferences or [ ]);
              postFixup = p.attributes.postFixup or null;
              preBuild = p.attributes.preBuild or null;
              postBuild = p.attributes.postBuild or null;
              installCheck = p.attributes.installCheckPhase or null;
              license = p.meta.license or null;
            }))""",
        )

    def version(self, name: str, system: str = "x86_64-linux") -> str:
        """The version of ONNX Runtime in a package of its own."""
        return str(self.packages[system][name]["version"])

    def derivations(self, *attributes: str) -> dict[str, Json]:
        """Everything that building these takes, by the recipe's name."""
        shown = self.nix("derivation", "show", "--recursive", *(f".#{attribute}" for attribute in attributes))
        document = json.loads(shown)
        return document.get("derivations", document)


@pytest.fixture(scope="session")
def flake(nix: Any) -> Flake:
    return Flake(nix)


@pytest.fixture(scope="session")
def source() -> Path:
    """The source tree of the pinned ONNX Runtime, which is not in the repository."""
    folder = os.environ.get("ZRT_ORT_SOURCE")
    if not folder:
        pytest.skip("ZRT_ORT_SOURCE is not set: it would name a source tree of ONNX Runtime 1.27")
    return Path(folder)


@pytest.fixture(scope="session")
def pins(nix: Any) -> Json:
    """The pinned releases by their versions."""
    return json.loads(nix("eval", "--json", "--file", "nix/pins.nix", "releases"))


@pytest.fixture(scope="session")
def builder(nix: Nix) -> Nix:
    """Nix with a stand-in that has the official headers, and the official wheel of the pinned hash."""
    include = os.environ.get("ZRT_ORT_INCLUDE_DIR")
    if not include:
        pytest.skip("ZRT_ORT_INCLUDE_DIR is not set: it would name the official headers, as .ci/headers makes them")
    wheels = os.environ.get("ZRT_ORT_WHEELS")
    if not wheels:
        pytest.skip("ZRT_ORT_WHEELS is not set: it would name a folder with the official wheel, as .ci/nix fetches it")
    other = nix.with_sources("nixpkgs-with-library")
    sources = other.stand_in / "sources"
    pins = json.loads(nix("eval", "--json", "--file", "nix/pins.nix", "headers"))
    release = nix.evaluate("packages.x86_64-linux.onnxruntime-bin", "p: p.release")
    wheel = release["wheels"]["x86_64-linux"]
    name = f"onnxruntime-{release['version']}-cp312-cp312-{wheel['platform']}.whl"
    data = Path(wheels, name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == wheel["sha256"]
    (sources / name).write_bytes(data)
    archive_name = pins["url"].rpartition("/")[2]
    with tarfile.open(sources / archive_name, "w:gz") as archive:
        for header in sorted(Path(include).glob("*.h")):
            archive.add(header, f"{archive_name.removesuffix('.tgz')}/include/{header.name}")
    return other


@pytest.fixture(scope="session")
def cuda(nix: Nix) -> Nix:
    """Nix with a stand-in whose CUDA compiler and runtime can be built."""
    folder = Path(os.environ.get("ZRT_NVIDIA", "/opt/nvidia") if nix.apart else "/opt/nvidia")
    for line in (nix.stand_in / "cuda" / "requirements.txt").read_text().splitlines():
        name = line.partition("==")[0].replace("-", "_")
        if not line.startswith("#") and not list(folder.glob(f"{name}-*.dist-info")):
            pytest.skip(f"NVIDIA's Python package {line} is not in {folder}; .ci/nix puts it into a folder")
    return nix


@pytest.fixture(scope="session")
def compiler(nix: Nix) -> Nix:
    """Nix with a stand-in that has ONNX Runtime's source and third-party archives, each under its URL's last part."""
    folder = os.environ.get("ZRT_ORT_ARCHIVES")
    if not folder:
        pytest.skip("ZRT_ORT_ARCHIVES is not set: it would name ONNX Runtime's archives, an hour of compiling")
    other = nix.with_sources("nixpkgs-with-archives")
    other.longest = 4 * 3600
    shutil.copytree(folder, other.stand_in / "sources", dirs_exist_ok=True)
    return other


@pytest.fixture(scope="session")
def compile_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles C code into a shared library."""
    compiler_command = c_compiler.command()

    def make(code: str, *options: str) -> Path:
        folder = tmp_path_factory.mktemp("library")
        (folder / "code.c").write_text(code)
        target = folder / "library.so"
        command = [*compiler_command, "-shared", "-fPIC", *options, "-o", str(target), str(folder / "code.c")]
        subprocess.run(command, check=True)
        return target

    return make
