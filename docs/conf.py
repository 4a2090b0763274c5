"""The configuration of Sphinx: ``python -m sphinx -W --keep-going -b html docs FOLDER`` builds the site."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode
from sphinx_codeautolink.extension.resolve import populate_type_checking

import zrt
from zrt.providers import Provider

DOCS = Path(__file__).parent

# Code in the guide that may be a name of zrt: `Session`, `Session.run`, `zrt.copy`, but not `copy`.
NAME = re.compile(r"[A-Z]\w*|\w+(\.\w+)+")

PUBLIC_MODULES = (
    "zrt",
    "zrt.custom_ops",
    "zrt.errors",
    "zrt.graph",
    "zrt.providers",
    "zrt.ray",
    "zrt.serving",
    "zrt.types",
    "zrt.typing",
)

project = "zrt"
author = "zrt developers"
copyright = author
version = release = zrt.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_codeautolink"]
html_theme = "furo"
html_title = f"zrt {release}"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The default one underlines names of modules, as if they were links.
pygments_dark_style = "github-dark"
exclude_patterns = ["_build", "changes"]

# The examples of a page share their names, as they do when the tests run them.
codeautolink_concat_default = True

# A link such as `lanes.md#ports` names a heading.
myst_heading_anchors = 4

# Docstrings write names and code alike in single backticks: a name becomes a link, the rest stays code.
default_role = "py:obj"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    # Methods of zrt's own base classes are shown, those of the listed classes are not.
    "inherited-members": "object, Error, Exception, IntEnum, IntFlag, int, StrEnum, str, Mapping, Provider, tuple",
    "exclude-members": "__new__",
}


def merge_attribute_docs() -> None:
    """Gives Sphinx the docstrings of attributes under the public modules.

    Sphinx reads them from the source of a class's ``__module__``. That is the public module, not the defining one.
    """
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        for public_name in module.__all__:
            getattr(module, public_name)
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("zrt.") or not str(getattr(module, "__file__", "")).endswith(".py"):
            continue
        analyzer = ModuleAnalyzer.for_module(name)
        analyzer.analyze()
        for (path, attribute), lines in analyzer.attr_docs.items():
            if not path:
                continue
            home = getattr(getattr(module, path.partition(".")[0], None), "__module__", name)
            if home != name and home in PUBLIC_MODULES:
                public = ModuleAnalyzer.for_module(home)
                public.analyze()
                public.attr_docs[path, attribute] = lines
                public.tagorder.update(
                    {tag: order for tag, order in analyzer.tagorder.items() if tag.startswith(f"{path}.")}
                )


def c_functions() -> dict[str, list[str]]:
    """The functions of the C API by the full name in zrt, from the tables of api.md."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^## ", (DOCS / "api.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        table = section.partition("\n")[0]
        for function, cell in re.findall(r"^\| `(\w+)` \| (`.+) \|$", section, re.MULTILINE):
            for name in re.findall(r"`([\w.]+)`", cell):
                found.setdefault(name_in_reference(name), []).append(f"{table}::{function}")
    return found


def name_in_reference(name: str) -> str:
    """The name under which the reference has `name`, which is written as an attribute of `zrt`."""
    parts = name.split(".")
    value: Any = zrt
    while parts:
        value = getattr(value, parts.pop(0))
        if not inspect.ismodule(value):
            break
    return ".".join([getattr(value, "__module__", "zrt"), value.__name__, *parts])


def extend_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Adds to a docstring the options of a provider and the functions of the C API."""
    if what == "attribute":
        class_name, _, field = name.rpartition(".")
        kind = getattr(zrt.providers, class_name.rpartition(".")[2], None)
        if isinstance(kind, type) and issubclass(kind, Provider) and field in kind.options():
            lines[:] = [kind.options()[field].meaning, ""]
    functions = C_FUNCTIONS.get(name)
    if functions:
        lines += ["", "C API: " + ", ".join(f"``{function}``" for function in functions), ""]


def link_names(app: Sphinx, document: nodes.document) -> None:
    """Makes links of the names in the guide, such as `Session.run` or `SessionOptions`."""
    for literal in list(document.findall(nodes.literal)):
        text = literal.astext()
        if not isinstance(literal.parent, nodes.reference | pending_xref) and NAME.fullmatch(text):
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=text, refdoc=app.env.docname)
            literal.replace_self(link)
            link += literal


def find_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Finds a name in every public module: a docstring of `zrt.errors` writes `Session.run` as one of `zrt` does."""
    domain = env.domains["py"]
    if node.get("refdomain") != "py" or not isinstance(domain, PythonDomain):
        return None
    for module in PUBLIC_MODULES:
        found = domain.objects.get(f"{module}.{node['reftarget'].removeprefix('zrt.')}")
        if found is not None:
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, [content])
    return None


def prepare_annotations(app: Sphinx, env: BuildEnvironment) -> None:
    """Leaves of every signature the result alone, with the types that only type checkers import.

    codeautolink follows results, and gives up where it cannot evaluate each annotation of a function.
    """
    for name, module in sorted(sys.modules.items()):
        if name.startswith("zrt."):
            populate_type_checking(module)
            classes = [value for value in vars(module).values() if inspect.isclass(value)]
            for value in [member for space in (module, *classes) for member in vars(space).values()]:
                function = getattr(value, "__func__", value)
                if inspect.isfunction(function) and function.__module__.startswith("zrt"):
                    result = function.__annotations__.get("return")
                    function.__annotations__ = {"return": result} if result else {}


def write_versions(app: Sphinx, exception: Exception | None) -> None:
    """Writes the releases, as the tags and so the folders of their sites, for the list in the sidebar."""
    if exception is None and app.builder.format == "html":
        releases = re.findall(r"^## (\d+\.\d+\.\d+)", (DOCS.parent / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
        app.outdir.joinpath("versions.json").write_text(json.dumps([f"v{number}" for number in releases]), "utf-8")


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", extend_docstring)
    app.connect("doctree-read", link_names)
    app.connect("missing-reference", find_name)
    # After autodoc, which shows whole signatures, and before codeautolink.
    app.connect("env-updated", prepare_annotations, priority=400)
    app.connect("build-finished", write_versions)


merge_attribute_docs()
C_FUNCTIONS = c_functions()
