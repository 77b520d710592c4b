"""Names of the index in Chinese questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.known_names import KNOWN, with_known_names
from e2graphrag_integrations.text.simplified import simplified
from e2graphrag_integrations.types import NOUN, Mention


def known(question, *names, mentions=()):
    return list(with_known_names(question, mentions, set(names).__contains__))


@pytest.mark.parametrize(
    ("question", "names", "found"),
    [
        ("红腹锉尾蛇体长约是多少？", ["红腹锉尾蛇", "锉尾蛇"], ["红腹锉尾蛇"]),
        ("紅腹銼尾蛇體長約是多少？", ["红腹锉尾蛇"], ["红腹锉尾蛇"]),  # traditional
        ("ＩＢＭ公司和索尼公司", ["ibm公司", "索尼公司"], ["索尼公司"]),
        ("京市政在哪里？", ["京市"], []),  # two characters may cross the border of words
        ("Where is Beijing?", ["whe", "beijing"], []),
        ("", [""], []),
    ],
)
def test_longest_names_of_the_index_are_found(question, names, found):
    assert [mention.entity for mention in known(question, *names)] == found


def test_known_names_overlap_with_no_extracted_name_and_replace_nouns():
    own = Mention("诸葛亮", 0, 3, "PERSON")
    noun = Mention("响尾蛇", 5, 8, NOUN)
    found = known("诸葛亮见到响尾蛇属", "葛亮见到", "响尾蛇属", mentions=[own, noun])
    assert found == [own, Mention("响尾蛇属", 5, 9, KNOWN)]


@given(st.text(alphabet="諸葛亮曹操A1 İ，\U0001f600", max_size=40))
def test_spans_refer_to_the_question(question):
    for mention in known(question, "诸葛亮", "曹操曹", "葛亮曹操"):
        assert simplified(question[mention.start : mention.end]) == mention.entity
