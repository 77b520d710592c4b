"""The API reference contains every public name."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = "e2graphrag_integrations"
PUBLIC = [
    *("", "enrichment", "evaluation", "html_report", "langchain", "llama_index", "loaders"),
    *("server.web", "shards", "testing"),
]
NEEDS = {
    "langchain": "langchain_core",
    "llama_index": "llama_index.core",
    "server.web": "fastapi",
}
_DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)
DIRECTIVES = {
    name: (kind, options)
    for page in sorted((ROOT / "docs" / "api").glob("*.md"))
    for kind, name, options in _DIRECTIVE.findall(page.read_text(encoding="utf-8") + "\n")
}


def public_names() -> list[tuple[str, str, str]]:
    """Return each public name with its package and the module from which that imports it."""
    names = []
    for part in PUBLIC:
        path = SOURCE / PACKAGE / part.replace(".", "/") / "__init__.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        homes = {
            alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        exported = next(
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        names += [(part, homes[name], name) for name in exported if name != "errors"]
    return names


NAMES = public_names()


def directive_of(module: str, name: str) -> tuple[str, str] | None:
    """Return the directive that documents a name: its own, or that of its module."""
    for prefix in (module, *(f"{PACKAGE}.{part}" for part in PUBLIC if part), PACKAGE):
        if f"{prefix}.{name}" in DIRECTIVES:
            return DIRECTIVES[f"{prefix}.{name}"]
    kind, options = DIRECTIVES.get(module, ("", ""))
    listed = re.search(r":members: (.+)", options)
    if kind != "module" or (listed and name not in re.split(r",\s*", listed[1])):
        return None
    return kind, options


def test_public_names_are_in_the_reference():
    missing = [f"{module}.{name}" for _, module, name in NAMES if not directive_of(module, name)]
    assert missing == [], "add these to docs/api"


def test_reference_of_a_class_shows_the_methods_of_its_bases():
    without = {}
    for part, module, name in NAMES:
        kind, options = directive_of(module, name) or ("", "")
        if kind != "class" or ":inherited-members:" in options or not is_installed(part):
            continue
        found = getattr(importlib.import_module(module), name)
        bases = [one for one in inspect.getmro(found)[1:] if one.__module__.startswith(PACKAGE)]
        inherited = [
            m for one in bases for m, f in vars(one).items() if m[0] != "_" and callable(f)
        ]
        if inherited:
            without[f"{module}.{name}"] = inherited
    assert without == {}, "add :inherited-members: to the directives of these"


def is_installed(part: str) -> bool:
    """Return whether the framework that a part of the package needs is installed."""
    top, _, _ = NEEDS.get(part, "").partition(".")
    return not top or importlib.util.find_spec(top) is not None


def test_every_page_of_the_reference_is_listed():
    index = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "api").glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, re.MULTILINE)
