"""Words of questions without content, in English and Chinese."""

from __future__ import annotations

import pytest
from hypothesis import given

from e2graphrag_integrations.retrieval.question.question_words import (
    search_terms,
    topic_terms,
    words_to_mark,
)
from e2graphrag_integrations.text.words import terms_of
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
    assert set(search_terms(question)) <= set(terms_of(question))
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
