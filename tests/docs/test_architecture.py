"""`docs/architecture.md` lists the packages of zrt from the ground up: each imports only from those below it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import zrt
from tests.docs.test_docs import table

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = Path(zrt.__file__).parent
FACE = "zrt"


# The imports that may go up: the importing and the imported module, with the reason. Each is inside a function or
# for type checkers alone.
UPWARD = {
    ("zrt.cli.score", "zrt.ray.connection"): "zrt score --ray",
    ("zrt.cli.score", "zrt.ray.score"): "zrt score --ray",
    ("zrt.cli.serve", "zrt.serving"): "the command serves by the application",
    ("zrt.cli.serve", "zrt.serving.server"): "the command serves by the application",
    ("zrt.cli.serve", "zrt.serving.workers"): "zrt serve --workers",
    ("zrt.cli.serve_ray", "zrt.ray.connection"): "zrt serve --ray",
    ("zrt.cli.serve_ray", "zrt.ray.replicas"): "zrt serve --ray",
    ("zrt.cli.serve_ray", "zrt.ray.service"): "zrt serve --ray",
    ("zrt.cli.serve_ray", "zrt.serving"): "the type of its argument",
    ("zrt.environment.shared_allocators", "zrt.providers"): "register_allocator asks whether CUDA can be used",
    ("zrt.loading.session_options", "zrt.custom_ops"): "SessionOptions.custom_ops takes domains of operators",
    ("zrt.session.cached_load", "zrt.bench.inputs"): "the trial run of an entry takes made-up inputs",
    ("zrt.session.session", "zrt.diagnosis.recorder"): "Session.record makes a Recorder",
    ("zrt.session.session", "zrt.graph.editing"): "Session.tap edits the model",
    ("zrt.session.session", "zrt.lanes.lane"): "Session.lane makes a Lane",
    ("zrt.session.session", "zrt.lanes.lane_options"): "the types of its arguments",
    ("zrt.session.session", "zrt.lanes.lane_shapes"): "the types of its arguments",
    ("zrt.session.session", "zrt.lanes.state_ports"): "the types of its arguments",
    ("zrt.session.session", "zrt.lanes.stateful_lane"): "Session.lane makes a StatefulLane",
}


@cache
def packages() -> list[str]:
    """The packages in the order of the page: `errors` for errors.py, `session` for session/."""
    return [re.sub(r"/|\.py", "", name) for _, names in table(PAGE, "floor") for name in re.findall(r"`(.+?)`", names)]


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else FACE


def imported(module: str) -> Iterator[str]:
    """The modules of zrt that a module imports: at its top, inside functions and for type checkers alone."""
    for node in ast.walk(ast.parse(modules()[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == FACE)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            if (node.module or "").split(".")[0] == FACE:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    yield name if name in modules() else node.module


@cache
def crossing() -> set[tuple[str, str]]:
    """The imports that go up, by the importing and the imported module."""
    floors = {package: floor for floor, package in enumerate(packages())}
    return {
        (module, target)
        for module in modules()
        for target in imported(module)
        if floors[package_of(target)] > floors[package_of(module)]
    }


def test_every_package_is_on_the_page() -> None:
    assert set(packages()) == {package_of(module) for module in modules()}
    assert len(packages()) == len(set(packages()))


def test_imports_go_down_except_for_those_listed() -> None:
    assert crossing() - set(UPWARD) == set()


def test_listed_imports_exist() -> None:
    assert set(UPWARD) - crossing() == set()


@pytest.mark.parametrize(("source", "target"), [("zrt.errors", "zrt.session.session"), ("zrt.types", "zrt.cli")])
def test_an_import_that_goes_up_is_noticed(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "imported", lambda module: [target] if module == source else [])
    assert crossing.__wrapped__() == {(source, target)}


def test_every_thread_is_on_the_page() -> None:
    named = {name for thread, *_ in table(PAGE, "thread") for name in re.findall(r"`(zrt-[a-z-]*[a-z])", thread)}
    sources = [path.read_text("utf-8") for suffix in ("py", "c") for path in PACKAGE.rglob(f"*.{suffix}")]
    # Names of threads, but not the prefixes of temporary folders.
    name = re.compile(r"""(?:name ?= ?f?|ThreadPoolExecutor\(\w+, |pthread_setname_np\()"(zrt-[a-z-]*[a-z])""")
    started = {found for source in sources for found in name.findall(source)}
    assert {"zrt-run", "zrt-score", "zrt-timer"} <= started
    assert started - named == set()
