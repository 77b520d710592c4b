"""Tables of contents are told from lists, menus and prose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.contents import CONTENTS, is_table_of_contents


@pytest.mark.parametrize(
    "text",
    [
        "Contents\n1. Cleaning ........ 4\n2. Battery ........ 7\n3. Warranty ........ 16",
        "13\n5. Warranty ........ 16\n6. Disposal ........ 19\n7. Child safety ........ 22\n8. Des",
        "1.1 Scope . . . . . . 3\n1.2 Terms . . . . . . 3\n1.3 Rules . . . . . . 7",
        "CONTENTS Page I. OLD . . . . . 1 II. RIGHTS . . . . . 7 III. TERROR . . . . . 13",
        "Contents\n\nIntroduction\t1\nMethods\t4\nResults\t9",
        "Chapter 1 The Start   5\nChapter 2 The Middle   9\nChapter 3 The End   20",
        "- [Install](#install)\n- [Use](#use)\n  - [License](#license)",
        "第一章 总则……1\n第二章 借款……5\n第三章 附则……9",
    ],
)
def test_tables_of_contents(text):
    assert is_table_of_contents(text)
    assert CONTENTS in read_postings([text]).vocabulary


@pytest.mark.parametrize(
    "text",
    [
        "Soup ........ 4\nBread ........ 2\nFish ........ 9",
        "brass hinge\t12\noak knob\t15\npine rail\t20",
        "1. Rinse the filter.\n2. Let it dry.\n3. Put it back.",
        "He waited... 3 men came. Then... 4 more came... 5 in all. Nobody knew why they were here.",
        "1.1 Scope ...... 3\n\nThe rules apply to all boats in the harbor, whoever owns them.",
        "See [the terms](#terms), [the rules](#rules) and [the fees](#fees) before you sign.",
        "1   2   3\n4   5   6\n7   8   9",
        "| name | price |\n|---|---|\n| rope | 3 |\n| sail | 4 |",
        "",
    ],
)
def test_other_texts(text):
    assert not is_table_of_contents(text)
    assert CONTENTS not in read_postings([text]).vocabulary


@given(st.text("a. \t\n1…_[](#)", max_size=60))
def test_any_text_is_read(text):
    assert is_table_of_contents(text) in {True, False}
