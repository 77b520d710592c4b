"""The scripts of the characters in a text, by Unicode block."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

LATIN, HAN, KANA, HANGUL = "Latn", "Hani", "Kana", "Hang"
"""Codes of scripts (ISO 15924). Hiragana counts as kana, and bopomofo as Han."""

_BLOCKS = """
0041-005A Latn|0061-007A Latn|00AA Latn|00B5 Grek|00BA Latn|00C0-00D6 Latn|00D8-00F6 Latn
00F8-02B8 Latn|0370-0373 Grek|0376-03FF Grek|0400-052F Cyrl|0531-0587 Armn|0591-05F4 Hebr
0610-061A Arab|0620-065F Arab|066E-06FF Arab|0710-074F Syrc|0750-077F Arab|0780-07B1 Thaa
07CA-07F5 Nkoo|0800-082D Samr|0840-085B Mand|0860-086A Syrc|0870-08FF Arab|0900-0963 Deva
0970-097F Deva|0980-09E3 Beng|09F0-09FE Beng|0A01-0A5E Guru|0A70-0A75 Guru|0A81-0AE3 Gujr
0AF9-0AFF Gujr|0B01-0B63 Orya|0B70-0B77 Orya|0B82-0BD7 Taml|0C00-0C63 Telu|0C80-0CE3 Knda
0CF1-0CF3 Knda|0D00-0D63 Mlym|0D7A-0D7F Mlym|0D81-0DDF Sinh|0DF2-0DF3 Sinh|0E01-0E3A Thai
0E40-0E4E Thai|0E81-0EC6 Laoo|0EC8-0ECE Laoo|0EDC-0EDF Laoo|0F00-0F03 Tibt|0F18-0F19 Tibt
0F35-0F3A Tibt|0F3E-0FBC Tibt|1000-103F Mymr|1050-108F Mymr|109A-109D Mymr|10A0-10FF Geor
1100-11FF Hang|1200-135F Ethi|1380-138F Ethi|13A0-13FD Cher|1400-167F Cans|1780-17D3 Khmr
17D7 Khmr|17DC-17DD Khmr|1950-1974 Tale|1980-19C9 Talu|1A20-1A7C Lana
1820-18AA Mong|18B0-18F5 Cans|1C80-1C8A Cyrl|1C90-1CBF Geor|1CD0-1CFA Deva|1D00-1DBF Latn
1E00-1EFF Latn|1F00-1FFF Grek|2C60-2C7F Latn|2D00-2D2D Geor|2D80-2DDE Ethi|2DE0-2DFF Cyrl
3005-3007 Hani|3021-3029 Hani|3038-303B Hani|3041-3096 Kana|3099-309A Kana|309D-309F Kana
30A1-30FA Kana|30FC-30FF Kana|3105-312F Hani
3131-318E Hang|31A0-31BF Hani|31F0-31FF Kana|3400-4DBF Hani|4E00-9FFF Hani|A640-A69F Cyrl
A722-A7FF Latn|A8E0-A8FF Deva|A960-A97C Hang|A9E0-A9EF Mymr|A9FA-A9FE Mymr
AA60-AA76 Mymr|AA7A-AA7F Mymr|AB00-AB2E Ethi|AB30-AB6F Latn
AB70-ABBF Cher|AC00-D7FB Hang|F900-FAFF Hani|FB00-FB06 Latn|FB13-FB17 Armn|FB1D-FB4F Hebr
FB50-FDFF Arab|FE70-FEFC Arab|FF21-FF3A Latn|FF41-FF5A Latn|FF66-FF9F Kana|FFA0-FFDC Hang
10330-1034A Goth|1B000-1B16F Kana|1E900-1E943 Adlm|20000-3FFFF Hani
"""
"""Ranges of letters and of the signs that belong to them, with their scripts."""


def _ranges() -> list[tuple[int, int, str]]:
    """Return the first and the last code point of each range, and its script."""
    ranges = []
    for entry in _BLOCKS.replace("\n", "|").strip("|").split("|"):
        span, script = entry.split()
        first, _, last = span.partition("-")
        ranges.append((int(first, 16), int(last or first, 16), script))
    return ranges


def letters_of(*scripts: str) -> str:
    """Return the letters of scripts as ranges in a character class of a regular expression.

    >>> letters_of("Thai")
    '\u0e01-\u0e3a\u0e40-\u0e4e'
    """
    ranges = (one for one in _ranges() if one[2] in scripts)
    return "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in ranges)


def _boundaries() -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the code points at which a range begins, and its script; "" between ranges."""
    starts, scripts = [0], [""]
    for first, last, script in _ranges():
        starts += [first, last + 1]
        scripts += [script, ""]
    # Adjacent ranges leave an empty range between them.
    kept = [row for row, (a, b) in enumerate(pairwise([*starts, 1 << 21])) if a < b]
    return tuple(starts[row] for row in kept), tuple(scripts[row] for row in kept)


_STARTS, _SCRIPTS = _boundaries()


def script_of(character: str) -> str:
    """Return the script of a character (ISO 15924), or "" if it is not a letter.

    >>> script_of("a"), script_of("漢"), script_of("ひ"), script_of("?")
    ('Latn', 'Hani', 'Kana', '')
    """
    return _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1]


def count_scripts(text: str) -> Mapping[str, int]:
    """Return the number of letters of each script in a text, most frequent first.

    >>> count_scripts("OpenAI 的模型 GPT-4")
    {'Latn': 9, 'Hani': 3}
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        counts[script_of(character)] += count
    del counts[""]
    return dict(counts.most_common())
