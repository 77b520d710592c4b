"""Bridges: from passages to those whose title they name, and to those that name theirs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval.title_links import title_links


@pytest.fixture
def led(open_index):
    """Index (title, text) by letters and return where found documents' first chunks lead to."""

    def make(*documents, found, fit=None, seen=None, **options):
        rag = open_index(**options)
        rag.add([SourceDocument(f"d{n}", text, title) for n, (title, text) in enumerate(documents)])
        snapshot = rag._reader.snapshot()
        nodes = snapshot.nodes

        def fits(chunks):
            given = fit or {}
            places = nodes.document[snapshot.chunk_nodes[chunks]].tolist()
            return np.asarray([given.get(document, 1.0) for document in places])

        chunks = nodes.document[snapshot.chunk_nodes].tolist()
        sources = [(int(snapshot.chunk_nodes[chunks.index(d)]), score) for d, score in found]
        mask = None if seen is None else np.isin(chunks, seen)
        reached = title_links(sources, snapshot, fits, mask)
        return {
            (int(nodes.document[row]), int(nodes.position[row])): pytest.approx(value)
            for row, value in zip(*reached, strict=True)
        }

    return make


def test_a_passage_leads_to_the_document_whose_title_it_names(led):
    documents = (None, "Anna met Bert."), ("Bert", "He ran off."), ("Cleo", "She sat.")
    assert led(*documents, found=[(0, 1.0)]) == {(1, 0): 1.0}


def test_a_passage_leads_to_one_that_names_its_title(led):
    documents = ("Bert", "He ran off."), (None, "Anna met Bert."), (None, "Cleo sat.")
    assert led(*documents, found=[(0, 1.0)]) == {(1, 0): 1 / math.log2(3)}


def test_what_parentheses_add_to_a_title_is_not_asked_for(led):
    documents = (None, "Anna met Bert."), ("Bert (singer)", "He ran off.")
    assert led(*documents, found=[(0, 1.0)]) == {(1, 0): 1.0}


def test_a_title_of_several_documents_leads_to_each_less_surely(led):
    documents = (None, "Anna met Bert."), ("Bert", "He ran off."), ("Bert", "He stayed.")
    assert led(*documents, found=[(0, 1.0)]) == {(1, 0): 0.5, (2, 0): 0.5}


def test_a_title_that_many_name_leads_to_each_less_surely(led):
    documents = ("Bert", "He ran off."), *[(None, f"Bert sat {n}.") for n in range(6)]
    assert led(*documents, found=[(0, 1.0)]) == {(n, 0): 1 / 3 for n in range(1, 7)}


@pytest.mark.parametrize(("naming", "reached"), [(100, 100), (101, 0)])
def test_a_title_that_more_than_a_hundred_documents_name_leads_nowhere(led, naming, reached):
    documents = ("Bert", "He ran off."), *[(None, f"Bert sat {n}.") for n in range(naming)]
    assert len(led(*documents, found=[(0, 1.0)])) == reached


def test_all_chunks_of_a_document_are_led_to_by_its_title_and_only_those_that_hold_a_name(led):
    options = {"chunk_size": 4, "chunk_overlap": 0}
    two = "He ran off. Nobody saw Bert."
    documents = (None, "Anna met Bert."), ("Bert", two)
    assert led(*documents, found=[(0, 1.0)], **options) == {(1, 0): 1.0, (1, 1): 1.0}
    documents = ("Bert", "He sat."), (None, two)
    assert led(*documents, found=[(0, 1.0)], **options) == {(1, 1): 1 / math.log2(3)}


def test_only_the_chunk_that_was_found_leads_anywhere(led):
    documents = (None, "Anna sat here. She met Bert."), ("Bert", "He ran off.")
    assert led(*documents, found=[(0, 1.0)], chunk_size=4, chunk_overlap=0) == {}


def test_no_document_leads_to_itself(led):
    documents = ("Bert", "Bert ran off. Bert came back."), (None, "Cleo met Bert.")
    options = {"chunk_size": 4, "chunk_overlap": 0}
    assert led(*documents, found=[(0, 1.0)], **options) == {(1, 0): 1 / math.log2(3)}
    assert led(*documents[:1], found=[(0, 1.0)], **options) == {}


def test_a_bridge_is_worth_as_much_as_the_passage_and_as_what_it_leads_to(led):
    documents = (None, "Cleo sat."), (None, "Anna met Bert."), ("Bert", "He ran."), ("Anna", "x")
    found = [(0, 0.8), (1, 0.2)]
    assert led(*documents, found=found, fit={2: 3.0}) == {(2, 0): 0.25 * 3, (3, 0): 0.25}
    assert led(*documents, found=found, fit={2: 3.0, 3: 0.0}) == {(2, 0): 0.25 * 3}


def test_of_several_bridges_to_one_chunk_the_best_counts(led):
    documents = (None, "Anna met Bert."), (None, "Bert sat."), ("Bert", "He ran.")
    assert led(*documents, found=[(0, 1.0), (1, 0.5)]) == {(2, 0): 1.0}
    assert led(*documents, found=[(1, 1.0), (0, 1.0)]) == {(2, 0): 1.0}


def test_without_titles_nothing_leads_anywhere(led):
    documents = (None, "Anna met Bert."), (None, "Bert met Anna.")
    assert led(*documents, found=[(0, 1.0), (1, 1.0)]) == {}


def test_a_blank_title_leads_nowhere(led):
    documents = (" ", "Anna met Bert."), ("?", "Bert met Anna."), ("", "Anna sat.")
    assert led(*documents, found=[(0, 1.0), (1, 1.0), (2, 1.0)]) == {}


def test_what_may_not_be_seen_takes_no_place_of_what_may(led, monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.retrieval.title_links._MOST", 3)
    documents = ("Bert", "He ran off."), *[(None, f"Bert sat {n}.") for n in range(6)]
    assert set(led(*documents, ("Bert", "He stayed."), found=[(0, 1.0)], seen=[5, 6])) == {
        (5, 0),
        (6, 0),
    }
    several = (None, "Anna met Bert."), *[("Bert", f"He sat {n}.") for n in range(6)]
    assert set(led(*several, found=[(0, 1.0)], seen=[6])) == {(6, 0)}
