"""Two entities with one name: separated by documents, undone, carried everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.files import snapshot_arrays, snapshot_meta

DOCUMENTS = [
    SourceDocument("a", "Mercury passed Venus. Galileo saw Mercury and Venus.", metadata={"t": 1}),
    SourceDocument("b", "Freddie Mercury sang. Mercury sang with Brian.", "Mercury", {"t": 2}),
    SourceDocument("c", "Galileo wrote of Venus. Venus hid Mercury.", metadata={"t": 1}),
]
SINGER = [("Mercury", {"Mercury (singer)": ["b"]})]


@pytest.fixture
def rag(open_index):
    rag = open_index()
    rag.add(DOCUMENTS)
    return rag


def documents_of(rag):
    return {
        one.name: rag.entity(one.name).documents for one in rag.entities() if "merc" in one.name
    }


def content(snapshot):
    meta = {k: v for k, v in snapshot_meta(snapshot).items() if k != "generation"}
    return meta, {name: np.asarray(a).tolist() for name, a in snapshot_arrays(snapshot).items()}


def is_full_build(rag):
    return content(rag._session.snapshot()) == content(build_snapshot(rag.store))


def test_a_name_means_another_entity_in_some_documents(rag):
    before = documents_of(rag)
    assert before["mercury"] == ("a", "b", "c")
    [edit] = rag.edit_entities(separate=SINGER)
    assert str(edit) == "'Mercury' means 'Mercury (singer)' in 1 document"
    found = documents_of(rag)
    assert found["mercury"] == ("a", "c")
    singer = rag.entity("Mercury (singer)")
    assert singer.documents == singer.subject_of == ("b",)
    assert {one.name for one in singer.neighbors} == {"brian", "freddie"}
    assert [one.text for one in singer.mentions] == ["Mercury"] * 2
    assert {one.name for one in rag.entity("Mercury").neighbors} == {"venus", "galileo"}
    assert is_full_build(rag)
    rag.edit_entities(undo=rag.edits())
    assert documents_of(rag) == before
    assert is_full_build(rag)


def test_questions_find_all_entities_with_the_name(rag):
    rag.edit_entities(separate=SINGER)
    links = {one.entity: one.how for one in rag.retrieve("Who is Mercury?").trace.links}
    assert links == {"mercury": "exact", "mercury (singer": "homonym"}
    links = rag.retrieve("Who is Mercury (singer)?").trace.links
    assert "mercury (singer" in {one.entity for one in links}


def test_each_document_may_have_another_meaning(rag):
    meanings = {"Mercury (singer)": ["b"], "Mercury (planet)": ["a", "c"]}
    rag.edit_entities(separate=[("mercury", meanings)])
    assert set(documents_of(rag)) >= {"mercury (singer", "mercury (planet"}
    assert "mercury" not in documents_of(rag)
    links = {one.entity for one in rag.retrieve("Who is Mercury?").trace.links}
    assert links == {"mercury (singer", "mercury (planet"}


def test_meanings_survive_updates_and_apply_to_later_versions(rag, open_index, tmp_path):
    rag.edit_entities(separate=SINGER)
    rag.add(SourceDocument("d", "Venus met Mercury."))
    assert documents_of(rag)["mercury"] == ("a", "c", "d")
    rag.update(SourceDocument("b", "Mercury sang in Zanzibar."))
    assert documents_of(rag)["mercury (singer"] == ("b",)
    assert is_full_build(rag)
    rag.delete("b")
    assert "mercury (singer" not in documents_of(rag)
    rag.add(DOCUMENTS[1])
    assert documents_of(rag)["mercury (singer"] == ("b",)
    rag.reindex()
    assert documents_of(rag)["mercury (singer"] == ("b",)
    rag.export_to(tmp_path / "export")
    E2GraphRAG.import_from(tmp_path / "export", tmp_path / "copy.e2g")
    copy = open_index(tmp_path / "copy.e2g")
    assert copy.edits() == rag.edits()
    assert documents_of(copy) == documents_of(rag)


def test_a_scope_sees_only_its_own_meanings(rag):
    rag.edit_entities(separate=SINGER)
    others, own = rag.scoped({"t": 1}), rag.scoped({"t": 2})
    assert {one.name for one in others.entities()} == {"mercury", "venus", "galileo"}
    assert "mercury (singer" in {one.name for one in own.entities()}
    assert own.entity("Mercury (singer)").mentions
    links = {one.entity for one in others.retrieve("Who is Mercury?").trace.links}
    assert links == {"mercury"}


@pytest.mark.parametrize(
    ("separate", "error", "message"),
    [
        ([("Mercury", {"mercury": ["b"]})], InvalidInputError, "does not tell"),
        ([("Mercury", {"Mercury (singer)": []})], InvalidInputError, "needs the documents"),
        ([("Mercury", {"Mercury (singer)": "b"})], InvalidInputError, "ids of the documents"),
        ([("Mercury", {"Mercury (singer)": [3]})], InvalidInputError, "document"),
        ([("Mercury", {"!": ["b"]})], InvalidInputError, "no letter"),
        ([("Mercury", {"M1": ["b"], "M2": ["b"]})], InvalidInputError, "cannot mean both"),
        ([("Mars", {"Mars (god)": ["b"]})], UnknownEntityError, "no entity 'Mars'"),
    ],
)
def test_invalid_meanings_write_nothing(rag, separate, error, message):
    with pytest.raises(error, match=message):
        rag.edit_entities(separate=separate)
    assert not rag.edits()
