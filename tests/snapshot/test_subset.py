"""A subset of a snapshot equals a full build of the visible nodes alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.entities.edits import NO_EDITS
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.scopes import Scope
from e2graphrag_integrations.search.external import VectorStoreSearch
from e2graphrag_integrations.search.subset import SubsetSearch
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.conversion import snapshot_arrays
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.subset import SnapshotSubsets
from fakes import NameExtractor
from strategies import examples

_SENTENCES = [
    "Anna met Bert in Oslo.",
    "Cleo saw Dora and Emil.",
    "A Map is a chart.",
    "Bert left.",
    "Zoe wrote to Yves about Xenia.",
]


def open_memory(**options) -> E2GraphRAG:
    return E2GraphRAG.open(
        ":memory:",
        **grouped(
            {
                "embedder": HashingEmbedder(),
                "extractor": NameExtractor(),
                "chunk_size": 8,
                "chunk_overlap": 2,
                **options,
            }
        ),
    )


def assert_equal(actual: Snapshot, expected: Snapshot) -> None:
    ours, theirs = snapshot_arrays(actual), snapshot_arrays(expected)
    by_records = {name for name in theirs if "record" in name or "section" in name}
    for name in theirs.keys() - by_records:
        assert np.array_equal(ours[name], theirs[name]), name
    assert actual.documents == expected.documents
    assert actual.titles == expected.titles
    assert actual.stamps == expected.stamps
    for row in range(len(expected.nodes.ids)):
        records = [
            [one.records.values[i] for i in one.records.indices[start:end].tolist()]
            for one in (actual, expected)
            for start, end in [(one.records.starts[row], one.records.ends[row])]
        ]
        assert records[0] == records[1]
        document = int(expected.nodes.document[row])
        span = int(expected.nodes.start[row]), int(expected.nodes.end[row])
        sections = [
            [
                (start, end, one.records.values[record])
                for start, end, record in one.records.sections.within(document, *span)
            ]
            for one in (actual, expected)
        ]
        assert sections[0] == sections[1]


documents = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.lists(st.sampled_from(_SENTENCES), max_size=8)),
    max_size=8,
)


@given(documents, st.booleans())
@examples(30)
def test_a_subset_of_documents_equals_a_full_build(given_documents, has_edits):
    with open_memory() as rag:
        rag.add(
            [
                SourceDocument(f"d{n}", " ".join(text), f"Title {n}", {"tenant": tenant})
                for n, (tenant, text) in enumerate(given_documents)
            ]
        )
        if has_edits:
            rag.edit_entities(stop=["Oslo"])
        if has_edits and any("Anna" in " ".join(text) for _, text in given_documents):
            rag.edit_entities(alias={"Cleo": "Anna"}, separate=[("Anna", "ANNA")])
        whole = rag._session.snapshot()
        own = [
            f"d{n}"
            for n, (tenant, text) in enumerate(given_documents)
            if tenant == "a" and " ".join(text).strip()
        ]
        visible = np.isin([whole.documents[d] for d in whole.nodes.document.tolist()], own)
        subset = SnapshotSubsets(whole).take(visible, whole.edits)
        assert_equal(subset, build_snapshot(rag.store, own))
        assert subset.subjects.names == build_snapshot(rag.store, own).subjects.names


def test_a_subset_of_a_document_equals_a_build_of_this_part():
    own = "Anna met Bert in Oslo and left. Cleo met Bert in Oslo and left. Dora sold a map to Emil."
    other = "Emil saw Zoe there at night. Zoe saw Yves in Riga then. Yves met Xenia and Bert."
    text = f"{own} {other}"
    segments = [(0, len(own), {"tenant": "a"}), (len(own) + 1, len(text), {"tenant": "b"})]
    with open_memory(split_segments=True) as mixed, open_memory() as alone:
        mixed.add(SourceDocument("d", text, "Title", segments=segments))
        alone.add(SourceDocument("d", own, metadata={"tenant": "a"}))
        whole, expected = mixed._session.snapshot(), alone._session.snapshot()
        visible = Scope.of({"tenant": "a"}).visible_nodes(whole.records)
        subset = SnapshotSubsets(whole).take(visible, NO_EDITS)
        assert subset.titles == [None]
        assert list(subset.partial_documents) == [0]
        assert [value["tenant"] for value in subset.records.values] == ["a"]
        ours, theirs = snapshot_arrays(subset), snapshot_arrays(expected)
        chunks = len(expected.chunk_nodes)
        assert list(subset.nodes.ids)[:chunks] == list(expected.nodes.ids)[:chunks]
        graph = [
            name
            for name in theirs
            if name.startswith(("names", "edges", "pair_", "postings", "mention_", "subject"))
        ]
        assert graph
        for name in (*graph, "words", "named"):
            assert np.array_equal(ours[name], theirs[name]), name


def test_a_subset_keeps_the_search_of_an_external_store():
    vectors = np.eye(4, dtype=np.float32)
    asked: list[object] = []

    def query(vector, count, documents):
        asked.append(documents)
        order = np.argsort(-(vectors @ vector), kind="stable")[:count]
        return [(f"v{row}", float(vectors[row] @ vector)) for row in order.tolist()]

    whole = VectorStoreSearch(
        query, "store", [f"v{n}" for n in range(4)], np.arange(4), ["d0", "d0", "d1", "d1"]
    )
    subset = SubsetSearch(whole, np.array([1, 3]), np.array([1, 3]), np.array([0, 1]), 4)
    wanted = np.asarray([0.9, 0.1, 0.3, 0.2], dtype=np.float32)
    windows, cosines = subset.search_windows(wanted / np.linalg.norm(wanted), 4)
    assert windows.tolist() == [1, 0]
    assert cosines[0] > cosines[1] > 0
    assert subset.search_windows(wanted, 4, np.zeros(2, dtype=np.bool_))[0].tolist() == []
    assert subset.search(wanted, 1, np.array([True, False])) == [(0, np.float64(0.1))]
    assert asked
