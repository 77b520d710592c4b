"""Entity edits through the LangChain index."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from langchain_fakes import SMALL

DOCUMENTS = [
    Document("Robert met Anna in Oslo.", id="a", metadata={"source": "one", "year": 1}),
    Document("Bob wrote to Cleo.", id="b", metadata={"source": "two", "year": 2}),
]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_entities_are_edited_browsed_and_saved(lc_index_of, tmp_path, is_async):
    index = lc_index_of(DOCUMENTS[:1])
    index.upsert(DOCUMENTS[1:])
    if is_async:
        edits = await index.rag.aedit_entities(alias={"Bob": "Robert"})
        details = await index.rag.aentity("Bob", where={"year": 2})
        listed = await index.rag.aentities(prefix="bo")
    else:
        edits = index.rag.edit_entities(alias={"Bob": "Robert"})
        details = index.rag.entity("Bob", where={"year": 2})
        listed = index.rag.entities(prefix="bo")
    assert index.rag.edits() == edits
    assert [one.text for one in details.mentions] == ["Bob"]
    assert [(one.name, one.mentions, one.aliases) for one in listed] == [("robert", 2, ("Bob",))]
    index.save_local(tmp_path / "saved")
    with E2GraphRAGIndex.load_local(tmp_path / "saved", **grouped(SMALL)) as loaded:
        assert loaded.rag.edits() == edits
        assert loaded.rag.edit_entities(undo=edits).edits == ()
        assert loaded.rag.entity("Bob").info.mentions == 1


def test_errors_reach_the_caller(lc_index_of):
    index = lc_index_of(DOCUMENTS)
    with pytest.raises(UnknownEntityError, match="no entity 'Zoe'"):
        index.rag.edit_entities(alias={"Bob": "Zoe"})
    with pytest.raises(InvalidInputError, match="must be a list of names"):
        index.rag.edit_entities(stop=3)
