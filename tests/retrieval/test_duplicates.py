"""Equal texts of several documents are shown once, and the result names the other documents."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

TEXT = "The turbine at Halsen failed because the gearbox ran dry."
COPIES = [SourceDocument(f"copy{n}", TEXT, metadata={"tenant": "ab"[n % 2]}) for n in range(6)]
OTHERS = [
    SourceDocument("other1", "An inspector at Halsen blamed the turbine failure on lubrication."),
    SourceDocument("other2", "The turbine at Halsen was replaced after the gearbox failed."),
    SourceDocument("changed", TEXT.replace("Halsen", "Morvik")),
]


@pytest.fixture(scope="module", params=["hashing", None], ids=["hashed", "real vectors"])
def rag(request):
    with E2GraphRAG.open(":memory:", embedder=request.param) as rag:
        rag.add([*COPIES, *OTHERS, SourceDocument("case", f"“{TEXT.upper()}”\n")])
        yield rag


@pytest.mark.parametrize("options", [{"k": 5}, {"token_budget": 200}], ids=str)
def test_copies_take_one_place_and_name_each_other(rag, options):
    nodes = rag.retrieve("Why did the turbine at Halsen fail?", **options).nodes
    chunks = [node for node in nodes if not node.level]
    copies = [node for node in chunks if node.text.casefold().strip("“”\n") == TEXT.casefold()]
    assert len(copies) == 1
    assert {copies[0].document_id, *copies[0].also_in} <= {*(f"copy{n}" for n in range(6)), "case"}
    assert len(copies[0].also_in) >= 4
    assert {"other1", "other2"} <= {node.document_id for node in chunks}


def test_a_text_with_another_name_is_no_copy(rag):
    nodes = rag.retrieve("Which turbines failed?", k=9).nodes
    assert "changed" in {node.document_id for node in nodes}


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_a_filter_holds_for_the_other_documents(rag, tenant):
    nodes = rag.retrieve("Why did the turbine fail?", k=3, where={"tenant": tenant}).nodes
    own = {one.id for one in COPIES if one.metadata["tenant"] == tenant}
    found = {node.document_id for node in nodes}.union(*(node.also_in for node in nodes))
    assert found <= own
    assert len(found) == 3


def test_the_trace_counts_the_copies(rag):
    assert rag.retrieve("Why did the turbine at Halsen fail?", k=5).trace.cuts["duplicates"] > 0
