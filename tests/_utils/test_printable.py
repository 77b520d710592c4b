"""Escaping of characters that could control a terminal."""

from __future__ import annotations

import json
import sys
import unicodedata

from e2graphrag_integrations._utils.printable import printable, printable_json, printable_lines

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
