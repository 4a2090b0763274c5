"""The guide is true: its examples run, its tables match the code, and the targets of its links exist.

A page's ```python fences run in order in one namespace, in a process and a folder of their own, where `model.onnx` is
the classifier that ships with zrt. A ```text fence directly after one of them is its output. One marked ```python error
raises, and its output is the error as Python shows it, where ... stands for any text. A fence marked
```python no-run is not run, nor is one that needs a device, ```python device: its first line says so to readers.
The tests of tests/ray run those that need Ray, ```python ray, with the others of their page.
"""

import ast
import builtins
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

import zrt
from zrt import errors
from zrt.cli import main
from zrt.cli.entry import COMMANDS
from zrt.types import ElementType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = sorted(DOCS.glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDE]
TEXTS = [*PAGES, ROOT / "CHANGELOG.md"]

FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("python", "python error")
RUNNER = Path(__file__).with_name("scripts") / "run_examples.py"

# The packages that the examples of a page need and the group `dev` lacks.
NEEDED = {
    "docs/getting-started.md": ("silero_vad", "starlette", "uvicorn", "prometheus_client"),
    "docs/scoring.md": ("pyarrow",),
    "docs/serving.md": ("starlette", "uvicorn", "prometheus_client", "tritonclient"),
}

LINK = re.compile(r"(?:\[[^\]]*\]\(|src(?:set)?=\")(?P<target>[^)\s\"]+)")


@dataclass(frozen=True)
class Fence:
    """A fenced block; `line` is that of its first line of text, counted from 1."""

    info: str
    body: str
    line: int
    start: int
    end: int


def fences(text: str) -> list[Fence]:
    return [
        Fence(match["info"], match["body"], text.count("\n", 0, match.start("body")) + 1, *match.span())
        for match in FENCE.finditer(text)
    ]


def outside_of_fences(text: str) -> str:
    return FENCE.sub("", text)


def examples(text: str, infos: Sequence[str] = RUN) -> Iterator[tuple[Fence, Fence | None]]:
    """The fences to run, each with the fence of its output, if there is one."""
    blocks = fences(text)
    for fence, after in zip_longest(blocks, blocks[1:]):
        if fence.info in infos:
            shown = after is not None and after.info == "text" and not text[fence.end : after.start].strip()
            yield fence, after if shown else None


def run_page(
    text: str, name: str, folder: Path, infos: Sequence[str] = RUN, warnings: Sequence[str] = ("error",)
) -> None:
    """Runs a page's examples in `folder`; fails with page and line. `warnings` are filters of the interpreter."""
    __tracebackhide__ = True
    shutil.copy(Path(zrt.__file__).with_name("models") / "digits.onnx", folder / "model.onnx")
    pairs = list(examples(text, infos))
    # The package that is tested, and `benches`.
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, (Path(zrt.__file__).parents[1], ROOT))))
    done = subprocess.run(
        [sys.executable, *(f"-W{line}" for line in warnings), str(RUNNER)],
        input=json.dumps([name, [[fence.line, fence.body, fence.info == "python error"] for fence, _ in pairs]]),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
    )
    if done.returncode:
        pytest.fail(f"{name}: the examples ended with {done.returncode}:\n{done.stdout}{done.stderr}", pytrace=False)
    outputs, failure = json.loads(done.stdout)
    if failure:
        line, trace = failure
        pytest.fail(f"{name}:{line}: the example fails:\n{trace}", pytrace=False)
    for (fence, shown), output in zip(pairs, outputs, strict=True):
        assert shown is not None or fence.info != "python error", f"{name}:{fence.line}: its error is not shown"
        if shown is not None and not fits(fence, shown.body, output):
            where = f"{name}:{shown.line}: the example in line {fence.line}"
            pytest.fail(f"{where} prints\n{output}\nnot\n{shown.body}", pytrace=False)


def fits(example: Fence, shown: str, output: str) -> bool:
    """Whether an example prints the shown text; in that of an error, ... stands for any text."""
    if example.info != "python error":
        return output == shown
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), output, re.DOTALL) is not None


def table(page: Path, first: str) -> list[list[str]]:
    """The rows of the page's table whose head begins with the cell `first`."""
    rows: list[list[str]] = []
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if rows and not cells:
            break
        if rows or cells[:1] == [first]:
            rows.append(cells)
    assert rows, f"{page.name} has no table that begins with {first!r}"
    return rows[2:]


def anchors(text: str) -> set[str]:
    """The fragments that links may have: the headings, as web pages spell them."""
    headings = re.findall(r"^#+ (.+)$", outside_of_fences(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class TestExamples:
    @pytest.mark.parametrize("page", PAGES, ids=page_name)
    def test_examples_print_the_shown_output(self, page: Path, tmp_path: Path) -> None:
        for package in NEEDED.get(page_name(page), ()):
            # Not imported: the import of a package for its model may need what the example does not.
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"the examples need {package}")
        run_page(page.read_text("utf-8"), page_name(page), tmp_path)

    def test_few_examples_are_not_run(self) -> None:
        infos = [fence.info for page in PAGES for fence in fences(page.read_text("utf-8"))]
        assert infos.count("python no-run") <= 1
        languages = {
            "python",
            "python error",
            "python no-run",
            "python device",
            "python ray",
            "text",
            "sh",
            "json",
            "toml",
            "nix",
            "c",
            "{toctree}",
        }
        assert {info for info in infos if not info.startswith("{literalinclude} examples/")} <= languages

    @pytest.mark.parametrize("page", PAGES, ids=page_name)
    def test_examples_that_need_a_device_say_so_and_name_nothing_undefined(self, page: Path) -> None:
        defined = set(dir(builtins))
        for fence in fences(page.read_text("utf-8")):
            if not fence.info.startswith("python"):
                continue
            tree = ast.parse(fence.body)
            names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            used = {name.id for name in names if isinstance(name.ctx, ast.Load)}
            defined |= {name.id for name in names if not isinstance(name.ctx, ast.Load)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    defined |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                    defined.add(node.name)
            if fence.info == "python device":
                where = f"{page_name(page)}:{fence.line}"
                assert fence.body.startswith("# Not run by the tests: it needs "), where
                assert used <= defined, f"{where}: {used - defined}"

    def test_no_example_passes_for_want_of_a_device(self) -> None:
        guard = re.compile(
            r"^(if|for) .*(usable\(\"cuda\"\)|prefer_gpu\(\)|CUDAExecutionProvider|\bgpus\b)", re.MULTILINE
        )
        for page in PAGES:
            for fence, _ in examples(page.read_text("utf-8")):
                assert not guard.search(fence.body), f"{page_name(page)}:{fence.line}"

    def test_quick_start_shows_its_output(self) -> None:
        pairs = list(examples((ROOT / "README.md").read_text("utf-8")))
        assert pairs
        assert all(shown is not None for _, shown in pairs)

    def test_failure_names_page_and_line(self, tmp_path: Path) -> None:
        text = "# Page\n\n```python\nx = 1\n```\n\n```python\n\nassert x == 2\n```\n"
        with pytest.raises(pytest.fail.Exception, match=r"^docs/page\.md:9: the example fails:"):
            run_page(text, "docs/page.md", tmp_path)

    def test_syntax_error_names_page_and_line(self, tmp_path: Path) -> None:
        with pytest.raises(pytest.fail.Exception, match=r"^docs/page\.md:3: the example fails:"):
            run_page("\n```python\nif\n```\n", "docs/page.md", tmp_path)

    def test_different_output_is_a_failure(self, tmp_path: Path) -> None:
        text = "```python\nprint(1)\n```\n\n```text\n2\n```\n"
        with pytest.raises(pytest.fail.Exception, match=r"^docs/page\.md:6: the example in line 2 prints"):
            run_page(text, "docs/page.md", tmp_path)

    def test_error_fits_the_shown_one(self, tmp_path: Path) -> None:
        text = "```python error\nint('x')\n```\n\n```text\nValueError: ... 'x'\n```\n"
        run_page(text, "docs/page.md", tmp_path)
        with pytest.raises(pytest.fail.Exception, match="prints\nValueError: "):
            run_page(text.replace("... 'x'", "... 'y'"), "docs/page.md", tmp_path)

    def test_error_that_is_not_raised_is_a_failure(self, tmp_path: Path) -> None:
        with pytest.raises(pytest.fail.Exception, match="it raises no error"):
            run_page("```python error\nint('1')\n```\n", "docs/page.md", tmp_path)


class TestTables:
    def test_element_types(self) -> None:
        def travels(kind: ElementType) -> str:
            if kind.refused:
                return "refused"
            if kind is ElementType.STRING:
                return "objects: `str`"
            return "packed bytes, `uint8`" if kind.packed else "itself"

        wanted = [
            [
                f"`{kind.name}`",
                str(int(kind)),
                f"`{kind.onnx_name}`",
                f"`{kind.dtype.name}`" if kind.bits else "",
                str(kind.bits or ""),
                travels(kind),
            ]
            for kind in ElementType
        ]
        assert table(DOCS / "types.md", "element type") == wanted

    def test_errors(self) -> None:
        def builtins_of(kind: type[errors.Error]) -> list[str]:
            """The builtins that catch it, without the bases of other ones."""
            bases = [base for base in kind.__mro__ if base.__module__ == "builtins"]
            return [
                f"`{base.__name__}`"
                for base in bases
                if base is not Exception and not any(issubclass(other, base) for other in bases if other is not base)
            ]

        def row(kind: type[errors.Error]) -> list[str]:
            parents = [f"`{base.__name__}`" for base in kind.__bases__ if issubclass(base, errors.Error)]
            code = str(kind.code) if issubclass(kind, errors.OrtError) and kind is not errors.OrtError else ""
            return [f"`{kind.__name__}`", ", ".join(parents), ", ".join(builtins_of(kind)), code]

        rows = table(DOCS / "errors.md", "class")
        assert sorted(cells[:4] for cells in rows) == sorted(row(getattr(errors, name)) for name in errors.__all__)
        assert all(when for *_, when in rows), "each class says when it is raised"

    def test_errors_follow_their_base_classes(self) -> None:
        seen: set[str] = set()
        for name, parent, *_ in table(DOCS / "errors.md", "class"):
            assert not parent or parent in seen, f"{name} stands above {parent}"
            seen.add(name)

    def test_session_options(self) -> None:
        named = {name for row in table(DOCS / "sessions.md", "field") for name in re.findall(r"`(\w+)`", row[0])}
        assert named == set(inspect.signature(zrt.SessionOptions).parameters)

    def test_variables(self) -> None:
        named = {name for row in table(DOCS / "building.md", "variable") for name in re.findall(r"`(\w+)`", row[0])}
        read = {
            name
            for path in Path(zrt.__file__).parent.rglob("*.py")
            for name in re.findall(r"\"(ZRT_[A-Z_]+)\"", path.read_text("utf-8"))
        }
        assert read - named == {"ZRT_EXACT", "ZRT_STATIC_CORE"}, "these two are macros of the C compiler"

    def test_commands_that_take_a_file_of_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        taking = []
        for command in COMMANDS:
            assert main([command, "--help"]) == 0
            taking += [f"`{command}`"] * ("--options FILE" in capsys.readouterr().out)
        names = f"{', '.join(taking[:-1])} and {taking[-1]}"
        assert f"{names} take `--options FILE`" in (DOCS / "cli.md").read_text("utf-8")
        assert f"`zrt {names[1:]} take such a file" in (DOCS / "options.md").read_text("utf-8").replace("\n", " ")

    def test_commands_that_signals_end_in_order(self) -> None:
        ending = [
            f"`zrt {command}`"
            for command in COMMANDS
            if "common.terminable()" in (Path(zrt.__file__).parent / "cli" / f"{command}.py").read_text("utf-8")
        ]
        names = f"{', '.join(ending[:-1])} and {ending[-1]}"
        said = f"\n| 129, 143 | ended by SIGHUP (129) or SIGTERM (143). {names} finish"
        assert said in (DOCS / "cli.md").read_text("utf-8")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_options_of_the_command(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        _, _, section = (DOCS / "cli.md").read_text("utf-8").partition(f"\n## zrt {command}\n")
        section, _, _ = section.partition("\n## ")
        assert main([command, "--help"]) == 0
        options = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
        assert {option for option in options if f"`{option}" not in section} == set()


class TestLinks:
    @pytest.mark.parametrize("page", TEXTS, ids=page_name)
    def test_targets_exist(self, page: Path) -> None:
        text = page.read_text("utf-8")
        for match in LINK.finditer(outside_of_fences(text)):
            target = match["target"]
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{page_name(page)} links to {target}"
            if anchor:
                assert anchor in anchors(found.read_text("utf-8")), f"{page_name(page)} links to {target}"

    @pytest.mark.skipif(not (ROOT / "flake.nix").exists(), reason="the sdist lacks some of the repository's files")
    @pytest.mark.parametrize("page", TEXTS, ids=page_name)
    def test_files_of_the_repository_exist(self, page: Path) -> None:
        spans = re.findall(r"`([^`\s]+)`", outside_of_fences(page.read_text("utf-8")))
        paths = [span for span in spans if re.fullmatch(r"(?:zrt|tests|benches|docs|nix|\.ci)/[\w./-]*", span)]
        assert [path for path in paths if not (ROOT / path).exists()] == []

    def test_only_known_hosts(self) -> None:
        for page in TEXTS:
            hosts = set(re.findall(r"https?://([^/\s)>`\"']+)", page.read_text("utf-8")))
            assert hosts <= {"onnxruntime.ai", "onnx.ai", "github.com", "numpy.org"}, page_name(page)

    def test_index_links_every_page(self) -> None:
        linked = {match["target"] for match in LINK.finditer((DOCS / "index.md").read_text("utf-8"))}
        assert {page.name for page in GUIDE} - {"index.md"} <= linked


class TestWords:
    @pytest.mark.parametrize("name", zrt.__all__)
    def test_every_public_name_is_in_the_guide(self, name: str) -> None:
        mention = re.compile(rf"(?<![\w]){re.escape(name)}(?!\w)")
        code = [
            span for page in PAGES for span in re.findall(r"```.*?```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL)
        ]
        assert any(mention.search(span) for span in code)

    @pytest.mark.parametrize("page", TEXTS, ids=page_name)
    def test_no_path_of_one_machine(self, page: Path) -> None:
        text = page.read_text("utf-8")
        assert not re.findall(r"(?<![\w.])/(?:home|root|work|tmp|Users|mnt|media)\b\S*", text)
        assert str(ROOT) not in text

    def test_readme_has_one_line_to_measure_and_one_to_test(self) -> None:
        lines = [
            line
            for fence in fences((ROOT / "README.md").read_text("utf-8"))
            if fence.info == "sh"
            for line in [fence.body.rstrip("\n")]
        ]
        assert all("\n" not in line for line in lines)
        assert [line.endswith("zrt bench") for line in lines].count(True) == 1
        assert [line.endswith("-m pytest -q") for line in lines].count(True) == 1

    def test_pages_name_the_version_of_the_package(self) -> None:
        assert zrt.__version__ in (DOCS / "index.md").read_text("utf-8")
        assert zrt.__version__ in (ROOT / "CHANGELOG.md").read_text("utf-8")
        shown = re.findall(r"\bzrt +(\d+\.\d+\.\d+)", (DOCS / "cli.md").read_text("utf-8"))
        assert shown
        assert set(shown) == {zrt.__version__}
