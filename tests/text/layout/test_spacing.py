"""Joins with and without spaces."""

from __future__ import annotations

import pytest
from hypothesis import given

from e2graphrag_integrations.text.layout.spacing import join_sentences, on_one_line
from strategies import quick, texts


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
