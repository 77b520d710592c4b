"""The messages of the page: each language has all of them, the page uses all, and no other text."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import e2graphrag_integrations as package

PAGE = Path(package.__file__).parent / "server" / "web" / "page"
MODULES = sorted(PAGE.glob("*.js"))
HTML = (PAGE / "index.html").read_text(encoding="utf-8")

ENTRY = re.compile(
    r'^  "([\w.]+)": (?:("(?:[^"\\]|\\.)*")|\{ one: (".*"), other: (".*") \}),$', re.MULTILINE
)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')
COMMENT = re.compile(r"^\s*//[^\n]*|(?<=[;,{)\]]) // [^\n]*|/\*.*?\*/", re.MULTILINE | re.DOTALL)
PATTERN = re.compile(
    r"(?<=[(,=:\[! ])/(?! )(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[gimsuy]*"
)
KEY = re.compile(r"`[a-z][\w.]*\.\$\{[^`]*\}`")
CLASSES = re.compile(r"class: (?:\"[^\"]*\"|`[^`]*`|[^,}\"`]+)+")
INSERT = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
WORDS = re.compile(
    r"(?<![a-z-])[A-Z][a-z]|[A-Za-z]{2,} +[a-z]{2,}|^ ?[a-z]+[.:!?…]$|[^\x00-\x7f]{2,}"
)

NO_TEXT = {
    "ArrowDown",
    "ArrowUp",
    "Enter",
    "Escape",
    "Esc",  # on keys
    "AbortError",
    "AnswerError",
    "ConnectionError",
    "ServerError",
    "DOMContentLoaded",
    "Accept",
    "Content-Type",
    "Retry-After",
    " ·  · E2GraphRAG",  # the name
    "E2GraphRAG",
    "tbody tr",  # a selector
    "unsafe link",  # errors of the program, which no reader sees
    " cannot be a text",
    "there is no message ",
}
"""Texts with a word that are no text for readers."""


def messages(code: str) -> dict[str, tuple[str, ...]]:
    """Return the forms of each message of a language."""
    text = (PAGE / "messages" / f"{code}.js").read_text(encoding="utf-8")
    entries = ENTRY.findall(text)
    assert len(entries) == sum(line.startswith('  "') for line in text.splitlines())
    found = {key: tuple(json.loads(one) for one in forms if one) for key, *forms in entries}
    assert len(found) == len(entries), "a key occurs twice"
    return found


def placeholders(forms: tuple[str, ...]) -> set[str]:
    """Return the names of the values of a message."""
    return {name for form in forms for name in re.findall(r"\{(\w+)\}", form)}


@cache
def code_of(module: Path) -> str:
    """Return a module without its comments and regular expressions."""
    return PATTERN.sub("null", COMMENT.sub("", module.read_text(encoding="utf-8")))


def test_both_languages_have_the_same_messages_with_the_same_values():
    english, chinese = messages("en"), messages("zh")
    assert list(english) == list(chinese)  # in the same order, for translators
    for key, forms in english.items():
        assert all(forms), key
        assert all(chinese[key]) or key == "list.sentence", key
        assert placeholders(forms) == placeholders(chinese[key]), key
        assert len(chinese[key]) == 1, key  # Chinese has no plural


def test_chinese_messages_are_chinese():
    names = {"nDCG", "BM25"}
    for key, (text,) in messages("zh").items():
        words = re.sub(r"\{\w+\}", "", text)
        has_words = re.search(r"[A-Za-z]{2}", words) and not key.startswith("unit.")
        assert not has_words or re.search(r"[\u4e00-\u9fff]", words) or words in names, key
        assert not re.search(r"[\u4e00-\u9fff] ?[,;:?!](?!\d)|\.$", words.replace("文档:", "")), key


def test_the_page_uses_every_message_and_knows_all_that_it_uses():
    text = HTML + "".join(map(code_of, MODULES))
    keys = set(messages("en"))
    named = set(re.findall(r'"([a-z]\w*(?:\.\w+)+)"', text))
    made = set(re.findall(r"`([a-z][\w.]*\.)\$\{", text))
    made |= {f"{kind}." for kind in re.findall(r'wordFor\(\s*"(\w+)"', text)}
    made |= {f"{kind}." for kind in ("mode", "strategy") if '["mode", "strategy"]' in text}
    unused = {key for key in keys - named if not key.startswith(tuple(made - {"count."}))}
    counted = set(re.findall(r'countOf\([^"]*?"(\w+)"', text)) | {"name", "entity"}
    unused |= {key for key in keys if key.startswith("count.") and key[6:] not in counted}
    unused -= {key for key in keys if key.startswith("count.") and key[6:] in counted}
    assert not unused
    used = set(re.findall(r'(?<![\w.])(?:t|rich)\(\s*"([\w.]+)"', text))
    used |= set(re.findall(r'data-t(?:-label)?="([\w.]+)"', HTML))
    assert used <= keys


@pytest.mark.parametrize("module", MODULES, ids=[path.name for path in MODULES])
def test_no_module_shows_a_text_of_its_own(module):
    shown = []
    for string in STRING.findall(CLASSES.sub("", KEY.sub("key", code_of(module)))):
        text = INSERT.sub("", string)[1:-1]
        is_selector = re.match(r"^[#.\[]|^\w+\[|^\(", text) or " > " in text
        if text not in NO_TEXT and WORDS.search(text) and not is_selector:
            shown.append(string)
    assert not shown


def test_the_html_shows_only_the_name_and_the_languages():
    body = re.sub(r"<!--.*?-->|<noscript>.*?</noscript>", "", HTML.partition("<body>")[2])
    texts = [one.strip() for one in re.findall(r">([^<]+)<", body) if one.strip()]
    assert texts == ["E2GraphRAG", "English", "中文", "?"]
    assert not re.search(r'(?:aria-label|title|placeholder)="', body)
