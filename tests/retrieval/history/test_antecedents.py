"""What a pronoun means: the name that fits it in the last answer, or in an earlier turn."""

from __future__ import annotations

import time

import pytest

from e2graphrag_integrations import ChineseEntityExtractor
from e2graphrag_integrations.retrieval.history.antecedents import antecedents_of
from e2graphrag_integrations.retrieval.history.pronouns import pronouns_of
from e2graphrag_integrations.retrieval.history.turns import Turn


def meant(extractor, question, *texts, last="assistant"):
    """Return the names that the pronouns of a question mean after turns, the oldest first."""

    def mentions(text):
        [sentences] = extractor.extract([text])
        return [mention for sentence in sentences for mention in sentence]

    roles = ("assistant", "user") if last == "assistant" else ("user", "assistant")
    turns = [
        (Turn(roles[number % 2], text), mentions(text))
        for number, text in enumerate(reversed(texts))
    ]
    pronouns = list(pronouns_of(question, mentions(question)))
    return [one.name for one, _ in antecedents_of(pronouns, turns, lambda _: "name")]


@pytest.mark.parametrize(
    ("question", "texts", "names"),
    [
        # the answer is a name
        ("How did he die?", ("Who founded the Tarn Observatory?", "Pavel Orth."), ["Pavel Orth"]),
        ("What was her job?", ("Who runs the Elling Circus?", "Maja Holt does."), ["Maja Holt"]),
        (
            "Is it big?",
            ("Where did Pavel Orth work?", "At the Tarn Observatory."),
            ["Tarn Observatory"],
        ),
        ("What can I see there?", ("Where was Lena Munk born?", "In Haugen."), ["Haugen"]),
        ("Who else lived there?", ("Where was Lena Munk born?", "In Kells, Norway."), ["Kells"]),
        # the answer names a person and a thing
        (
            "When did it burn down?",
            ("Who founded it?", "The Vik Theatre was founded by Lena Munk."),
            ["Vik Theatre"],
        ),
        (
            "How did she die?",
            ("Who founded it?", "The Vik Theatre was founded by Lena Munk."),
            ["Lena Munk"],
        ),
        (
            "Did she sell it?",
            ("Who founded it?", "The Vik Theatre was founded by Lena Munk."),
            ["Lena Munk", "Vik Theatre"],
        ),
        (
            "How did she die?",
            ("Who founded the Vik?", "The Vik was founded by Lena Munk."),
            ["Lena Munk"],
        ),
        # the kinds of names tell
        (
            "When did he die?",
            ("Who was Orson Pell?", "The architect of the Kolb House."),
            ["Orson Pell"],
        ),
        ("When did it close?", ("Where is the Vik Theatre?", "In Kells."), ["Vik Theatre"]),
        (
            "Where does she live now?",
            ("Who is it?", "Bram Dahl and his sister Greta Aune."),
            ["Greta Aune"],
        ),
        # subjects, the latest first
        ("When did he die?", ("Who was it?", "Pavel Orth built it for Emil Oxen."), ["Pavel Orth"]),
        (
            "When did he die?",
            ("Who was it?", "Pavel Orth built it. Emil Oxen paid for it."),
            ["Emil Oxen"],
        ),
        # earlier turns
        (
            "Where was he born?",
            ("Who was Orson Pell?", "An architect.", "Thank you!", "You are welcome."),
            ["Orson Pell"],
        ),
        (
            "When did it burn down?",
            ("Tell me about the Vik Theatre.", "It is in Kells.", "Who founded it?", "Lena Munk."),
            ["Vik Theatre"],
        ),
        (
            "Where did he live?",
            ("Who founded it?", "Pavel Orth.", "How did he die?", "Of influenza."),
            ["Pavel Orth"],
        ),
        # several
        (
            "How did they die?",
            ("Who found it?", "Marie Curie and Pierre Curie found it."),
            ["Marie Curie", "Pierre Curie"],
        ),
        (
            "When did they split up?",
            ("Who sang it?", "It was sung by the Beatles in London."),
            ["Beatles"],
        ),
        ("Who won that year?", ("When did it open?", "In 1911."), ["1911"]),
        ("Who ruled the country then?", ("When did it open?", "It opened in 1911."), ["1911"]),
        # nouns
        (
            "When was the company founded?",
            ("Where does she work?", "She works for Acme Corporation in Ostby."),
            ["Acme Corporation"],
        ),
        (
            "How large is the city?",
            ("Where does she work?", "She works for Acme Corporation in Ostby."),
            ["Ostby"],
        ),
        (
            "What did the man do?",
            ("Who was it?", "Pavel Orth, of the Tarn Observatory."),
            ["Pavel Orth"],
        ),
        # nothing fits
        ("How did he die?", ("Where is it?", "The Vik Theatre is in Kells."), []),
        ("If I borrow money, is it taxed?", ("Who pays?", "Acme Corporation."), []),
        ("Is it possible to visit the museum?", ("Who pays?", "Acme Corporation."), []),
    ],
)
def test_a_pronoun_means_the_name_that_fits_it(real_extractor, question, texts, names):
    assert meant(real_extractor, question, *texts) == names


@pytest.mark.parametrize(
    ("question", "texts", "names"),
    [
        ("他是怎么死的？", ("谁创立了北京大学？", "孙家鼐。"), ["孙家鼐"]),
        ("他是怎么死的？", ("谁创立了南山剧院？", "南山剧院由王小波创立。"), ["王小波"]),
        ("她的丈夫是谁？", ("谁写了这首词？", "李清照。"), ["李清照"]),
        ("那里有多少人？", ("李清照住在哪里？", "她住在青州。"), ["青州"]),
        ("它是哪一年成立的？", ("王小波在哪里读书？", "王小波毕业于北京大学。"), ["北京大学"]),
        (
            "他们什么时候结婚的？",
            ("谁住在青州？", "李清照和赵明诚住在青州。"),
            ["李清照", "赵明诚"],
        ),
        ("那一年还发生了什么？", ("学校哪年成立？", "1898年成立。"), ["1898年"]),
    ],
)
def test_a_chinese_pronoun_means_the_name_that_fits_it(question, texts, names):
    assert meant(ChineseEntityExtractor(), question, *texts) == names


@pytest.mark.slow
def test_long_turns_and_questions_are_read_in_little_time(real_extractor):
    question = "Did he, who was there then, know it if the city " * 600
    turn = "Anna Holm and Bo Dahl met in Kells. " * 110
    started = time.perf_counter()
    assert meant(real_extractor, question, turn, turn)
    assert time.perf_counter() - started < 10
