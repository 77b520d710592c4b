"""The words of the question in the sentences around names."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval.names.name_sentences import NameSentences
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import build_bm25


def sentences(question, corpus, without=()):
    """Return the sentences of names for a question about texts."""
    return NameSentences(QuestionTerms(Query(question), build_bm25(corpus), 1.0), without)


def shares(question, text, names, without=()):
    """Return the shares of names in a text for a question."""
    corpus = [text, "the other teacher of a baker", "nothing was", "it was"]
    return sentences(question, corpus, without).shares(text, names)


TEXT = "Her teachers were Bert and Eva. Her baker was Carl. Dora sang."


def test_the_best_sentence_has_the_share_one_and_others_less():
    found = shares("who was the teacher of dora", TEXT, ["bert", "eva", "carl", "dora"], ["dora"])
    assert found["bert"] == found["eva"] == 1
    assert found["dora"] == 0
    assert 0 < found["carl"] < 1  # its sentence has `was`


def test_a_word_in_every_text_counts_at_least_like_a_function_word():
    texts = ["Bert is a mother. Eva is a baker.", "a mother", "one mother", "the mother"]
    asked = sentences("what is the job of the mother", texts)
    found = asked.shares(texts[0], ["bert", "eva"])
    assert found["bert"] == 1
    assert found["eva"] <= 0.5


def test_without_a_word_of_the_question_all_names_are_alike():
    assert shares("xyz", TEXT, ["bert", "carl"]) == {"bert": 1, "carl": 1}


def test_a_name_within_a_word_is_not_in_the_text():
    text = "The annual teacher spoke. Her brother Al sang."
    assert shares("teacher", text, ["ann", "al"]) == {"ann": 1, "al": 1}  # no name near `teacher`
    assert shares("brother teacher", text, ["ann", "al"]) == {"ann": 0, "al": 1}


def test_a_name_outside_of_the_text_has_no_share():
    assert shares("teacher", TEXT, ["bert", "zoe"]) == {"bert": 1, "zoe": 0}


@pytest.mark.parametrize("text", ["", " ", "Bert"])
def test_any_text_has_shares(text):
    assert set(shares("teacher", text, ["bert"])) == {"bert"}


def test_the_sentences_of_a_real_question_decide(open_index):
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("a", "Oslo is old. Its teacher was Bert. Its baker was Carl."))
    rag.add(SourceDocument("b", "Bert lived in a hut."))
    rag.add(SourceDocument("c", "Carl lived in a hut."))
    result = rag.retrieve("Where did the baker of Oslo live?", k=3)
    assert [node.document_id for node in result.nodes][:2] == ["a", "c"]
