"""The words of a question that BM25 looks up."""

from __future__ import annotations

import numpy as np

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import build_bm25

ENGLISH = ["this is the text", "the mill", "of the sea", "a town and the river"]


def terms_of(question, *texts, **options):
    """Return the words of a question to an English index of texts, and of others after them."""
    return QuestionTerms(Query(question), build_bm25([*texts, *ENGLISH]), 1.0, **options)


def test_a_form_that_the_question_contains_counts_once_as_a_word():
    terms = terms_of("die died", "king died", "king dies", "queen slept")
    assert terms.forms == {"die": ("dies",), "died": ("dies",)}


def test_a_word_with_a_typing_error_is_found_unless_the_index_contains_it():
    texts = ["the librarian left", "the libarian stayed"]
    assert terms_of("librarien", *texts).forms == {"librarien": ("librarian",)}
    assert terms_of("libarian", *texts).forms == {}


def test_an_index_in_another_language_has_no_inflected_forms():
    bm25 = build_bm25(["die Katze und der Hund", "dies ist ein Tag"])
    assert QuestionTerms(Query("die Katze"), bm25, 1.0).forms == {}


def test_windows_contain_a_word_in_any_form():
    terms = terms_of("king die", "king died", "queen slept")
    windows = np.arange(2)
    assert terms.contain(["king", "die"], windows).tolist() == [[True, False], [True, False]]


def test_the_words_of_an_abbreviated_name_count_once():
    names = {"who": ("world", "health", "organization")}
    text = "The World Health Organization has a leader."
    terms = terms_of("Who leads WHO, the health body?", text, written_out=names)
    assert terms.words == ["leads", "the", "health", "body", "world", "organization"]


def test_a_question_of_thousands_of_words_is_searched_by_its_rarest(open_index):
    rag = open_index(chunk_size=200, chunk_overlap=0)
    rag.add([SourceDocument(f"d{n}", f"Anna met Bert and saw thing{n}.") for n in range(9)])
    question = "Anna met Bert. " * 900 + "thing4 " + " ".join(f"wort{n}x" for n in range(600))
    assert rag.retrieve(question, k=1).nodes[0].document_id == "d4"
