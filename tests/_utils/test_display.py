"""Escaping of characters that could control a terminal."""

from __future__ import annotations

import json
import sys
import unicodedata
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.display import (
    escaped,
    passage,
    printable,
    printable_json,
    printable_lines,
    table,
)
from strategies import examples

CONTROLS = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
    or unicodedata.bidirectional(character)
    in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
]


def test_every_control_and_bidi_override_becomes_a_visible_escape():
    for character in CONTROLS:
        escaped = printable(f"a{character}b")
        assert escaped.isprintable()
        assert escaped.isascii()
        assert escaped.startswith("a\\")
    assert printable("\x1b[31m \x9b \x7f \u202e\n") == r"\x1b[31m \x9b \x7f \u202e\n"


def test_texts_in_all_scripts_are_kept():
    text = "naïve 日本 👩‍🚀 می‌خواهم עברית\u200f [red] C:\\n"
    assert printable(text) == text


def test_lines_keep_only_line_breaks_and_tabs():
    assert printable_lines("a\tb\r\nc\rd\x0be") == "a\tb\nc\\rd\\x0be"


def test_json_is_free_of_controls_and_parses_to_the_same_value():
    value = {control: [control] for control in CONTROLS}
    text = printable_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert not set(text) & (set(CONTROLS) - {"\n"})


class _Text(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


@examples(60)
@given(st.text() | st.text("<>&\"'/;=ab \n"), st.data())
def test_passages_keep_their_text_and_add_no_tags(text, data):
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    parsed = _Text(passage(text, (first, last)))
    parts = text[:first], text[first:last], text[last:]
    assert parsed.text == "".join(map(printable_lines, parts))
    assert parsed.tags == ["div", "mark"][: 1 + (last > first)]


def test_escaped_text_is_cut_before_it_is_escaped():
    assert escaped("<<<<", 3) == "&lt;&lt;&lt; … (1 character more)"


def test_table_shows_numbers_truth_and_lists():
    parsed = _Text(table(("a",), [(1234,), (True,), (0.123456,), (["x", "y"],), ({"k": 2},)]))
    assert parsed.text == "a1,234yes0.1235x, yk: 2"
