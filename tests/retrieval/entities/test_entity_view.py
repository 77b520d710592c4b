"""Browsing entities: exact evidence, and under a filter only that of matching chunks."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor

DOCUMENTS = [
    SourceDocument("a", "Anna met Bert in Oslo. Bob gave Anna a map. Bob left Oslo.", "Voyage"),
    SourceDocument("b", "Anna wrote to Cleo. Bert sailed to Rome.", "Bob"),
    SourceDocument("c", "Cleo met Bert and Anna. Cleo had a map."),
]
OPTIONS = {"chunk_size": 12, "chunk_overlap": 6}


def build(documents):
    rag = E2GraphRAG.open(
        ":memory:",
        **grouped({"embedder": HashingEmbedder(8), "extractor": NameExtractor(), **OPTIONS}),
    )
    rag.add(documents)
    return rag


@pytest.fixture(scope="module")
def rag():
    with build(DOCUMENTS) as rag:
        rag.edit_entities(alias={"Bob": "Bert"})
        yield rag


def test_counts_are_those_of_the_graph(rag):
    graph = rag.graph
    listed = rag.entities()
    assert [one.mentions for one in listed] == sorted((o.mentions for o in listed), reverse=True)
    assert {one.name for one in listed} == {*graph.names, "voyage"}
    for one in listed:
        if one.name in graph.index:
            chunks, counts = graph.chunks(graph.index[one.name])
            assert (one.chunks, one.mentions) == (len(chunks), counts.sum())
            assert one.degree == len(graph.neighbors(graph.index[one.name]))
    [bert] = rag.entities(prefix="bo", top=1)
    assert (bert.name, bert.documents, bert.aliases) == ("bert", 3, ("Bob",))


def test_mentions_are_exact_and_listed_once(rag):
    details = rag.entity("Bob")
    assert [one.text for one in details.mentions] == ["Bert", "Bob", "Bob", "Bert", "Bert"]
    assert details.info.mentions > len(details.mentions)  # chunks overlap
    texts = {document.id: document.text for document in DOCUMENTS}
    for one in details.mentions:
        assert texts[one.document_id][one.start : one.end] == one.text
        assert texts[one.document_id][one.sentence_start : one.sentence_end] == one.sentence
        assert one.text in one.sentence
    assert details.documents == ("a", "b", "c")
    assert details.subject_of == ("b",)
    limited = rag.entity("Bob", top=2)
    assert limited.mentions == details.mentions[:2]
    assert limited.neighbors == details.neighbors[:2]
    assert limited.info == details.info


@pytest.mark.parametrize("visible", [["a"], ["b"], ["a", "c"], ["b", "c"]])
def test_a_filter_gives_the_evidence_of_an_index_of_the_matching_documents(rag, visible):
    with build([one for one in DOCUMENTS if one.id in visible]) as alone:
        alone.edit_entities(alias={"Bob": "Bert"})
        where = {"document_id": {"$in": visible}}
        found = rag.entities(where=where)
        assert found == [type(one)(**{**asdict(one), "aliases": ()}) for one in alone.entities()]
        for one in found:
            expected, actual = alone.entity(one.name), rag.entity(one.name, where=where)
            assert [m.sentence for m in actual.mentions] == [m.sentence for m in expected.mentions]
            assert set(actual.neighbors) == set(expected.neighbors)
            assert actual.documents == expected.documents
            assert actual.subject_of == expected.subject_of


def test_hidden_and_unknown_entities_are_errors(rag):
    for name, where in (("Oslo", {"document_id": "b"}), ("Nobody", {"document_id": "b"})):
        with pytest.raises(UnknownEntityError) as error:
            rag.entity(name, where=where)
        assert str(error.value) == f"no entity {name!r} in the documents that match the filter"
    with pytest.raises(
        UnknownEntityError, match="no entity 'Voyagee' in the index: did you mean 'voyage'"
    ):
        rag.entity("Voyagee")
    edits = rag.edit_entities(stop="Rome")
    with pytest.raises(UnknownEntityError, match="'Rome' is stopped"):
        rag.entity("Rome")
    rag.edit_entities(undo=[one for one in edits if one.kind == "stop"])
    assert isinstance(UnknownEntityError("x"), KeyError)


def test_headings_of_hidden_chunks_stay_hidden():
    text = "# Zoo\n\nZoo is a park. Anna works there.\n\nBert came later that day and left."
    first, second = (0, text.index("Bert")), (text.index("Bert"), len(text))
    pages = [(*first, {"tenant": 1}), (*second, {"tenant": 2})]
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(8),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(split_segments=True),
    ) as rag:
        rag.add(SourceDocument("d", text, segments=pages))
        assert "zoo" in [one.name for one in rag.entities()]
        assert [one.name for one in rag.entities(where={"tenant": 2})] == ["bert"]
        with pytest.raises(UnknownEntityError):
            rag.entity("Zoo", where={"tenant": 2})


@pytest.mark.parametrize(
    "call",
    [
        lambda rag: rag.entities(top=0),
        lambda rag: rag.entities(prefix=3),
        lambda rag: rag.entity(""),
        lambda rag: rag.entity(None),
        lambda rag: rag.entity("Anna", top=-1),
        lambda rag: rag.entities(where={"$bad": 1}),
    ],
)
def test_invalid_arguments_are_rejected(rag, call):
    with pytest.raises(InvalidInputError):
        call(rag)


def test_entities_can_be_browsed_in_an_event_loop(rag):
    async def browse():
        return await rag.aentities(top=1), await rag.aentity("Anna")

    assert asyncio.run(browse()) == (rag.entities(top=1), rag.entity("Anna"))


def test_an_empty_index_has_no_entities():
    with build([]) as rag:
        assert rag.entities() == []
        with pytest.raises(UnknownEntityError):
            rag.entity("Anna")
