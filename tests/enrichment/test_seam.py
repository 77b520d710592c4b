"""Enrichment is a stage and a field that the core hardly knows."""

from __future__ import annotations

import re
from pathlib import Path

import e2graphrag_integrations as package

SOURCE = Path(package.__file__).parent
FACES = {"agents", "cli", "langchain", "llama_index", "server", "views"}
_NAME = re.compile(r"(?<![a-z])enrich", re.IGNORECASE)
MAX_FILES = 10


def test_few_files_of_the_core_name_it():
    """As in the table of ARCHITECTURE.md, without its folder and the faces."""
    named = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in {"enrichment", *FACES}
        and _NAME.search(path.read_text(encoding="utf-8"))
    }
    assert len(named) <= MAX_FILES, sorted(named)


def test_only_the_engine_imports_it_in_the_core():
    statement = f"from {package.__name__}.enrichment"
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if statement in path.read_text(encoding="utf-8")
    }
    outside = {one for one in users if Path(one).parts[0] not in {"enrichment", *FACES}}
    assert outside == {"engine/base.py", "engine/maintenance.py"}
