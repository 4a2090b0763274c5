"""Writes software bills of materials (CycloneDX 1.6, JSON), each checked against the schema by another library.

python .ci/sbom.py wheel PLATFORM FILE: of a wheel for PLATFORM, a name of `TARGETS` in zrt/_native/build.py.
python .ci/sbom.py engines FOLDER: of every ONNX Runtime of the flake; reads the JSON of nix/engines.nix.

The same input gives the same bytes: SOURCE_DATE_EPOCH is the time, and serial numbers are made from names.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType, Diff, Patch, PatchClassification, Pedigree
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.model.tool import Tool
from cyclonedx.output.json import JsonV1Dot6
from jsonschema import Draft7Validator
from packageurl import PackageURL
from referencing import Registry, Resource

VERSION: str = runpy.run_path(str(Path(__file__).parents[1] / "zrt" / "version.py"))["__version__"]
# The tools on which a wheel's bytes depend.
TOOLS = ("cffi", "cyclonedx-python-lib", "hatchling", "setuptools", "ziglang")
HASHES = {"sha1": HashAlgorithm.SHA_1, "sha256": HashAlgorithm.SHA_256}


def component(name: str, version: str, license: str, purl: PackageURL, **more: Any) -> Component:
    """A library; its reference is its purl."""
    licenses = [LicenseExpression(license) if " " in license else DisjunctiveLicense(id=license)]
    kind = ComponentType.LIBRARY
    return Component(name=name, version=version, type=kind, licenses=licenses, purl=purl, bom_ref=str(purl), **more)


def write(file: Path, root: Component, parts: Iterable[Component], tools: Iterable[str]) -> None:
    """Writes the bill of `root`, which contains `parts`, and was made with the Python packages `tools`."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{root.bom_ref.value}#{file.name}"))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    for tool in tools:
        bom.metadata.tools.tools.add(Tool(name=tool, version=metadata.version(tool)))
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(root, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    check(json.loads(text))
    file.write_text(f"{text}\n", "utf-8")


def check(bill: Any) -> None:
    """Raises `jsonschema.ValidationError` where the bill is not valid CycloneDX."""
    folder = resources.files("cyclonedx.schema") / "_res"

    def schema(name: str) -> Any:
        return json.loads((folder / name).read_text("utf-8"))

    others = ("spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json")
    registry: Registry[Any] = Registry().with_resources(
        (f"http://cyclonedx.org/schema/{name}", Resource.from_contents(schema(name))) for name in others
    )
    Draft7Validator(schema("bom-1.6.SNAPSHOT.schema.json"), registry=registry).validate(bill)


def of_wheel(platform: str, file: Path) -> None:
    """The bill of a wheel: the code of others that its module contains; METADATA declares what it needs."""
    root = component("zrt-onnx", VERSION, "Apache-2.0", PackageURL("pypi", name="zrt-onnx", version=VERSION))
    cffi = metadata.version("cffi")
    # The C code that cffi generates, and its header _cffi_include.h.
    parts = [component("cffi", cffi, "MIT-0", PackageURL("pypi", name="cffi", version=cffi))]
    if platform.startswith("manylinux"):
        # Functions of glibc's that its stubs link statically (`fstat`, `pthread_atfork`), as in every program.
        version = platform.removeprefix("manylinux_").split("_")[:2]
        license = "LGPL-2.1-or-later WITH GCC-exception-2.0-note"
        parts.append(component("glibc", ".".join(version), license, PackageURL("generic", name="glibc")))
    write(file, root, parts, TOOLS)


def of_archive(name: str, archive: dict[str, Any], patches: str) -> Component:
    """One archive of nix/pins.nix: a wheel of a Python package, or a file from GitHub.

    `patches` is the address of ONNX Runtime's folder of patches.
    """
    hashes = [HashType(alg=HASHES[kind], content=archive[kind]) for kind in HASHES if kind in archive]
    if "package" in archive:
        purl = PackageURL("pypi", name=archive["package"], version=archive["version"])
        return component(name, archive["version"], archive["license"], purl, hashes=hashes)
    url = archive["url"]
    owner, repository, rest = url.removeprefix("https://github.com/").split("/", 2)
    reference = re.sub(r"^(archive/(refs/tags/)?|releases/download/)|(/.*)?(\.zip|\.tar\.gz|\.tgz)$", "", rest)
    diffs = [Diff(url=XsUri(f"{patches}/{patch}")) for patch in archive["patches"]]
    return component(
        name,
        archive.get("version", reference.removeprefix("v")),
        archive["license"],
        PackageURL("github", owner, repository, reference),
        hashes=hashes,
        external_references=[ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(url), hashes=hashes)],
        pedigree=Pedigree(patches=[Patch(type=PatchClassification.UNOFFICIAL, diff=diff) for diff in diffs]),
    )


def of_engines(folder: Path) -> None:
    """The bills of the engines, with the CMake options as properties."""
    for name, engine in json.load(sys.stdin).items():
        patches = f"https://github.com/microsoft/onnxruntime/blob/{engine.get('revision')}/cmake/patches"
        properties = [
            Property(name=f"cmake:{flag}", value=str(value).upper() if isinstance(value, bool) else value)
            for flag, value in engine["flags"].items()
        ]
        root = component(name, engine["version"], "MIT", PackageURL("generic", name=name, version=engine["version"]))
        root.properties.update(properties)
        parts = [of_archive(*item, patches) for item in engine["archives"].items()]
        write(folder / f"{name}.cdx.json", root, parts, ())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["wheel", platform, file]:
            of_wheel(platform, Path(file))
        case ["engines", folder]:
            of_engines(Path(folder))
        case _:
            sys.exit(__doc__)
