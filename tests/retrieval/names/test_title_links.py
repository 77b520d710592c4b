"""Title links: documents whose title a chunk mentions, and chunks that mention its title."""

from __future__ import annotations

import math

import numpy as np
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval.names.title_links import title_links


@pytest.fixture
def links_from(open_index):
    """Index (title, text) pairs; return scores of linked chunks by (document, position)."""

    def follow(*documents, sources, relevance=None, allowed=None, asked=(), **options):
        rag = open_index(**options)
        rag.add([SourceDocument(f"d{n}", text, title) for n, (title, text) in enumerate(documents)])
        snapshot = rag._session.snapshot()
        nodes = snapshot.nodes

        def relevance_of(chunks):
            by_document = relevance or {}
            documents_of = nodes.document[snapshot.chunk_nodes[chunks]].tolist()
            return np.asarray([by_document.get(document, 1.0) for document in documents_of])

        document_of = nodes.document[snapshot.chunk_nodes].tolist()
        rows = [(int(snapshot.chunk_nodes[document_of.index(d)]), score) for d, score in sources]
        mask = None if allowed is None else np.isin(document_of, allowed)
        names = [snapshot.subjects.index[name] for name in asked]
        linked = title_links(rows, snapshot, relevance_of, mask, names)
        return {
            (int(nodes.document[row]), int(nodes.position[row])): pytest.approx(score)
            for row, score in zip(linked.rows, linked.scores, strict=True)
        }

    return follow


def test_a_chunk_links_to_the_document_whose_title_it_mentions(links_from):
    documents = (None, "Anna met Bert."), ("Bert", "He ran off."), ("Cleo", "She sat.")
    assert links_from(*documents, sources=[(0, 1.0)]) == {(1, 0): 1.0}


def test_a_chunk_links_to_a_chunk_that_mentions_its_title(links_from):
    documents = ("Bert", "He ran off."), (None, "Anna met Bert."), (None, "Cleo sat.")
    assert links_from(*documents, sources=[(0, 1.0)]) == {(1, 0): 1 / math.log2(3)}


def test_a_title_matches_without_its_trailing_parentheses(links_from):
    documents = (None, "Anna met Bert."), ("Bert (singer)", "He ran off.")
    assert links_from(*documents, sources=[(0, 1.0)]) == {(1, 0): 1.0}


def test_a_title_of_several_documents_links_to_each_with_less_strength(links_from):
    documents = (None, "Anna met Bert."), ("Bert", "He ran off."), ("Bert", "He stayed.")
    assert links_from(*documents, sources=[(0, 1.0)]) == {(1, 0): 0.5, (2, 0): 0.5}


def test_a_name_of_the_question_links_only_if_it_is_the_subject_of_one_document(links_from):
    one = (None, "Anna met Bert."), ("Bert", "He ran off."), ("Cleo", "She sat.")
    assert links_from(*one, sources=[(0, 1.0)], asked=["bert"]) == {(1, 0): 1.0}
    two = *one, ("Bert", "He stayed.")
    assert links_from(*two, sources=[(0, 1.0), (1, 1.0)], asked=["bert"]) == {}
    assert links_from(*two, sources=[(0, 1.0)]) == {(1, 0): 0.5, (3, 0): 0.5}


def test_a_title_that_many_documents_mention_links_to_each_with_less_strength(links_from):
    documents = ("Bert", "He ran off."), *[(None, f"Bert sat {n}.") for n in range(6)]
    assert links_from(*documents, sources=[(0, 1.0)]) == {(n, 0): 1 / 3 for n in range(1, 7)}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("mentioning", "linked"), [(100, 100), (101, 0)])
def test_a_title_that_more_than_100_documents_mention_links_to_none(links_from, mentioning, linked):
    documents = ("Bert", "He ran off."), *[(None, f"Bert sat {n}.") for n in range(mentioning)]
    assert len(links_from(*documents, sources=[(0, 1.0)])) == linked


def test_a_mentioned_title_links_to_all_chunks_but_an_own_title_only_to_mentions(links_from):
    options = {"chunk_size": 4, "chunk_overlap": 0}
    two = "He ran off. Nobody saw Bert."
    documents = (None, "Anna met Bert."), ("Bert", two)
    assert links_from(*documents, sources=[(0, 1.0)], **options) == {(1, 0): 1.0, (1, 1): 1.0}
    documents = ("Bert", "He sat."), (None, two)
    assert links_from(*documents, sources=[(0, 1.0)], **options) == {(1, 1): 1 / math.log2(3)}


def test_other_chunks_of_the_source_document_add_no_links(links_from):
    documents = (None, "Anna sat here. She met Bert."), ("Bert", "He ran off.")
    assert links_from(*documents, sources=[(0, 1.0)], chunk_size=4, chunk_overlap=0) == {}


def test_a_document_does_not_link_to_itself(links_from):
    documents = ("Bert", "Bert ran off. Bert came back."), (None, "Cleo met Bert.")
    options = {"chunk_size": 4, "chunk_overlap": 0}
    assert links_from(*documents, sources=[(0, 1.0)], **options) == {(1, 0): 1 / math.log2(3)}
    assert links_from(*documents[:1], sources=[(0, 1.0)], **options) == {}


def test_a_link_scores_by_its_source_and_by_the_relevance_of_its_target(links_from):
    documents = (None, "Cleo sat."), (None, "Anna met Bert."), ("Bert", "He ran."), ("Anna", "x")
    sources = [(0, 0.8), (1, 0.2)]
    linked = links_from(*documents, sources=sources, relevance={2: 3.0})
    assert linked == {(2, 0): 0.25 * 3, (3, 0): 0.25}
    linked = links_from(*documents, sources=sources, relevance={2: 3.0, 3: 0.0})
    assert linked == {(2, 0): 0.25 * 3}


def test_the_strongest_of_several_links_to_a_chunk_counts(links_from):
    documents = (None, "Anna met Bert."), (None, "Bert sat."), ("Bert", "He ran.")
    assert links_from(*documents, sources=[(0, 1.0), (1, 0.5)]) == {(2, 0): 1.0}
    assert links_from(*documents, sources=[(1, 1.0), (0, 1.0)]) == {(2, 0): 1.0}


def test_documents_without_titles_have_no_links(links_from):
    documents = (None, "Anna met Bert."), (None, "Bert met Anna.")
    assert links_from(*documents, sources=[(0, 1.0), (1, 1.0)]) == {}


def test_blank_titles_have_no_links(links_from):
    documents = (" ", "Anna met Bert."), ("?", "Bert met Anna."), ("", "Anna sat.")
    assert links_from(*documents, sources=[(0, 1.0), (1, 1.0), (2, 1.0)]) == {}


def test_filtered_chunks_do_not_use_up_the_limit(links_from, monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.retrieval.names.title_links._MAX_CHUNKS", 3)
    documents = ("Bert", "He ran off."), *[(None, f"Bert sat {n}.") for n in range(6)]
    linked = links_from(*documents, ("Bert", "He stayed."), sources=[(0, 1.0)], allowed=[5, 6])
    assert set(linked) == {(5, 0), (6, 0)}
    several = (None, "Anna met Bert."), *[("Bert", f"He sat {n}.") for n in range(6)]
    assert set(links_from(*several, sources=[(0, 1.0)], allowed=[6])) == {(6, 0)}
