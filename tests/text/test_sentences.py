from itertools import pairwise

import pytest
from hypothesis import given

from e2graphrag_integrations.text.sentences import ends_sentence, sentence_spans, sentence_starts
from strategies import quick, texts


def sentences(text):
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("He said: “Go.” She went.", ["He said: “Go.”", "She went."]),
        ("Mr. Darcy met Dr. Jones. They spoke.", ["Mr. Darcy met Dr. Jones.", "They spoke."]),
        ("H. G. Wells wrote it. Yes.", ["H. G. Wells wrote it.", "Yes."]),
        ("The U.S. Army came. It left.", ["The U.S. Army came.", "It left."]),
        ("Some fruit, e.g. apples, is red. So.", ["Some fruit, e.g. apples, is red.", "So."]),
        ("It cost 3.14 dollars. Cheap.", ["It cost 3.14 dollars.", "Cheap."]),
        ("He stopped. and went on.", ["He stopped. and went on."]),  # a lowercase letter follows
        ("A title\n\nThe text", ["A title", "The text"]),
        ("A title\r\n \r\nThe text", ["A title", "The text"]),
        ("Signed, Mr.\n\nThe end", ["Signed, Mr.", "The end"]),
        ("我来了。你走了！好", ["我来了。", "你走了！", "好"]),
        ("「来了。」他说。", ["「来了。」", "他说。"]),
        ("Wait... what? Yes.", ["Wait...", "what?", "Yes."]),
        ("他说：“你好。我走了。”然后离开。", ["他说：“你好。", "我走了。”", "然后离开。"]),
        ("他问：“为什么？”的问题。好", ["他问：“为什么？”的问题。", "好"]),
        ("他（真的是他吗？）走了。", ["他（真的是他吗？）走了。"]),
        ("（他走了。）她也走了", ["（他走了。）", "她也走了"]),
        ("读过《为什么？因为爱》吗？没有", ["读过《为什么？因为爱》吗？", "没有"]),
        ("我……我不知道……”他说。", ["我……我不知道……”", "他说。"]),
        ("等等——不行……算了。好", ["等等——不行……算了。", "好"]),
        ("他来了；她走了", ["他来了；", "她走了"]),
        ("真的吗?!是的!走吧", ["真的吗?!", "是的!", "走吧"]),
        ("第一段\n　　第二段", ["第一段", "第二段"]),
        ("「そうですか。」と言った。はい。", ["「そうですか。」と言った。", "はい。"]),
        ("हिन्दी में लिखा। फिर आया।", ["हिन्दी में लिखा।", "फिर आया।"]),
        ("هل ذهب أحمد؟نعم. ثم عاد", ["هل ذهب أحمد؟", "نعم.", "ثم عاد"]),
        ("اچھا ہے۔ وہ گیا۔", ["اچھا ہے۔", "وہ گیا۔"]),
        ("သွားသည်။ လာသည်။", ["သွားသည်။", "လာသည်။"]),
        ("ខ្ញុំទៅ។ គាត់មក។", ["ខ្ញុំទៅ។", "គាត់មក។"]),
        ("ሄደ። መጣ።", ["ሄደ።", "መጣ።"]),
        ("Նա գնաց։ Նա եկավ։", ["Նա գնաց։", "Նա եկավ։"]),
        ("อากาศดี ฉันซื้อของมากๆ ๆ ครับ", ["อากาศดี", "ฉันซื้อของมากๆ ๆ", "ครับ"]),
        ("Its name (Thai: ไทย กรุงเทพ) is old. So", ["Its name (Thai: ไทย กรุงเทพ) is old.", "So"]),
        ("  \r\n ", []),
        ("", []),
    ],
)
def test_sentences_end_at_full_stops_but_not_after_abbreviations(text, expected):
    assert sentences(text) == expected


@quick
@given(texts())
def test_starts_ascend_from_zero_within_the_text(text):
    starts = sentence_starts(text)
    assert starts[0] == 0
    assert all(a < b for a, b in pairwise(starts))
    assert all(start < len(text) for start in starts[1:])


@quick
@given(texts())
def test_spans_cover_every_character_except_white_space(text):
    position = 0
    for start, end in sentence_spans(text):
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip() != ""
        position = end
    assert not text[position:].strip()


def test_a_semicolon_ends_a_clause_but_no_sentence():
    text = "他来了；她走了。好；\n坏"
    starts = sentence_starts(text, clauses=False)
    assert [text[start:] for start in starts] == [text, "好；\n坏"]
    assert len(sentence_starts(text)) == 4


def test_the_number_of_an_item_ends_no_sentence():
    text = "1. Mix it.\n2. Bake it. It took 3. Then rest.\n  12. Eat it.\n\na. Really. Yes."
    starts = sentence_starts(text)
    parts = [text[a:b].strip() for a, b in pairwise([*starts, len(text)])]
    assert parts[:3] == ["1. Mix it.", "2. Bake it.", "It took 3."]
    assert "12. Eat it." in parts
    assert "a. Really." in parts


@pytest.mark.parametrize("text", ["来了。", "आया।", "Gone.", "他说：“好！”", "（完。）", "وہ گیا۔"])
def test_the_end_of_a_sentence_is_recognized(text):
    assert ends_sentence(text)
    assert ends_sentence(f"{text}\n")
    assert not ends_sentence(f"{text}然后")


@pytest.mark.parametrize("mark", ["…", "。", "《", "!", "\n", "।"])
def test_long_run_of_marks_takes_linear_time(mark):
    """With quadratic time this would take hours, so no time is asserted."""
    assert len(sentence_starts(f"中{mark * 300_000}中。文")) <= 4


def test_long_run_of_dots_takes_linear_time():
    """With quadratic time this would take hours, so no time is asserted."""
    dots = "." * 500_000
    assert sentence_starts(f"Contents{dots}12. Next") == [0, len(dots) + 12]


@pytest.mark.slow
def test_many_tables_and_sentences_take_linear_time():
    """With quadratic time this would take an hour, so no time is asserted."""
    text = "a\tb\nc\td\nSome sentence.\n" * 20_000
    assert len(sentence_starts(text)) == 3 * 20_000
