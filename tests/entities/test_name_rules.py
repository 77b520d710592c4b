import sys

import pytest
import spacy
from spacy.tokens import Doc, Span

from e2graphrag_integrations.entities.name_rules import NameSpan, find_names, name_rules_of


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("en").vocab


@pytest.fixture
def names(vocab):
    """A function from "word/POS" pairs to names; "~" joins a word to the previous one."""

    def find(tagged, entities=(), lower_words=(), language="en"):
        pairs = [pair.rpartition("/") for pair in tagged.split(" ")]
        words = [word.removeprefix("~").replace("⏎", "\n") for word, _, _ in pairs]
        spaces = [not after.startswith("~") for after, _, _ in pairs[1:]] + [False]
        doc = Doc(vocab, words=words, spaces=spaces, pos=[pos for _, _, pos in pairs])
        given = [NameSpan(start, end, label) for start, end, label in entities]
        rules = name_rules_of(language)
        found = find_names(Span(doc, 0, len(doc)), given, frozenset(lower_words), rules)
        return [(doc[start:end].text, label) for start, end, label in found]

    return find


def test_run_of_capitalized_words_is_one_name(names):
    assert names("He/PRON saw/VERB Fitzwilliam/PROPN Darcy/PROPN there/ADV") == [
        ("Fitzwilliam Darcy", "NAME")
    ]


@pytest.mark.parametrize(
    "tagged",
    [
        "the/DET University/PROPN of/ADP Oxford/PROPN",
        "the/DET Lord/PROPN of/ADP the/DET Rings/PROPN",
        "the/DET Procter/PROPN &/CCONJ Gamble/PROPN",
        "the/DET Ludwig/PROPN van/X der/X Rohe/PROPN",
        "the/DET Palace/PROPN of/ADP Green/PROPN Porcelain/PROPN",
    ],
)
def test_lowercase_joiners_continue_a_name(names, tagged):
    text = " ".join(pair.rpartition("/")[0] for pair in tagged.split())
    assert names(f"in/ADP {tagged} it/PRON") == [(text.removeprefix("the "), "NAME")]


def test_three_lowercase_joiners_split_a_name(names):
    found = names("with/ADP London/PROPN of/ADP the/DET de/X Wells/PROPN")
    assert [text for text, _ in found] == ["London", "Wells"]


def test_name_does_not_end_with_a_joiner(names):
    assert names("see/VERB London/PROPN of/ADP old/ADJ")[0][0] == "London"


def test_and_separates_names(names):
    tagged = "They/PRON met/VERB Jane/PROPN and/CCONJ Elizabeth/PROPN"
    assert [text for text, _ in names(tagged)] == ["Jane", "Elizabeth"]
    entities = [(2, 3, "PERSON"), (4, 5, "PERSON")]
    assert names(tagged, entities) == [("Jane", "PERSON"), ("Elizabeth", "PERSON")]


@pytest.mark.parametrize(("opening", "closing"), [("“", "”"), ('"', '"'), ("«", "»"), ("‘", "’")])
def test_quoted_title_is_one_name_including_its_and(names, opening, closing):
    tagged = (
        f"She/PRON read/VERB {opening}/PUNCT ~Pride/NOUN and/CCONJ Prejudice/NOUN ~{closing}/PUNCT"
    )
    assert names(tagged) == [("Pride and Prejudice", "NAME")]


def test_quoted_speech_is_not_a_title(names):
    spoken = "He/PRON said/VERB “/PUNCT ~Come/VERB back/ADV soon/ADV ~”/PUNCT"
    assert names(spoken, lower_words={"come"}) == []
    stopped = "He/PRON said/VERB “/PUNCT ~Come/VERB ~!/PUNCT ~”/PUNCT"
    assert names(stopped) == []


def test_form_of_address_is_not_part_of_the_name(names):
    assert names("then/ADV Mr./PROPN Darcy/PROPN came/VERB") == [("Darcy", "NAME")]
    assert names("Mr./PROPN Darcy/PROPN came/VERB") == [("Darcy", "NAME")]
    assert names("Mr./PROPN Darcy/PROPN came/VERB", [(1, 2, "PERSON")]) == [("Darcy", "PERSON")]


def test_title_that_belongs_to_a_name_is_kept(names):
    assert names("the/DET Prince/PROPN of/ADP Wales/PROPN came/VERB")[0][0] == "Prince of Wales"


def test_first_word_is_a_name_if_tagged_as_proper_noun(names):
    assert names("Longbourn/PROPN was/AUX quiet/ADJ", lower_words={"longbourn"})[0][0] == (
        "Longbourn"
    )


def test_first_word_is_a_name_if_the_noun_never_occurs_in_lower_case(names):
    tagged = "Morlocks/NOUN feared/VERB light/NOUN"
    assert names(tagged) == [("Morlocks", "NAME")]
    assert names(tagged, lower_words={"morlocks"}) == []


@pytest.mark.parametrize("pos", ["VERB", "ADV", "PRON", "ADP", "DET"])
def test_first_word_of_another_word_class_is_not_a_name(names, pos):
    assert names(f"Running/{pos} was/AUX hard/ADJ") == []


def test_first_word_is_part_of_a_name_before_a_capitalized_word(names):
    assert names("Green/ADJ Porcelain/PROPN shone/VERB", lower_words={"green"})[0][0] == (
        "Green Porcelain"
    )


@pytest.mark.parametrize("opening", ["“/PUNCT", "(/PUNCT", "—/PUNCT", "!/PUNCT"])
def test_word_after_a_full_stop_or_opening_mark_is_a_first_word(names, opening):
    assert names(f"he/PRON said/VERB {opening} Running/VERB is/AUX fun/NOUN") == []
    assert names(f"{opening} Running/VERB is/AUX fun/NOUN") == []


@pytest.mark.parametrize("word", ["I/PRON", "I'll/PRON", "I’ve/PRON"])
def test_pronoun_i_is_not_a_name(names, word):
    assert names(f"then/ADV {word} went/VERB") == []


@pytest.mark.parametrize("word", ["Monday", "May", "Sept."])
def test_single_days_and_months_are_not_names(names, word):
    assert names(f"on/ADP {word}/PROPN it/PRON rained/VERB") == []


def test_month_within_a_name_is_kept(names):
    assert names("see/VERB April/PROPN Jones/PROPN now/ADV")[0][0] == "April Jones"


def test_heading_in_capitals_gives_no_names_by_rule(names):
    assert names("THE/DET TIME/NOUN MACHINE/NOUN BY/ADP WELLS/PROPN") == []
    # Entities that the model finds in it are kept.
    assert names("BY/ADP WELLS/PROPN", [(1, 2, "PERSON")]) == [("WELLS", "PERSON")]


def test_acronym_among_lowercase_words_is_a_name(names):
    assert names("the/DET NASA/PROPN rocket/NOUN flew/VERB") == [("NASA", "NAME")]


def test_hyphenated_words_are_one_word(names):
    tagged = "the/DET Jean/PROPN ~-/PUNCT ~Luc/PROPN Godard/PROPN film/NOUN"
    assert names(tagged) == [("Jean-Luc Godard", "NAME")]


def test_name_can_end_with_a_number(names):
    assert names("read/VERB Catch/PROPN 22/NUM today/NOUN") == [("Catch 22", "NAME")]


def test_name_does_not_cross_a_line_break(names):
    found = names("see/VERB Chapter/PROPN One/PROPN ⏎⏎/SPACE London/PROPN slept/VERB")
    assert [text for text, _ in found] == ["Chapter One", "London"]


def test_name_takes_the_label_of_its_only_entity(names):
    tagged = "the/DET University/PROPN of/ADP Oxford/PROPN library/NOUN"
    assert names(tagged, [(3, 4, "LOC")]) == [("University of Oxford", "LOC")]


def test_name_with_several_entities_has_the_generic_label(names):
    tagged = "the/DET Bank/PROPN of/ADP England/PROPN Museum/PROPN opened/VERB"
    entities = [(1, 2, "ORG"), (3, 4, "LOC")]
    assert names(tagged, entities) == [("Bank of England Museum", "NAME")]


def test_entity_that_extends_beyond_a_name_wins(names):
    tagged = "the/DET Earl/PROPN Grey/PROPN tea/NOUN company/NOUN fell/VERB"
    assert names(tagged, [(1, 5, "ORG")]) == [("Earl Grey tea company", "ORG")]


def test_entities_outside_names_are_kept(names):
    assert names("an/DET iphone/NOUN rang/VERB", [(1, 2, "PRODUCT")]) == [("iphone", "PRODUCT")]


def test_text_without_words_has_no_names(names):
    assert names("./PUNCT") == []


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("tagged", "entity"),
    [
        (("(/PUNCT", "Alice/PROPN saw/VERB"), None),
        (("Alice/PROPN met/VERB Bob/PROPN ./PUNCT",), None),
        (("Alice/PROPN met/VERB Bob/PROPN ./PUNCT",), (0, 1, "PERSON")),
        (("“/PUNCT Alice/PROPN met/VERB",), (1, 2, "PERSON")),
        (("“/PUNCT Alice/PROPN ”/PUNCT",), None),
    ],
)
def test_the_work_grows_linearly_with_the_number_of_words(names, tagged, entity):
    def operations(times):
        text = " ".join(part for part in tagged for _ in range(times))
        size = len(tagged[0].split())
        at = range(0, times * size, size) if entity else ()
        entities = [(i + entity[0], i + entity[1], entity[2]) for i in at]
        count = 0

        def trace(frame, event, _):
            nonlocal count
            count += event == "opcode"
            frame.f_trace_opcodes = frame.f_globals["__name__"] == find_names.__module__
            return trace if frame.f_trace_opcodes else None

        sys.settrace(trace)
        try:
            names(text, entities)
        finally:
            sys.settrace(None)
        return count

    assert 0 < operations(160) < 5 * operations(40)


@pytest.mark.parametrize(
    ("language", "tagged", "expected"),
    [
        ("de", "Das/DET Haus/NOUN in/ADP Weimar/PROPN", ["Weimar"]),
        ("de", "die/DET Kanzlerin/NOUN Angela/PROPN Merkel/PROPN", ["Angela Merkel"]),
        (
            "de",
            "Otto/PROPN von/ADP Bismarck/PROPN kam/VERB im/ADP Mai/PROPN",
            ["Otto von Bismarck"],
        ),
        ("de", "die/DET Europäische/ADJ Union/PROPN", ["Europäische Union"]),
        ("de", "die/DET Geschichte/NOUN der/DET Stadt/NOUN", []),
        ("de", "las/VERB „/PUNCT ~Der/DET Prozess/NOUN ~“/PUNCT", ["Der Prozess"]),
        ("fr", "dans/ADP «/PUNCT Les/DET misérables/NOUN »/PUNCT", ["Les misérables"]),
        ("it", "con/ADP I/DET Malavoglia/PROPN", ["I Malavoglia"]),
        ("ar", "في/ADP القاهرة/PROPN", []),
        ("ja", "『/PUNCT ~こころ/NOUN ~』/PUNCT", []),
        ("ja", "『/PUNCT ~吾輩/NOUN ~は/ADP ~猫/NOUN ~』/PUNCT", ["吾輩は猫"]),
    ],
)
def test_rules_of_other_languages(names, language, tagged, expected):
    assert [text for text, _ in names(tagged, language=language)] == expected
