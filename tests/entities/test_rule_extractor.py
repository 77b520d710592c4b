import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.rule_extractor import RuleBasedExtractor
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.types import NOUN
from strategies import examples, texts

LANGUAGES = [
    "und",
    "de",
    "fr",
    "tr",
    "ru",
    "el",
    "hy",
    "ka",
    "ja",
    "ko",
    "zh",
    "ar",
    "he",
    "hi",
    "th",
]
_MATERIAL = [
    "Johann Wolfgang von Goethe wurde in Frankfurt am Main geboren. ",
    "L'Angleterre et Jeanne d'Arc. ",
    "А. С. Пушкин родился в Москве. Москва — столица. ",
    "Ο Οδυσσέας στην Αθήνα. ",
    "夏目漱石は東京で『こころ』を書いた。",
    "北京是中国的首都。《红楼梦》",
    "세종대왕은 한양에서 태어났다. ",
    "वह महात्मा गांधी हैं। ",
    "وُلد نجيب محفوظ في \u200fالقاهرة\u200e. ",
    'דוד בן-גוריון וצה"ל. ',
    "กรุงเทพมหานคร เป็นเมืองหลวง ",
    "می‌خواهم به تهران بروم؟ ",
    "Ｂｏｅｉｎｇ　７４７ ",
    "“\u00adSoft\u00adHyphen” «Война и мир» ",
    "👩‍👩‍👧‍👦 🇩🇪 ❤️ ",
    "\ufeff\u200b\u2066",
]


def script_texts():
    return st.lists(st.one_of(st.sampled_from(_MATERIAL), texts(2)), max_size=8).map("".join)


def found(text, language):
    """Return the entities of a text: names as they are, and nouns after an underscore."""
    [sentences] = RuleBasedExtractor(language).extract([text])
    return ["_" * (m.label == NOUN) + m.entity for sentence in sentences for m in sentence]


@examples(100)
@given(text=script_texts(), language=st.sampled_from(LANGUAGES))
def test_spans_are_exact_ordered_and_disjoint_in_any_script(text, language):
    [sentences] = RuleBasedExtractor(language).extract([text])
    end = 0
    for mention in (mention for sentence in sentences for mention in sentence):
        assert mention.start >= end
        assert mention.entity == text[mention.start : mention.end] != ""
        end = mention.end


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "de",
            "Johann Wolfgang von Goethe wurde in Frankfurt am Main geboren. Der Dichter kam.",
            ["Johann Wolfgang von Goethe", "Frankfurt am Main", "_Dichter"],
        ),
        (
            "de",
            "Gestern sprach Angela Merkel im Bundestag. Dann flog der Physiker Albert Einstein.",
            ["Angela Merkel", "_Bundestag", "_Physiker", "Albert Einstein"],
        ),
        ("de", "Er las „Die Leiden des jungen Werthers“.", ["Die Leiden des jungen Werthers"]),
        ("de", "Welche Stadt liegt an der Elbe?", ["_Stadt", "_Elbe"]),
        (
            "fr",
            "Hier, Jeanne d'Arc a vu l'Élysée. L'Angleterre perdit. L'auteur dormait.",
            ["Jeanne d'Arc", "Élysée", "Angleterre"],
        ),
        ("fr", "Il lit «\u00a0Les misérables\u00a0» ici. Bien.", ["Les misérables"]),
        ("fr", "Paris est la capitale de quel pays ?", ["Paris", "_capitale", "_pays"]),
        ("es", "En Los Ángeles llueve. Los Ángeles crece. Pero no hoy.", ["Los Ángeles"] * 2),
        (
            "ru",
            "А. С. Пушкин родился в Москве. Однако Ту-154 летит. Москва спит.",
            ["А. С. Пушкин", "Москве", "Ту-154", "Москва"],
        ),
        ("el", "Ο Νίκος Καζαντζάκης γεννήθηκε στην Κρήτη. Καλά.", ["Νίκος Καζαντζάκης", "Κρήτη"]),
        ("tr", "Orhan Pamuk, Ankara'da yaşıyor. Evet.", ["Orhan Pamuk", "Ankara"]),
        ("tr", "Orhan Pamuk İstanbul'da. O, New York'ta.", ["Orhan Pamuk", "İstanbul", "New York"]),
        ("vi", "Hồ Chí Minh sinh tại Nghệ An.", ["Hồ Chí Minh", "Nghệ An"]),
        (
            "ja",
            "夏目漱石は東京大学で学び、『吾輩は猫である』を書いた。ジョン・スミスさんと田中氏が来た。",
            ["夏目漱石", "東京大学", "吾輩は猫である", "ジョン・スミス", "田中氏"],
        ),
        ("ja", "NHK交響楽団は1926年に始まった。手を見た。", ["NHK交響楽団"]),
        ("ja", "東京で始まった。", ["_東京"]),
        (
            "ko",
            "세종대왕은 한양에서 태어났다. 세종대왕은 왕이다. 나는 왕이다.",
            ["_세종대왕은", "_세종대왕은", "_왕이다", "_왕이다"],
        ),
        ("ko", "세종대왕은 왕인가?", ["세종대왕은 왕인가"]),
        (
            "ar",
            "حصل نجيب محفوظ على الجائزة. كتب نجيب محفوظ رواية «أولاد حارتنا» .",
            ["نجيب محفوظ", "نجيب محفوظ", "أولاد حارتنا"],
        ),
        ("ar", "متى حصل نجيب محفوظ على الجائزة؟", ["حصل نجيب محفوظ", "_الجائزة"]),
        ("hi", "गांधी का जन्म हुआ! गांधी ने काम किया!", ["_गांधी", "_गांधी"]),
        ("th", "กรุงเทพมหานคร ใหญ่ กรุงเทพมหานคร เก่า", ["_กรุงเทพมหานคร"] * 2),
        ("ka", "თბილისი დიდია! და თბილისი ლამაზია!", ["_თბილისი", "_თბილისი"]),
        ("und", "and the Boeing 747 in 2004, an iPhone 15 and Apollo 13.", None),
    ],
)
def test_entities_of_hand_written_sentences(language, text, expected):
    if expected is None:
        expected = ["Boeing 747", "iPhone 15", "Apollo 13"]
        assert [name for name in found(text, language) if name[0] != "_"] == expected
    else:
        assert found(text, language) == expected


@pytest.mark.parametrize(
    "text", ["北京大学是中国最好的大学之一而且历史非常悠久。", "ข" * 30 + " " + "ข" * 30]
)
def test_long_run_in_an_unspaced_script_is_no_entity(text):
    assert found(text, "und") == []


def test_capital_at_the_start_of_a_sentence_needs_evidence():
    assert (
        found("We met. Yesterday was cold. Peter left. Then we saw Peter.", "en") == ["Peter"] * 2
    )


def test_direction_marks_after_a_sentence_make_no_query_of_it():
    assert found("\u202bדוד בן-גוריון נולד בפלונסק.\u202c", "he") == []


def test_headline_in_capitals_has_no_names():
    assert found("WIR FLIEGEN NACH ROM\nund dann nach Rom.", "de") == ["Rom"]


def test_names_do_not_cross_the_lines_of_a_list():
    assert found("Wir sahen\nParis\nLondon\nRom", "de") == ["Paris", "London", "Rom"]


def test_decomposed_names_have_exact_spans():
    for language, text in (("fr", "Il vit à Besançon."), ("ko", "세종은 서울에서 살았나?")):
        composed = found(text, language)
        decomposed = found(unicodedata.normalize("NFD", text), language)
        assert [unicodedata.normalize("NFC", name) for name in decomposed] == composed
        assert composed


def test_mentions_are_grouped_by_sentence():
    [sentences] = RuleBasedExtractor("fr").extract(["Il aime Paris. Elle aime Rome. Rien."])
    assert [[m.entity for m in s] for s in sentences] == [["aime", "Paris"], ["aime", "Rome"], []]


def test_fingerprint_names_the_rules_and_the_language():
    assert RuleBasedExtractor("de").fingerprint == "rules:1:de"
    assert RuleBasedExtractor().fingerprint == "rules:1:und"
    assert isinstance(RuleBasedExtractor(), EntityExtractor)


@pytest.mark.parametrize("language", ["", None, 3])
def test_invalid_language_is_rejected(language):
    with pytest.raises(InvalidInputError):
        RuleBasedExtractor(language)


@pytest.mark.slow
@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    "piece",
    [
        "A",
        "a",
        "a'",
        "A-",
        "字",
        "カ・",
        "ก",
        "가",
        "\u00ad",
        "A\u0301",
        '"',
        "«",
        "A. ",
        "A\n",
        "A ",
        "नि ",
    ],
)
def test_long_repetitive_texts_take_linear_time(piece):
    """With quadratic time this would take hours, so no time is asserted."""
    RuleBasedExtractor("und").extract([piece * 50_000])
