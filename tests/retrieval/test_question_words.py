"""Words of questions without content, in English and Chinese."""

from __future__ import annotations

import pytest
from hypothesis import given

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.retrieval.question_words import (
    asks_for_aspect,
    content_words,
    is_foreign,
    search_terms,
    topic_terms,
    without_function_words,
    words_to_mark,
)
from e2graphrag_integrations.search.bm25 import build_bm25
from e2graphrag_integrations.text.words import terms_of
from e2graphrag_integrations.types import Mention
from strategies import quick, texts


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("曹操为什么杀了杨修？", "曹操 杀 杨修"),
        ("誰是劉備的軍師嗎？", "劉備 軍師"),
        ("《谁动了我的奶酪》的作者是谁？", "《谁动了我的奶酪》 作者"),
        ("“是在”是什么？", "“是在”"),
        ("目的是什么？", "目的"),
        ("但是现在了解线上的情况吗", "但是现在了解线上 情况"),
        ("在哪里？", "在哪里"),  # otherwise nothing would remain
        ("GDP是多少？", "GDP"),
        ("When was the GDP published?", "When was the GDP published"),
        ("How long is the warranty?", "is the warranty"),
        ("How often does it return?", "does it return"),
        ("How long-term debt is paid", "How long-term debt is paid"),
        ("How soon", "How soon"),  # otherwise nothing would remain
    ],
)
def test_question_words_and_particles_are_not_searched_for(question, content):
    assert search_terms(question) == terms_of(content)


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("What are the main points of the report?", []),
        ("Summarize the hiring plans", ["hiring", "plans"]),
        ("总结一下这本书的主要内容", []),
        ("這篇文章講了什麼？", []),
        ("会议讨论了招聘吗？", ["招", "聘", "招聘"]),
    ],
)
def test_words_that_ask_for_an_overview_are_no_topic(question, topic):
    assert topic_terms(question) == topic


@quick
@given(texts(8))
def test_terms_of_a_question_are_terms_of_its_text(question):
    own = terms_of(question)
    parts = {part for term in own for part in term.split("_")}
    assert set(search_terms(question)) <= {*own, *parts}
    assert bool(search_terms(question)) == bool(terms_of(question))


@pytest.mark.parametrize(
    ("question", "languages", "marked"),
    [
        ("Where did the Eloi go after the war?", ["en"], "Eloi go war"),
        ("Wer war der König?", ["de"], "König"),
        ("曹操为什么杀了楊修？", ["zh"], "曹操 杀 楊修"),
        ("¿Dónde vive la reina?", ["es", "en"], "vive reina"),
    ],
)
def test_words_to_mark_are_as_written_and_none_of_a_language_of_the_texts(
    question, languages, marked
):
    found = "".join(one if one.isalnum() else " " for one in words_to_mark(question, languages))
    assert found.split() == marked.split()


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
    kept = ["duke", "york"] if foreign else QUESTION
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


def test_roles_in_a_long_question_take_linear_time():
    """With quadratic time this would take minutes, so no time is asserted."""
    assert not asks_for_aspect("role " * 6_400)
    assert asks_for_aspect("What role does the sea play?")
