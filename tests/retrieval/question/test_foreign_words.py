"""English function words in questions about texts in another language."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval.question.foreign_words import (
    content_words,
    is_foreign,
    without_function_words,
)
from e2graphrag_integrations.search.bm25 import build_bm25
from e2graphrag_integrations.text.words import terms_of
from e2graphrag_integrations.types import Mention

CHINESE = [f"刘备在第{number}章遇见关羽。" for number in range(20)]
ENGLISH = ["The king met the duke.", "Where was the duke?"]
QUESTION = "where was the duke of york".split()


@pytest.mark.parametrize(
    ("texts", "foreign"),
    [
        (ENGLISH, False),
        (CHINESE, True),
        ([*CHINESE, "《Where the Duke Was》是一首歌。"], True),
        ([*CHINESE, *ENGLISH * 5], False),
    ],
)
def test_function_words_are_foreign_where_they_are_rare(texts, foreign):
    bm25 = build_bm25(texts)
    assert is_foreign(QUESTION, bm25) == foreign
    kept = ["duke", "york"] if foreign else ["where", "was", "the", "duke", "york"]
    assert content_words(QUESTION, bm25) == kept


def test_a_chinese_question_that_quotes_english_is_not_foreign():
    bm25 = build_bm25(CHINESE)
    terms = terms_of("电影《The Lord of the Rings》的导演是哪国人？")
    assert not is_foreign(terms, bm25)
    assert not {"the", "of"} & set(content_words(terms, bm25))


def test_a_question_without_english_function_words_is_never_foreign():
    assert content_words(["刘备", "备见", "duke"], build_bm25(CHINESE)) == ["刘备", "备见", "duke"]


def test_function_words_are_no_names_and_no_part_of_names():
    question = "Who is Liu Bei of Han, and What?"
    mentions = [Mention("Who is Liu Bei of Han", 0, 21, "NAME"), Mention("What", 27, 31, "NAME")]
    chinese, english = build_bm25(CHINESE), build_bm25(ENGLISH)
    [name] = without_function_words(mentions, lambda: chinese)
    assert name.entity == question[name.start : name.end] == "Liu Bei of Han"
    assert without_function_words(mentions, lambda: english) == tuple(mentions)


def test_function_words_do_not_find_chinese_texts_that_quote_english(open_index):
    rag = open_index()
    texts = [*CHINESE, "《Where the Wild Roses Grow》是一首歌。"]
    rag.add([SourceDocument(str(number), text) for number, text in enumerate(texts)])
    found = rag.retrieve("where was the first emperor of the Han buried?", k=5)
    assert "bm25" not in found.trace.lists
    named = rag.retrieve("where do the roses grow?", k=5)
    assert named.nodes[0].document_id == "20"
