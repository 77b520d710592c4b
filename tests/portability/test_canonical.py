"""The canonical export: equal indexes give equal lines, whatever their history."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from fakes import CountingLLM, NameExtractor, numbered
from strategies import examples

NAMES = ["Anna", "Bert", "Cleo", "Dora", "met", "ran", "far"]
texts = st.lists(
    st.lists(st.sampled_from(NAMES), max_size=6).map(lambda words: " ".join(words) + "."),
    max_size=9,
).map(" ".join)
documents = st.lists(texts, min_size=1, max_size=4).map(
    lambda all_texts: [SourceDocument(f"d{n}", text) for n, text in enumerate(all_texts)]
)


def index():
    return E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(24),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=8, chunk_overlap=2),
    )


def lines(documents):
    with index() as rag:
        rag.add(documents)
        return list(rag.export())


@examples(40)
@given(base=documents, extra=texts)
def test_adding_then_deleting_equals_never_adding(base, extra):
    with index() as rag:
        rag.add(base)
        before = list(rag.export())
        rag.add(SourceDocument("extra", extra))
        assert list(rag.export()) != before
        rag.delete("extra")
        assert list(rag.export()) == before
        assert rag.verify().ok


@examples(25)
@given(given_documents=documents, data=st.data())
def test_the_order_and_batching_of_adds_do_not_matter(given_documents, data):
    order = data.draw(st.permutations(given_documents))
    with index() as rag:
        for document in order:
            rag.add(document)
        assert list(rag.export()) == lines(given_documents)


@examples(25)
@given(given_documents=documents, deleted=st.integers(0, 3))
def test_deleting_a_document_equals_never_adding_it(given_documents, deleted):
    others = [d for n, d in enumerate(given_documents) if n != deleted]
    ids = [d.id for n, d in enumerate(given_documents) if n == deleted]
    with index() as rag:
        rag.add(given_documents)
        rag.delete(ids)
        assert list(rag.export()) == lines(others)


@examples(25)
@given(old=documents, new=texts)
def test_an_update_equals_a_new_build(old, new):
    changed = SourceDocument("d0", new)
    with index() as rag:
        rag.add(old)
        rag.update(changed)
        assert list(rag.export()) == lines([changed, *old[1:]])


def test_an_emptied_index_equals_a_new_one(open_index, story):
    rag = open_index()
    new = list(rag.export())
    rag.add([story, numbered(3)])
    rag.delete(["story", "numbered"])
    assert list(rag.export()) == new


def test_each_line_is_canonical_json(open_index, story):
    rag = open_index()
    rag.add(story)
    kinds = []
    for line in rag.export():
        record = json.loads(line)
        assert line == json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        kinds.append(next(k for k in ("manifest", "text", "edge") if k in record))
    assert kinds == sorted(kinds, key=["manifest", "text", "edge"].index)
    assert set(kinds) == {"manifest", "text", "edge"}


def test_the_export_contains_no_generation(open_index, story):
    rag = open_index(summarizer=CountingLLM())
    rag.add(story)
    text = "\n".join(rag.export())
    assert rag.store.generation not in text
    assert '"generation"' not in text
    other = open_index(summarizer=CountingLLM())  # its cached summaries have other keys
    other.add(story)
    assert "\n".join(other.export()) == text
