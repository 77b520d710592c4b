"""Names of Chinese documents, from the text to the result of a question."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument

TEXTS = {
    "a": "諸葛亮（181年－234年），字孔明，是三國時期蜀漢的丞相。諸葛亮在隆中遇到劉備。",
    "b": "刘备（161年－223年），是蜀汉的开国皇帝。刘备三次拜访诸葛亮。",
    "c": "红腹锉尾蛇，又名红锉蛇，是一种分布于印度的蛇。红腹锉尾蛇长三十厘米。",
    "d": "周瑜（175年－210年），是东吴的名将。周瑜在赤壁打败了曹操。",
}


@pytest.fixture(scope="module")
def rag():
    with E2GraphRAG.open(
        ":memory:", embedder=HashingEmbedder(), models=Models(language="zh")
    ) as rag:
        rag.add(SourceDocument(key, text) for key, text in TEXTS.items())
        yield rag


def linked(rag, question):
    return {link.entity for link in rag.retrieve(question, k=2).trace.links}


def test_traditional_and_simplified_documents_share_their_entities(rag):
    assert rag.entity("诸葛亮").documents == rag.entity("諸葛亮").documents
    assert {m.document_id for m in rag.entity("刘备").mentions} == {"a", "b"}
    for mention in rag.entity("刘备").mentions:
        assert TEXTS[mention.document_id][mention.start : mention.end] in {"劉備", "刘备"}


def test_definitions_name_the_subjects_of_documents(rag):
    assert rag.stats().subjects == {"definition": 4}
    assert "红锉蛇" in linked(rag, "红锉蛇有多长？")


@pytest.mark.parametrize("question", ["刘备和诸葛亮是什么关系？", "劉備和諸葛亮是什麼關係？"])
def test_questions_with_two_names_are_local(rag, question):
    result = rag.retrieve(question, k=2)
    assert result.route == "local"
    assert {node.document_id for node in result.nodes} == {"a", "b"}
    assert linked(rag, question) >= {"刘备", "诸葛亮"}


def test_a_name_that_the_extractor_misses_in_a_question_is_known_from_the_index(rag):
    assert "红腹锉尾蛇" in linked(rag, "红腹锉尾蛇体长约是多少？")


def test_courtesy_names_need_an_alias_of_the_user(rag):
    assert "诸葛亮" not in linked(rag, "孔明在哪里？")
    rag.edit_entities(alias={"孔明": "诸葛亮"})
    assert "诸葛亮" in linked(rag, "孔明在哪里？")
    rag.edit_entities(undo=rag.edits())
