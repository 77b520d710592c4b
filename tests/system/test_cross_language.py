"""Questions in one language about documents in another, with the default extractors."""

from __future__ import annotations

from typing import ClassVar

import pytest

from e2graphrag_integrations import HashingEmbedder, SourceDocument

ENGLISH = [
    SourceDocument("a", "Jon Luther led Arby's. Jon Luther lives in Boston."),
    SourceDocument("b", "Anna Wintour edits Vogue in New York."),
]
CHINESE = [
    SourceDocument("a", "刘备在涿郡遇见关羽。刘备很高兴。"),
    SourceDocument("b", "曹操在许昌接见荀彧。"),
]


@pytest.fixture
def ask(open_index):
    def links(documents, question):
        rag = open_index(extractor=None, language="auto")
        rag.add(documents)
        rag.edit_entities(
            alias={"魔王": "Jon Luther"} if documents is ENGLISH else {"Zuan": "刘备"}
        )
        return [one.entity for one in rag.retrieve(question).trace.links]

    return links


@pytest.mark.parametrize(
    ("question", "linked"),
    [
        ("Jon Luther曾任哪家公司的首席执行官？", ["jon luther"]),
        ("魔王是哪家公司的首席执行官？", ["jon luther"]),
        ("首席执行官是谁？", []),
    ],
)
def test_a_chinese_question_finds_the_names_of_english_documents(ask, question, linked):
    assert ask(ENGLISH, question) == linked


def test_bm25_and_the_embedder_get_the_name_in_the_documents(open_index):
    class Recorder(HashingEmbedder):
        asked: ClassVar[list[str]] = []

        def embed_query(self, text):
            self.asked.append(text)
            return super().embed_query(text)

    rag = open_index(extractor=None, embedder=Recorder())
    rag.add(CHINESE)
    before = rag.retrieve("Who is Zuan?").trace
    rag.edit_entities(alias={"Zuan": "刘备"})
    after = rag.retrieve("Who is Zuan?").trace
    assert Recorder.asked == ["Who is Zuan?", "Who is 刘备?"]
    assert ("bm25" in before.lists, "bm25" in after.lists) == (False, True)
    assert after.question == "Who is Zuan?"


@pytest.mark.parametrize(
    ("question", "linked"),
    [
        ("Who is Zuan?", ["刘备"]),
        ("Whom did 刘备 meet?", ["刘备"]),
        ("Who is the founder of Rome?", []),
    ],
)
def test_an_english_question_finds_the_names_of_chinese_documents(ask, question, linked):
    assert ask(CHINESE, question) == linked
