"""A new stage of the pipeline needs one module and one line: the example of CONTRIBUTING.md."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval import pipeline
from e2graphrag_integrations.retrieval.strategy import Query

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_stage_of_the_guide_leaves_out_old_documents(open_index, monkeypatch):
    guide = GUIDE.read_text(encoding="utf-8").partition("## A new step of retrieval")[2]
    code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0]
    module = types.ModuleType("example_stage")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # its dataclass looks it up
    exec(compile(code, "CONTRIBUTING.md", "exec"), vars(module))  # noqa: S102 - our own docs
    rank, *others = pipeline.SEARCH
    monkeypatch.setattr(pipeline, "SEARCH", (rank, vars(module)["drop_older"], *others))
    rag = open_index()
    rag.add(
        SourceDocument(year, f"Anna left Oslo in {year}.", metadata={"date": f"{year}-05-01"})
        for year in ("2021", "2023", "2025")
    )

    def found(*options):
        result = rag.answer(Query("Who left Oslo?", options=options), rag.strategy)
        return {node.document_id for node in result.nodes}, result.trace.cuts.get("not_before")

    assert found() == ({"2021", "2023", "2025"}, None)
    assert found(vars(module)["NotBefore"]("2023-01-01")) == ({"2023", "2025"}, 1)
