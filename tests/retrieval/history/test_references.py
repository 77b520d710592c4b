"""By which words a question refers to earlier turns. The bundled pipeline finds its nouns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2graphrag_integrations.retrieval.history.references import back_reference, open_reference
from e2graphrag_integrations.types import Mention

QUESTIONS = Path(__file__).parents[2] / "data" / "follow_ups.jsonl"


@pytest.fixture(scope="module")
def reference(real_extractor):
    """Return a function that returns the words that refer back or leave the topic open."""

    def find(question):
        [sentences] = real_extractor.extract([question])
        mentions = [mention for sentence in sentences for mention in sentence]
        return back_reference(question, mentions) or open_reference(question, mentions)

    return find


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("When did he die?", "he"),
        ("That was when?", "that"),
        ("Why is that?", "is that"),
        ("What about exemptions?", "what about"),
        ("What is included in the free one?", "free one"),
        ("I meant the other plan.", "i meant"),
        ("And in Texas?", "and"),
        ("What if I miss a payment?", "what if"),
        ("Can it be changed?", "it"),
        ("Does a price drop afterwards?", "afterwards"),
        ("Explain more", "explain"),
        ("Give me an example", "an example"),
        ("How often?", "how often"),
        ("How come?", "how come"),
        ("Birth year?", "birth year"),
        ("price", "price"),
        ("What comes next?", "comes next"),
        ("It is gray. What now?", "what now"),
        ("Which is cheaper?", "which is cheaper"),
        ("Any downsides?", "any"),
        ("Can I have the fees waived?", "the fees"),
        ("What are the typical fees?", "the typical fees"),
        ("Do Texans pay the fee?", ""),  # after a name
        ("What is the wash sale rule?", ""),
        ("What is the population of Mongolia?", ""),
        ("Who was the first president?", ""),
        ("What is the eye doctor called Ann?", ""),
        ("Is there life on the Moon?", ""),
        ("Who made a film that was shot at night?", ""),
        ("What singer breeds cattle known for their quality?", ""),
        ("Is it possible to buy a share?", ""),
        ("What is a service mesh such as Istio?", ""),
        ("Which novels did Isaac Asimov write, and why?", ""),
    ],
)
def test_words_that_refer_to_earlier_turns(reference, question, words):
    assert reference(question) == words


def test_most_follow_ups_are_recognized_and_complete_questions_are_not(reference):
    """The questions were written for this test, as people ask about services, money and clinics."""
    found = {"follow_up": [], "complete": []}
    for row in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines()):
        found[row["label"]].append(bool(reference(row["question"])))
    assert len(found["follow_up"]) + len(found["complete"]) > 100
    assert sum(found["follow_up"]) / len(found["follow_up"]) > 0.65
    assert sum(found["complete"]) == 0


@pytest.mark.parametrize(
    ("question", "names", "words"),
    [
        ("他是哪里人？", (), "他"),
        ("曹操為什麼恨他？", ("曹操",), ""),  # after a name
        ("那司马懿呢？", ("司马懿",), "那"),
        ("司马懿呢？", ("司马懿",), "司马懿呢"),
        ("刘备后来呢？", ("刘备",), "刘备后来呢"),
        ("后来呢？", (), "后来"),
        ("是为什么呢？", (), "是为什么呢"),
        ("該城在哪裡？", (), "該"),
        ("应该怎么办理？", (), ""),
        ("《他》是谁写的？", (), ""),
        ("价格？", (), "价格"),
        ("谁写的？", (), ""),
        ("曹操？", ("曹操",), ""),
        ("Gebühren?", (), "gebühren"),
        ("Where is GDP 这个词 used?", (), "这"),
    ],
)
def test_chinese_words_that_refer_to_earlier_turns(question, names, words):
    starts = [(name, question.index(name)) for name in names]
    mentions = [Mention(name, start, start + len(name), "PERSON") for name, start in starts]
    assert (back_reference(question, mentions) or open_reference(question, mentions)) == words


def test_most_chinese_follow_ups_are_recognized_and_complete_questions_are_not():
    """The questions were written for this test. Follow-ups without such words have no topic."""
    found = {"follow_up": [], "complete": []}
    path = QUESTIONS.with_name("follow_ups_zh.jsonl")
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        question = row["question"]
        found[row["label"]].append(
            bool(back_reference(question, ()) or open_reference(question, ()))
        )
    assert len(found["follow_up"]) + len(found["complete"]) > 80
    assert sum(found["follow_up"]) / len(found["follow_up"]) > 0.8
    assert sum(found["complete"]) == 0


def test_long_questions_are_read_in_linear_time(reference):
    for part in ("!", "the ", "a-", "any. ", "what, ", "more ", "那", "呢", "是", "《"):
        question = part * (32_000 // len(part))
        back_reference(question, ())
        open_reference(question, ())
