"""Tags: assignment, what follows from it, and how a tag set is kept."""

from __future__ import annotations

import asyncio
import json
import shutil

import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument, Tag, tagged
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError
from e2graphrag_integrations.snapshot.files import find_stale_parts
from e2graphrag_integrations.snapshot.tags import TAGS_PER_CHUNK, assign_tags
from e2graphrag_integrations.store.rows import put_manifest
from fakes import AnonymousEmbedder, CountingLLM, damage_file

TICKETS = {
    "invoice": "My credit card was charged twice for the monthly plan. Please refund one payment.",
    "parcel": "The parcel has not arrived. The courier says that it is still at the depot.",
    "login": "I cannot log in any more. The reset mail for my password never comes.",
    "praise": "Thank you, we had a wonderful time by the sea last summer.",
}
TAGS = [
    Tag("billing", "Payments, invoices and refunds", ["You billed us for the wrong amount."]),
    {"name": "shipping", "examples": ["When will my order be delivered?"]},
    "account access",
]


def documents(texts=TICKETS):
    return [SourceDocument(id_, text) for id_, text in texts.items()]


def tags_by_document(rag):
    nodes = rag.retrieve("?", k=100, mode="global", fill=True).nodes
    return {node.document_id: node.tags for node in nodes if node.level == 0}


@pytest.fixture
def rag(open_index, tmp_path):
    rag = open_index(tmp_path / "tickets.e2g")
    rag.add(documents())
    rag.set_tags(["card", "parcel", "password"])
    return rag


def test_tags_are_assigned_by_meaning_and_follow_later_documents(real_embedder, names):
    with E2GraphRAG.open(":memory:", embedder=real_embedder, models=Models(extractor=names)) as rag:
        rag.add(documents())
        rag.set_tags(TAGS)
        first = {id_: tags[:1] for id_, tags in tags_by_document(rag).items() if id_ != "praise"}
        assert first == {
            "invoice": ("billing",),
            "parcel": ("shipping",),
            "login": ("account access",),
        }
        rag.add(SourceDocument("late", "Our package was sent to the wrong address."))
        assert tags_by_document(rag)["late"][0] == "shipping"
        assert rag.tag_counts()["account access"] == 1
        result = rag.retrieve("Where is it?", where=tagged("account access"))
        assert {node.document_id for node in result.nodes} == {"login"}


def test_tags_of_an_updated_index_equal_those_of_a_new_one(rag, open_index):
    rag.tag_counts()
    rag.update(SourceDocument("praise", "The password of the card is wrong."))
    rag.delete("login")
    rag.add(SourceDocument("z", "A parcel with a card."))
    new = open_index()
    new.add([rag.document(id_) for id_ in rag.document_ids])
    new.set_tags(["card", "parcel", "password"])
    assert tags_by_document(rag) == tags_by_document(new)
    assert rag.tag_counts()["password"] == 1


def test_a_chunk_has_few_tags_and_an_order_of_documents_changes_none(open_index):
    words = ["map", "card", "parcel", "password", "sea", "plan"]
    forward, backward = open_index(chunk_size=100), open_index(chunk_size=100)
    texts = {**TICKETS, "all": " ".join(words)}
    forward.add(documents(texts))
    backward.add(documents(dict(reversed(texts.items()))))
    for rag in (forward, backward):
        rag.set_tags(words)
    assert tags_by_document(forward) == tags_by_document(backward)
    assert 1 < len(tags_by_document(forward)["all"]) <= TAGS_PER_CHUNK


def test_a_summary_has_the_tags_of_half_of_its_chunks_and_a_filter_needs_all(open_index):
    rag = open_index(chunk_size=6, chunk_overlap=0, group_size=2, summarizer=CountingLLM())
    rag.add(SourceDocument("d", "A card is red. A card is blue. The sea is calm. A card is new."))
    rag.set_tags(["card", "sea"])
    nodes = rag.retrieve("card", k=20, fill=True).nodes
    tags = {(node.level, node.position): node.tags for node in nodes}
    assert tags[0, 0] == tags[0, 1] == tags[1, 0] == ("card",)
    assert tags[1, 1] == ("card", "sea")
    found = rag.retrieve("card", k=20, fill=True, where=tagged("card")).nodes
    assert {(node.level, node.position) for node in found} == {(0, 0), (0, 1), (0, 3), (1, 0)}
    assert rag.retrieve("x", where=tagged("card", where={"document_id": "e"})).nodes == ()


def test_the_tag_set_and_the_assignments_persist(rag, open_index, tmp_path):
    counts = rag.tag_counts()
    path, copy = rag.path, tmp_path / "copy.e2g"
    rag.copy_to(copy)
    rag.export_to(tmp_path / "export")
    E2GraphRAG.import_from(tmp_path / "export", tmp_path / "imported.e2g")
    exported = list(rag.export())
    assert json.loads(exported[1])["tags"][0]["name"] == "card"
    rag.close()
    for file in (path, copy, tmp_path / "imported.e2g"):
        again = open_index(file)
        assert [tag.name for tag in again.tag_set()] == ["card", "parcel", "password"]
        assert again.tag_counts() == counts
        assert list(again.export()) == exported
        assert again.verify().ok


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("how", ["gone", "short", "flipped"])
def test_damaged_assignments_are_computed_again(rag, open_index, tmp_path, how):
    counts = rag.tag_counts()
    rag.close()
    [folder] = (tmp_path / "tickets.e2g.snapshot").glob("*/tags")
    damage_file(folder / "tags.npy", how)
    again = open_index(tmp_path / "tickets.e2g")
    assert again.tag_counts() == counts
    assert find_stale_parts(again.store) == []


def test_verify_finds_assignments_that_do_not_belong_to_the_tag_set(rag, monkeypatch):
    monkeypatch.setattr(
        "e2graphrag_integrations.snapshot.tags.assign_tags", lambda s: 1 - abs(assign_tags(s))
    )
    rag.tag_counts()
    monkeypatch.undo()
    assert any("tags" in problem for problem in rag.verify().problems)


def test_none_removes_the_tags_and_a_new_set_replaces_them(rag):
    rag.set_tags(["sea"])
    assert rag.tag_counts() == {"sea": 1}
    asyncio.run(rag.aset_tags(None))
    assert (rag.tag_set(), rag.tag_counts()) == ((), {})
    assert set(tags_by_document(rag).values()) == {()}


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([], "tags is empty"),
        ("card", "must be a list"),
        ({"card": []}, "must be a list"),
        (3, "must be a list"),
        ([""], "non-empty"),
        (["\ud800"], "surrogate"),
        ([7], r"tags\[0\]=7"),
        ([{"examples": []}], "no key 'name'"),
        ([{"name": "a", "words": []}], "unknown key 'words'"),
        ([{"name": "a", "examples": "text"}], "must be a list of strings"),
        ([{"name": "a", "examples": [3]}], "must be a string"),
        ([{"name": "a", "description": None}], "must be a string"),
        (["a", " A "], "'a' and 'A'"),
        (["Caf\u00e9", "Cafe\u0301"], "give each tag one name"),
        (["x" * 101], "exceeds 100 characters"),
        ([{"name": "a", "description": "x" * 1001}], "exceeds 1,000 characters"),
        ([{"name": "a", "examples": ["x"] * 51}], "51 examples"),
        ([str(number) for number in range(501)], "more than 500 tags"),
    ],
)
def test_malformed_tag_sets_raise_and_change_nothing(rag, tags, message):
    generation = rag.store.generation
    with pytest.raises(InvalidInputError, match=message):
        rag.set_tags(tags)
    assert rag.store.generation == generation
    assert len(rag.tag_set()) == 3


def test_unknown_tags_in_a_filter_raise(rag):
    with pytest.raises(InvalidInputError, match="unknown tag 'cards'"):
        rag.retrieve("x", where=tagged("cards"))
    with pytest.raises(InvalidInputError, match="needs names"):
        tagged()
    with pytest.raises(InvalidInputError, match="not an operator"):
        tagged("card", where={"a": {"$near": 1}})


@pytest.mark.parametrize("text", ["{", "[]", '{"tags": ["a"], "vectors": "!", "background": 0}'])
def test_a_damaged_tag_set_raises(rag, text):
    with rag.store.transaction() as db:
        put_manifest(db, "tags", text)
    with pytest.raises(CorruptStoreError, match="tags in the manifest"):
        rag.tag_set()
    assert not rag.verify().ok


def test_the_first_documents_embed_the_tags_of_a_former_embedder_again(rag, open_index):
    rag.delete(rag.document_ids)
    rag.close()
    other = open_index(rag.path, embedder=AnonymousEmbedder())
    other.add(documents())
    assert any(other.tag_counts().values())
    other.retrieve("x", boost={"tag": {"card": 2.0}})


def test_a_snapshot_without_tags_from_before_is_used(open_index, tmp_path):
    rag = open_index(tmp_path / "i.e2g")
    rag.add(documents())
    rag.refresh()
    rag.close()
    [folder] = (tmp_path / "i.e2g.snapshot").iterdir()
    assert "tag_set" not in (folder / "meta.json").read_text(encoding="utf-8")
    shutil.rmtree(folder / "tags", ignore_errors=True)
    assert open_index(tmp_path / "i.e2g").tag_counts() == {}


def test_an_empty_index_accepts_tags(open_index):
    rag = open_index(embedder=HashingEmbedder())
    rag.set_tags(["card"])
    assert rag.tag_counts() == {"card": 0}
    rag.add(documents())
    assert rag.tag_counts() == {"card": 1}
    assert np.all(rag.store.tag_set().vectors.shape == (1, HashingEmbedder().dimension))
