"""Noise of a layout is left out for readers, and spans lead back to the original."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.text.broken_words import clean, join_sentences, on_one_line
from strategies import examples, quick, texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Veld-\nhoven", "Veldhoven"),
        ("Veld-  \r\n  hoven", "Veldhoven"),
        ("Veld\u00adhoven", "Veldhoven"),
        ("Veld\u200bhoven", "Veldhoven"),
        ("\ufeff# Heading", "# Heading"),
        ("Rolls-\nRoyce", "Rolls-Royce"),
        ("10-\n20 and - \n a list", "10-\n20 and - \n a list"),
    ],
)
def test_noise_is_removed(text, expected):
    assert clean(text).text == expected


@given(st.text(alphabet="aB- \n\u00ad\u200b\ufeff1", max_size=40))
@examples(200)
def test_each_character_leads_back_to_itself(text):
    cleaned = clean(text)
    for at, letter in enumerate(cleaned.text):
        start, end = cleaned.original(at, at + 1)
        assert text[start:end] == letter


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("broken", ["Veld-\nhoven", "Veld\u00adhoven", "Veld\u200bhoven"])
def test_a_broken_name_is_found_and_shown_as_written(broken):
    text = f"The miller of {broken} keeps goats near the mill."
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add([SourceDocument("a", text), SourceDocument("b", "The baker of Ostrava sells.")])
        result = rag.retrieve("Who lives in Veldhoven?", k=2)
        assert [link.entity for link in result.trace.links] == ["veldhoven"]
        assert result.nodes[0].text == text
        [mention] = rag.entity("veldhoven").mentions
        assert text[mention.start : mention.end] == broken
        assert rag.verify().ok


@pytest.mark.parametrize(
    ("sentences", "joined"),
    [
        (["One.", "Two."], "One. Two."),
        (["他来了。", "她走了。"], "他来了。她走了。"),
        (["他来了。", "2008年她走了。"], "他来了。2008年她走了。"),
        (["他说：“来。”", "“好。”她说。"], "他说：“来。”“好。”她说。"),
        (["标题", "正文"], "标题正文"),
        (["He left.", "他走了。"], "He left. 他走了。"),
        (["他走了。", "He left."], "他走了。He left."),
        (["これは本。", "はい。"], "これは本。はい。"),
        (["그는 갔다.", "나는 왔다."], "그는 갔다. 나는 왔다."),
        (["เขาไป", "ฉันมา"], "เขาไป ฉันมา"),
        (["आया।", "गया।"], "आया। गया।"),
        ([], ""),
    ],
)
def test_sentences_are_joined_as_in_their_script(sentences, joined):
    assert join_sentences(sentences) == joined


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("话说天下大势，\r\n　　分久必合。\n\n合久必分", "话说天下大势，分久必合。合久必分"),
        ("他说：“来。”\n“好。”", "他说：“来。”“好。”"),
        ("宴桃园　斩黄巾  英雄", "宴桃园 斩黄巾 英雄"),
        ("用 Python\n编程", "用 Python 编程"),
        ("one\n two", "one two"),
    ],
)
def test_line_breaks_in_chinese_are_no_spaces(text, line):
    assert on_one_line(text) == line


@quick
@given(texts())
def test_one_line_has_all_characters_and_stays_as_it_is(text):
    line = on_one_line(text)
    assert "".join(line.split()) == "".join(text.split())
    assert on_one_line(line) == line
