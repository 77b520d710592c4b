"""docs/constants.md lists the settings of the user and the constants that can change a ranking."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import e2graphrag_integrations as package
from e2graphrag_integrations.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "e2graphrag_integrations"
PAGE = (ROOT / "docs" / "constants.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")] for line in PAGE.splitlines() if "|" in line]

_ONLY_SPEED_OR_DISPLAY = re.compile(
    r"_?(CACHED|BATCH|BLOCK|SHOWN|MAX_SHOWN|LOCKS|ATTEMPTS|FEW|LARGE|MATRIX_LIMIT|DIGITS|DAY|TINY"
    r"|LOW_32|RETRY_SECONDS|MAX_RETRY_SECONDS|CHECK_SECONDS|MAX_QUOTED|MAX_FOLLOWED|MAX_NAME|SHARE_OF_TIME|NICENESS|IDLE_SECONDS|MAX_SECONDS|STOP_SECONDS|STDIN|STDOUT|STDERR"
    r"|MAX_SEED|MAX_ENTITIES|MAX_MENTIONS|DEFINITION|FIRST_LINE)(_\w+)?"
)
"""Sizes of batches and caches, limits of what is shown, waits, and numbers without a choice."""

SETTINGS = (
    package.HybridStrategy,
    package.PaperStrategy,
    package.TreeTraversalStrategy,
    package.Boosts,
    package.RetryPolicy,
    package.ExtractiveSummarizer,
    package.HashingEmbedder,
    package.OpenAISummarizer,
    package.RayEngine,
    package.QdrantVectors,
    package.E2GraphRAG.open,
    package.E2GraphRAG.work,
    Settings,
)


def names_of(row):
    return {name.strip() for part in re.findall(r"`([^`]+)`", row[1]) for name in part.split(",")}


def is_number(node):
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_number, node.elts))
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.UnaryOp) and is_number(node.operand)


def constants():
    """Yield the module and the name of each number at the top of a module of the ranking."""
    for folder in ("retrieval", "graph", "search"):
        for path in sorted((SOURCE / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and is_number(node.value):
                    for target in ast.walk(node.targets[0]):
                        if isinstance(target, ast.Name):
                            yield path.relative_to(SOURCE).as_posix(), target.id


def test_constants_that_can_change_a_ranking_are_listed():
    listed = {
        (module, name)
        for row in ROWS
        if len(row) > 4
        for module in re.findall(r"`([^`]+\.py)`", row[3])
        for name in names_of(row)
    }
    missing = [
        one
        for one in constants()
        if one not in listed and not _ONLY_SPEED_OR_DISPLAY.fullmatch(one[1])
    ]
    assert missing == []


def test_listed_constants_exist():
    for row in ROWS:
        for module in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", row[3] if len(row) > 4 else ""):
            root = ROOT if module.startswith("training") else SOURCE
            text = (root / module).read_text(encoding="utf-8")
            assert any(
                re.search(rf"^{name}\b|, {name}\b", text, re.MULTILINE) for name in names_of(row)
            )


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: one.__qualname__)
def test_settings_are_listed_with_their_defaults(settings):
    for parameter in inspect.signature(settings).parameters.values():
        if type(parameter.default) not in (int, float):
            continue
        rows = [row for row in ROWS if len(row) > 3 and parameter.name in names_of(row)]
        assert rows, parameter.name
        shown = f"{parameter.default:,g}" if parameter.default < 1e5 else str(parameter.default)
        assert any(re.search(rf"(?<![\d.]){re.escape(shown)}(?![\d.])", row[2]) for row in rows), (
            parameter
        )
