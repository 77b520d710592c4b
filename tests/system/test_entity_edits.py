"""Entity edits of index files: undone without a trace, seen by others, and carried everywhere."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Mention,
    Models,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    UnknownEntityError,
)
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.files import snapshot_arrays, snapshot_meta
from fakes import NameExtractor
from strategies import examples

DOCUMENTS = [
    SourceDocument("a", "Robert met Anna in Oslo. Bob gave Anna a map. Bob left for Rome."),
    SourceDocument("b", "Rob sailed to Rome. Anna wrote to Cleo. Robert read the map.", "Bob"),
    SourceDocument("c", "The US is far away. Emil told us about Oslo. Emil met Robert."),
]
EDITS = {
    "alias": {"Bob": "Robert"},
    "separate": [("US", "us"), ("Rob", "Robert")],
    "stop": ["Rome"],
}


class SpellingExtractor(NameExtractor):
    """Also finds "US" and "us"."""

    fingerprint = "fake:spelling"

    def extract(self, texts):
        found = super().extract(texts)
        for text, sentences in zip(texts, found, strict=True):
            spans = [match.span() for match in re.finditer(r"\b(US|us)\b", text)]
            sentences.append([Mention(text[start:end], start, end, "NAME") for start, end in spans])
        return found


def content(rag):
    """Return everything in the snapshot except the name of its generation."""
    snapshot = rag._session.snapshot()
    return (
        {name: array.tolist() for name, array in snapshot_arrays(snapshot).items()},
        snapshot_meta(snapshot) | {"generation": None},
        list(rag.export()),
    )


@pytest.fixture
def rag(open_index):
    rag = open_index(chunk_size=6, chunk_overlap=0, extractor=SpellingExtractor())
    rag.add(DOCUMENTS)
    return rag


@pytest.mark.parametrize("strategy", [None, PaperStrategy()])
def test_an_alias_names_an_entity_in_questions_of_another_language(open_index, strategy):
    class Chinese:
        fingerprint = "fake:chinese"

        def extract(self, texts):
            found = [[m.span() for m in re.finditer("刘备|曹操|关羽", text)] for text in texts]
            return [
                [[Mention(t[a:b], a, b, "PERSON") for a, b in spans]]
                for t, spans in zip(texts, found, strict=True)
            ]

    rag = open_index(extractor=Chinese())
    rag.add([SourceDocument("a", "刘备见关羽。"), SourceDocument("b", "曹操骑马。")])
    before = rag.retrieve("Whom did Liu Bei meet?", strategy=strategy)
    rag.edit_entities(alias={"Liu Bei": "刘备"})
    after = rag.retrieve("Whom did Liu Bei meet?", strategy=strategy)
    assert [one.entity for one in before.trace.links] == []
    assert [one.entity for one in after.trace.links] == ["刘备"]
    assert after.nodes[0].document_id == "a"


def test_edits_change_the_graph_and_the_links(rag):
    rag.edit_entities(**EDITS)
    graph = rag.graph
    assert {"robert", "rob", "anna"} <= set(graph.names)
    assert not {"bob", "rome"} & set(graph.names)
    assert graph.postings[[graph.index["robert"]]].sum() == 5
    assert {"US", "us"} <= set(graph.names)
    for strategy in (None, PaperStrategy()):
        trace = rag.retrieve("Where did Bob meet Anna in Rome?", strategy=strategy).trace
        assert {one.entity for one in trace.links} == {"robert", "anna"}
        assert "Rome" not in trace.unlinked
    assert rag.verify().problems == ()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"alias": {"Bob": "Roberto"}}, UnknownEntityError, "no entity 'Roberto': did you mean"),
        ({"separate": [("X", "Y")]}, UnknownEntityError, "neither 'X' nor 'Y'"),
        ({"alias": {"Bob": "Anna", "Cleo": "X"}}, UnknownEntityError, "no entity 'X'"),
        ({"alias": {"Bob": "Anna", "Anna": "Bob"}}, InvalidInputError, "is a cycle"),
        ({"stop": ["Anna"], "undo": "x"}, InvalidInputError, "no edit 'x'"),
    ],
)
def test_a_rejected_edit_writes_nothing(rag, arguments, error, message):
    before = rag.store.dump()
    with pytest.raises(error, match=message):
        rag.edit_entities(**arguments)
    assert rag.store.dump() == before


def test_an_edit_that_holds_writes_nothing(rag):
    edits = rag.edit_entities(**EDITS)
    before = rag.store.dump()
    assert rag.edit_entities(**EDITS) == rag.edit_entities() == edits == rag.edits()
    assert rag.store.dump() == before


def test_an_alias_may_name_an_alias_and_a_title(rag):
    rag.edit_entities(alias={"Bob": "Robert"})
    rag.edit_entities(alias={"Bobby": "Bob"})
    assert rag.retrieve("Where is Bobby?").trace.links[0].entity == "robert"
    rag.edit_entities(undo=rag.edits())
    rag.edit_entities(alias={"Oslo": "Rome"}, stop="Cleo")
    assert [one.kind for one in rag.edits()] == ["alias", "stop"]


@pytest.fixture(scope="module")
def edited_again():
    """An index that each example edits and leaves as it was, and its content."""
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(8),
        models=Models(extractor=SpellingExtractor()),
        settings=IndexSettings(chunk_size=6, chunk_overlap=0),
    ) as rag:
        rag.add(DOCUMENTS)
        yield rag, content(rag)


@examples(10)
@given(
    st.lists(
        st.sampled_from(
            [
                {"alias": {"Bob": "Robert"}},
                {"alias": {"Robert": "Anna"}},
                {"alias": {"Captain": "Anna"}},
                {"separate": [("US", "us")]},
                {"separate": [("Rob", "Robert")]},
                {"stop": ["Rome", "Emil"]},
            ]
        ),
        min_size=1,
        max_size=4,
        unique_by=str,
    ),
    st.randoms(),
)
def test_undoing_all_edits_in_any_order_leaves_no_trace(edited_again, some, random):
    rag, before = edited_again
    for edit in rag.edits():  # of an example that failed
        rag.edit_entities(undo=edit)
    for one in some:
        rag.edit_entities(**one)
    fresh = snapshot_arrays(build_snapshot(rag.store))
    merged = snapshot_arrays(rag._session.snapshot())
    assert {name: a.tolist() for name, a in fresh.items()} == {
        name: a.tolist() for name, a in merged.items()
    }
    edits = list(rag.edits())
    random.shuffle(edits)
    for edit in edits:
        rag.edit_entities(undo=edit)
    assert content(rag) == before


def test_edits_outlive_documents_and_apply_to_later_ones(rag, open_index):
    rag.edit_entities(**EDITS)
    rag.delete(["a", "b", "c"])
    assert rag.graph.names == []
    assert rag.verify().ok
    rag.add(DOCUMENTS[::-1])
    rag.update(SourceDocument("a", "Bob met Emil."))
    fresh = open_index(chunk_size=6, chunk_overlap=0, extractor=SpellingExtractor())
    fresh.add([SourceDocument("a", "Bob met Emil."), *DOCUMENTS[1:]])
    fresh.edit_entities(**EDITS)
    assert list(rag.export()) == list(fresh.export())


def test_edits_outlive_a_reindex(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(DOCUMENTS)
        edits = rag.edit_entities(alias=EDITS["alias"])
    with open_index(path, extractor=SpellingExtractor()) as rag:
        rag.reindex()
        assert rag.edits() == edits
        assert "bob" not in rag.graph.index
        assert rag.verify().problems == ()


def test_export_import_and_copies_carry_edits(rag, tmp_path, open_index):
    edits = rag.edit_entities(**EDITS)
    rag.export_to(tmp_path / "folder")
    rag.copy_to(tmp_path / "copy.e2g")
    E2GraphRAG.import_from(tmp_path / "folder", tmp_path / "imported.e2g")
    for name in ("copy.e2g", "imported.e2g"):
        options = {"chunk_size": None, "chunk_overlap": None, "extractor": SpellingExtractor()}
        with open_index(tmp_path / name, **options) as other:
            assert other.edits() == edits
            assert list(other.export()) == list(rag.export())


def test_another_handle_sees_edits(tmp_path, open_index):
    """As another process does: a handle shares only the file with others."""
    rag, reader = (open_index(tmp_path / "i.e2g") for _ in range(2))
    rag.add(DOCUMENTS)
    assert "bob" in reader.graph.index
    edits = rag.edit_entities(alias={"Bob": "Robert"})
    assert "bob" not in reader.graph.index
    assert reader.edits() == edits
    rag.edit_entities(undo=edits)
    assert "bob" in reader.graph.index


def test_a_saved_snapshot_contains_the_edits(tmp_path, open_index, monkeypatch):
    path = tmp_path / "i.e2g"
    with open_index(path, extractor=SpellingExtractor()) as rag:
        rag.add(DOCUMENTS)
        rag.edit_entities(**EDITS)
        expected = content(rag)
    monkeypatch.setattr("e2graphrag_integrations.snapshot.files.build_snapshot", None)
    with open_index(path, extractor=SpellingExtractor()) as rag:
        loaded = rag._session.snapshot()
        assert loaded.edits == rag.edits()
        assert np.array_equal(loaded.graph.edges.data, expected[0]["edges_data"])


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE entity_edits SET edit = \'["stop","Anna"]\'',
        "UPDATE entity_edits SET checksum = 0",
    ],
)
def test_damaged_edits_are_reported(tmp_path, open_index, statement):
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(DOCUMENTS)
        rag.edit_entities(stop="Oslo")
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    with open_index(path) as rag:
        assert any("entity edit" in problem for problem in rag.verify().problems)
        with pytest.raises(CorruptStoreError, match="does not match its checksum"):
            rag.retrieve("Where is Anna?")


async def _edit(rag):
    edits = await rag.aedit_entities(stop="Oslo")
    return await rag.aedit_entities(undo=edits)


def test_edits_can_be_made_in_an_event_loop(rag):
    import asyncio

    assert len(asyncio.run(_edit(rag))) == 0
