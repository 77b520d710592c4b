"""Names of the index in questions, in any spelling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.matching.aliases import Aliases
from e2graphrag_integrations.entities.matching.known_names import (
    KNOWN,
    as_written,
    has_no_casing,
    known_names,
    with_capitals,
    with_known_names,
)
from e2graphrag_integrations.text.letters import simplified
from e2graphrag_integrations.types import NOUN, Mention

NAMES = (
    *("ben hamre", "tarn observatory", "palace of green porcelain", "louis vane", "louise vane"),
    *("o'hara", "brontë", "j. r. r. tolkien", "kingston, jamaica", "jamaica", "icehouse", "time"),
    *("rhodotypos", "ottoline brack", "jane bennet", "mary bennet"),
)


class Texts:
    """The words that texts use as common words, and the words that they have."""

    def __init__(self, common=(), words=None):
        self.common, self.words = common, words

    def is_name(self, form, rows):
        assert len(rows)
        return form not in self.common

    def is_word(self, word):
        return self.words is None or word in self.words


def known(question, *names, texts=None):
    aliases = Aliases(list(names), np.ones(len(names), bool), np.ones(len(names), int))
    return known_names(question, aliases, lambda: texts or Texts())


def found(question, *names, texts=None):
    return [one.entity for one in known(question, *(names or NAMES), texts=texts)]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("who met ben hamre?", ["ben hamre"]),
        ("WHO MET BEN HAMRE?", ["BEN HAMRE"]),
        ("where is ben-hamre's grave, or Benhamre", ["ben-hamre", "Benhamre"]),
        ("the hamres’ house", ["hamres"]),  # the possessive of a plural
        ("which meetings did hamre attend?", ["hamre"]),
        ("which meetings did ben attend?", ["ben"]),
        ("b. hamre and B Hamre", ["b. hamre", "B Hamre"]),
        ("palace of  green-porcelain", ["palace of  green-porcelain"]),
        ("bronte, ohara and o’hara", ["bronte", "ohara", "o’hara"]),
        ("the books of jrr tolkien", ["jrr tolkien"]),
        ("the ice house", ["ice house"]),
        ("kingston jamaica and Kingston, Jamaica", ["kingston jamaica", "Kingston, Jamaica"]),
        ("tarn? observatory", ["tarn", "observatory"]),  # no name over the end of a sentence
        ("which bennet is it?", []),  # two people
        ("vane", []),
        ("", []),
    ],
)
def test_names_are_found_in_any_spelling(question, names):
    assert found(question) == names


def test_letters_with_a_stroke_are_found_without_it():
    assert found("did soren odegard meet lukasz?", "søren ødegård", "łukasz") == [
        "soren odegard",
        "lukasz",
    ]


def test_common_words_are_names_only_if_the_texts_say_so():
    common = Texts(common={"time", "tarn observatory"})
    assert found("what time is it?", texts=common) == []
    assert found("what time is it?") == ["time"]
    assert found("the tarn observatory", texts=common) == ["tarn", "observatory"]
    # Capitals say it of several words, unless the question has no other letters.
    assert found("Is the Tarn Observatory old?", texts=common) == ["Tarn Observatory"]
    assert found("IS THE TARN OBSERVATORY OLD", texts=common) == ["TARN", "OBSERVATORY"]
    assert found("Time is up", texts=common) == []
    assert found('who wrote "time"?', texts=common) == ["time"]
    assert found("What time is it?") == []  # capitals would show the name
    assert found("What is hamre?") == ["hamre"]


def test_one_typo_is_found_in_a_word_that_no_text_has():
    assert found("who was ottolnie brack?", texts=Texts(words={"brack"})) == ["ottolnie brack"]
    assert found("who was ottolnie brack?", texts=Texts(words={"ottolnie"})) == ["brack"]
    assert found("a rhodotypus", texts=Texts(words={})) == ["rhodotypus"]
    assert found("a rhodotpyus", texts=Texts(words={})) == []  # two typos
    # Whether "louisa" means one of two names is for the linking to tell.
    assert found("louisa vane", texts=Texts(words={})) == ["louisa vane"]


def test_a_comma_separates_names_unless_a_name_has_one():
    assert found("hamre, ben", "hamre ben", "hamre", "ben") == ["hamre", "ben"]


NAMED = st.sampled_from([name for name in NAMES if name != "time"])


@given(NAMED, st.data())
@example("brontë", None)
def test_any_casing_of_a_name_is_found(name, data):
    flips = [data.draw(st.booleans()) for _ in name] if data else [True] * len(name)
    cased = "".join(c.upper() if up else c for c, up in zip(name, flips, strict=True))
    assert found(f"who knows {cased} well?") == [cased]


@pytest.mark.parametrize(
    ("question", "names", "texts"),
    [
        ("红腹锉尾蛇体长约是多少？", ["红腹锉尾蛇", "锉尾蛇"], ["红腹锉尾蛇"]),
        ("紅腹銼尾蛇體長約是多少？", ["红腹锉尾蛇"], ["紅腹銼尾蛇"]),  # traditional
        ("索尼公司和索尼", ["索尼公司"], ["索尼公司"]),
        ("京市政在哪里？", ["京市"], []),  # two characters may cross the border of words
    ],
)
def test_longest_chinese_names_are_found_without_evidence(question, names, texts):
    class Nothing(Texts):
        def is_name(self, form, rows):
            return False

    assert found(question, *names, texts=Nothing()) == texts


@given(st.text(alphabet="諸葛亮曹操A1 İ，\U0001f600's", max_size=40))
def test_spans_refer_to_the_question(question):
    for mention in known(question, "诸葛亮", "曹操曹", "葛亮曹操", "a1 a1"):
        assert question[mention.start : mention.end] == mention.entity
        assert simplified(mention.entity)


def test_known_names_replace_nouns_and_shorter_names_and_without_casing_longer_ones():
    noun, name = Mention("porcelain", 20, 29, NOUN), Mention("Green", 14, 19, "NAME")
    longer = Mention("Old Tarn Observatory", 40, 60, "NAME")
    palace = Mention("palace of green porcelain", 4, 29, KNOWN)
    tarn = Mention("Tarn Observatory", 44, 60, KNOWN)
    names = [noun, name, longer], [palace, tarn]
    assert with_known_names("The palace and Old Tarn", *names) == (longer, palace)
    assert with_known_names("the palace and old tarn", *names) == (palace, tarn)
    other = Mention("ANNA BEN", 0, 8, "NAME"), Mention("BEN", 5, 8, KNOWN)
    assert with_known_names("ANNA BEN", other[:1], other[1:]) == other[:1]


@pytest.mark.parametrize(
    ("question", "has_none"),
    [
        ("who is weena?", True),
        ("WHO IS WEENA?", True),
        ("Who Is Weena?", True),
        ("Who is it?", False),
        ("who is Weena?", False),
        ("iPhone", False),
        ("谁?", False),
        ("", False),
    ],
)
def test_questions_in_one_case_have_no_casing(question, has_none):
    assert has_no_casing(question) is has_none


@given(st.text(max_size=40))
def test_capitals_keep_the_offsets(question):
    assert len(with_capitals(question, [Mention(question, 0, len(question), KNOWN)])) == len(
        question
    )


def test_capitals_mark_names_and_are_undone():
    question = "WHO MET BEN HAMRE? IT WAS BEN."
    names = [Mention("BEN HAMRE", 8, 17, KNOWN)]
    assert with_capitals(question, names) == "who met Ben Hamre? it was ben."
    assert with_capitals("Who Met BEN?", names) == "Who Met BEN?"
    assert with_capitals("NASA?", []) == "NASA?"
    read = [Mention("Ben Hamre", 8, 17, "PERSON"), Mention("meeting", 4, 7, NOUN)]
    assert as_written(question, read) == (Mention("BEN HAMRE", 8, 17, "PERSON"), read[1])
