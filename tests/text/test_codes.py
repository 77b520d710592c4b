"""A code is found in each of its spellings, and another code is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.words import terms_of
from strategies import examples


def found(question, text):
    """Return whether a code of the question is in the text."""
    terms = set(code_terms(text))
    return any(term in terms for code in question_codes(question) for term in code.terms)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What changed in version 2.10.1?", "## 2.10.1\n\n- faster"),
        ("What changed in v2.10.1?", "Release 2.10.1 is out."),
        ("changes of 2.1.0-rc1", "v2.1.0-rc.1 or v2.1.0-rc1"),
        ("What does clause 12.3 say?", "see §12.3."),
        ("clause 4.2(b)", "4.2 (b) The tenant pays."),
        ("clause 4.2", "4.2(b) The tenant pays."),
        ("rtx 4090", "The RTX-4090 is fast."),
        ("RTX4090?", "An RTX 4090 is fast."),
        ("who sits in room 103", "Name: Ann\nRoom: 103"),
        ("the rtx-4090", "RTX4090"),
        ("gpt 4.1", "GPT-4.1 answers."),
        ("who is 10.0.0.1", "The router has 10.0.0.1 as its address."),
        ("commit a1b2c3d", "fixed in a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"),
        ("what does open_index() do", "Call `open_index(path)` first."),
        ("os.path.join", "It uses os.path.join(a, b)."),
        ("Anna.Krog@Example.com", "mailto: anna.krog@example.com."),
        ("https://example.org/a", "See example https://example.org/a."),
        ("9783161484100", "ISBN 978-3-16-148410-0"),
        ("invoice of 1250 euros", "The total is 1,250 euros."),
        ("型号RTX4090", "RTX 4090 是显卡"),
        ("RTX4090的价格", "显卡RTX 4090价格12000元"),
        ("138 1234 5678是谁的?", "张伟,138-1234-5678"),
        ("01062754321", "电话:010 6275 4321,传真"),
        ("010-1234-5678은 누구의 번호인가요?", "김민수 010-1234-5678"),
        ("BP-400의 가격", "BP 400 10만원"),
        ("15:00有什么安排?", "周会改到下午三点"),
        ("on March 5, 2024", "2024-03-05: we met."),
        ("on 5 March 2024", "Am 5. März 2024 in Bonn"),
        ("am 05.03.2024", "on the 5th of March 2024"),
        ("2024年3月5日", "2024/03/05"),
        ("on 5 March 2024", "DTSTART:20240305T090000"),
        ("picture of 5 March 2024", "IMG_20240305_091200.jpg"),
        ("invoice of May 2024", "Period: 05/2024"),
        ("what happened at 10:05", "10:05:33 the pump stopped"),
        ("What is task 39?", "Tasks\n\n39. The boat is painted."),
        ("reference [28]", "[28] A. Krog, The Sea."),
        ("section 4", "4 Storage\n\nKeep it dry."),
        ("2023年12月18日", "二〇二三年十二月十八日开通"),
        ("what does the 3rd chapter say", "CHAPTER III. THE CAT"),
        ("Henry the Eighth", "Henry VIII was king."),
        ("第12条规定了什么？", "第十二条 买方付款。"),
        ("in March 2024", "2024-03-05 10:30:00 started"),
        ("ticket INV-2024-0012", "(inv-2024-0012)"),
        ("SKU_00153", "SKU-00153,sofa,glass,769"),
        ("Whose number is +4777817684?", "Call +47 77 81 76 84."),
        ("Whose number is +47 77 81 76 84?", "Call 77 81 76 84 in the morning."),
        ("Who has (555) 123-4567?", "Tel.: 555-123-4567"),
        ("whose account is NO7885742962980", "Pay to NO78 8574 2962 980."),
        ("card 4111111111111111", "The card 4111 1111 1111 1111 was lost."),
        ("commit d863386c", "fixed in d863386c4e5f60718293a4b5c6d7e8f901234567"),
        ("commit d863386c4e5f60718293a4b5c6d7e8f901234567", "fixed in d863386c"),
        ("What does Article 12(3) say?", "Article 12\n(3) Members vote in writing."),
        ("who lives in N31BG", "12 Elm Road, N3 1BG, London"),
        ("who lives in K1A 0B1", "Ottawa K1A0B1"),
        ("which crate weighs 62.5kg", "It weighs 62.5 kg."),
        ("which crate weighs 62.5 kg", "It weighs 62.5kg."),
        ("who won the 2500 meters", "She won the 2500m race."),
        ("What does Article 12(3) say?", "as required by Article 12 (3)"),
        ("on 24 March", "Party: 24/03"),
        ("on 10 December", "Due: 10/12"),
        ("on 10 December", "Mon 10/12 party"),
        ("on 10 December", "Plan\n10/12 party"),
        ("am 10. Dezember", "Do, 10.12. Feier"),
        ("What is on 24/03?", "We meet on March 24."),
        ("Was ist am 24.03.?", "Am 24. März ist frei."),
        ("which bus leaves at 8:45", "Bus 12: 8.45, 9.15"),
        ("Was kostet 2.000 Euro?", "2000 Euro"),
        ("What costs 1250.50 euros?", "1.250,50 EUR"),
        ("What costs 1500 euros?", "1 500,00 €"),
        ("what costs 350 euros", "bolts 2 350,00 € 700,00 €"),
        ("which road is 12500 km long", "12 500 km"),
        ("which pack has 500 g", "2 500 g packs"),
        ("What is on 12 may?", "see you on 12 may at the pool"),
        ("Qu'y a-t-il le 1er mai ?", "1 May"),
        ("30 percent", "30 Prozent"),
        ("who comes at 5 pm", "open 5-7 pm"),
        ("who comes at 7 pm", "open 5-7 pm"),
        ("who comes at 11 am", "open 11 to 1 pm"),
        ("晚上12点", "0:00"),
        ("What is Rev. B?", "Rev. B is out."),
        ("What is item 3?", "3. May I bring a dog?"),
        ("which bus leaves at 8.45", "Bus 12: 8:45, 9:15"),
    ],
)
def test_a_code_is_found_in_another_spelling(question, text):
    assert found(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("version 2.10.1", "2.1.10 and 1.2.10 and 2.10.11"),
        ("clause 12.3", "12.30, 12.31 and 2.3"),
        ("clause 2.1", "2.1.10"),
        ("part 1234-7-AB-C", "1234-7-C-AB, 1234-AB-7-C, 1234-AB-C-7"),
        ("part 12-3", "1-23"),
        ("10.0.0.1", "10.0.0.11, 100.0.1"),
        ("on 2024-03-05", "2024-03-06, 2024-05-30 and 2023-03-05"),
        ("on 5 March 2024", "4 March 2024"),
        ("a1b2c3d", "a1b2c3e4e5f60718293a"),
        ("clause 1(12)", "11(2)"),
        ("part 12-34-567", "123-45-67"),
        ("Call 77 81 76 84", "77 81 76 85"),
        ("version 8.45", "at 8:45"),
        ("on 24 March", "24/7, 24.03 and 1/24"),
        ("what costs 500 euros", "1\u00a0500 €"),
        ("what costs 1 500 euros", "2 bolts, 500 €"),
        ("which road is 500 km long", "12 500 km"),
        ("what costs 2 euros", "2.000 Euro"),
        ("what is step 3", "3 May: trip to the zoo"),
        ("what is step 3", "3. Mai: Ausflug"),
        ("what is item 7", "7 Uhr Frühstück"),
        ("What is plan A?", "We lost the plan. A dog barked."),
        ("What is on 12 May?", "Up to 12 may attend."),
        ("open at noon", "open until 12 am"),
        ("中午12点", "晚上12点"),
        ("on October 10", "I give it 10/10."),
        ("on December 20", "The essay got 12/20."),
        ("on 12 October", "It is sold for $12.10. Children ride free."),
        ("on 12 October", "A ride is 12.10. Children ride free."),
        ("on April 24", "The servers run Ubuntu 24.04. Updates come."),
        ("on 10 November", "Years 10/11 take the exam."),
        ("in version 10.11", "on November 10"),
        ("What is point 03.02?", "on February 3"),
        ("Is 12/20 a good grade?", "on December 20"),
        ("upgrade from 3.10 to 3.12", "at 3:10 and 3:12"),
        ("open at noon", "Tickets cost 12.00."),
        ("um 8 Uhr", "Der Eintritt kostet 8.00 Franken."),
        ("at 8:00", "It costs 8.00."),
    ],
)
def test_another_code_is_not_found(question, text):
    assert not found(question, text)


@pytest.mark.parametrize(
    ("question", "is_word"),
    [
        ("the amount of order 20451", True),
        ("the amount of order 2045", True),
        ("what happened in 2045", False),
        ("what happened in May 2045?", False),
        ("the films of the year 1984", False),
    ],
)
def test_a_number_is_looked_up_as_a_word_unless_it_is_a_year(question, is_word):
    terms = [term for code in question_codes(question) for term in code.terms]
    assert any(term.isdigit() for term in terms) is is_word


def test_a_number_in_few_texts_as_a_code_is_not_only_in_them():
    texts = {"a": "She won the 2500m race.", "b": "A hall for 2500 people.", "c": "2,500 came."}
    terms = {name: {*terms_of(text), *code_terms(text)} for name, text in texts.items()}
    [code] = question_codes("Who won the 2500?")
    assert code.terms == ("#the2500", "2500")
    assert all("2500" in own for own in terms.values())


def test_a_year_is_no_code():
    assert question_codes("2021年谁赢了？") == []
    assert [code.terms for code in question_codes("Who won in 2021?")] == [("#in2021",)]


def test_prose_has_no_codes():
    text = "The cat, e.g. the 3rd of 12, sat on 2 mats in 1984 and the 1990s; and/or well-known."
    assert code_terms(text) == []


def test_a_line_that_begins_with_a_code_says_so():
    assert "^12.3" in code_terms("Terms\n  12.3 The tenant pays.")
    assert "^12.3" in code_terms("§ 12.3 The tenant pays.")
    assert "^12.3" not in code_terms("The tenant pays, see 12.3.")


def test_identifiers_have_the_terms_of_their_words():
    assert {"open", "index"} <= set(code_terms("open_index openIndex"))


@given(st.text(alphabet="ab1.-_/:(), \nRTX年月日é", max_size=60))
@examples(200)
def test_terms_are_unique_sorted_and_marked(text):
    terms = code_terms(text)
    assert terms == sorted(set(terms))
    for code in question_codes(text):
        assert code.text in text
        assert code.terms


@pytest.mark.parametrize(("text", "form"), [("½ cup", "#1/2"), ("1¾ cups", "#3/4"), ("⅞", "#7/8")])
def test_a_fraction_of_one_character_is_one_of_digits(text, form):
    assert form in code_terms(text)
    assert form in [term for code in question_codes(text) for term in code.terms]


def test_the_text_of_a_code_is_that_of_the_question():
    assert [one.text for one in question_codes("讲座１４：３０还是15:00？")] == [
        "１４：３０",
        "15:00",
    ]
    assert [one.text for one in question_codes("Ｘ－９和ＡＢ１２３")] == ["Ｘ－９", "ＡＢ１２３"]


@pytest.mark.parametrize("label", ["Error", "Ticket", "bug", "Invoice", "Issue", "Case"])
def test_a_label_before_a_code_begins_the_line_with_it(label):
    begun = set(code_terms(f"{label} E1042: the pump stops.")) - set(
        code_terms(f"See the list of E1042 in {label}.")
    )
    assert [one for one in begun if "e1042" in one]
