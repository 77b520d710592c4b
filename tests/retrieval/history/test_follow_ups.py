"""Follow-up questions on real vectors: which entities they take from the history."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    Models,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.types import Mention
from fakes import NameExtractor

TEXTS = {
    "kolb": "The Kolb House in Dublin is a museum. An architect built it of red bricks.",
    "pell": "Orson Pell died in 1911, after a fall from a ladder.",
    "curie": "Marie Curie won the Nobel Prize in Physics. She died in 1934 in France.",
    "bach": "Johann Sebastian Bach wrote fugues and cantatas. He died in 1750 in Leipzig.",
    "tides": "The tides follow the Moon. The water rises twice a day.",
    "bread": "The baker kneads the dough, and bakes the bread for an hour.",
    "fees": "Admission to the museum of trains costs five dollars.",
    "trains": "The museum of trains opens at nine on weekdays, and at noon on Sundays.",
}

HISTORY = [("user", "Who was Orson Pell?"), ("assistant", "The architect of the Kolb House.")]


class Counting:
    """Counts the texts that the models of an index read for queries."""

    def __init__(self, inner):
        self.inner, self.texts = inner, []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def embed_query(self, text):
        self.texts.append(text)
        return self.inner.embed_query(text)

    def extract(self, texts):
        self.texts += texts
        return self.inner.extract(texts)


class NoNames:
    """An extractor that finds nothing."""

    fingerprint = "nothing"

    def extract(self, texts):
        return [[[]] for _ in texts]


@pytest.fixture(scope="module")
def rag(real_embedder, real_extractor) -> Iterator[E2GraphRAG]:
    options = {"embedder": Counting(real_embedder), "extractor": Counting(real_extractor)}
    with E2GraphRAG.open(":memory:", **grouped(options)) as opened:
        opened.add([SourceDocument(id_, text) for id_, text in TEXTS.items()])
        opened.models = options  # type: ignore[attr-defined] # for tests that count texts
        yield opened


def best(rag, question, **options):
    return rag.retrieve(question, **options).nodes[0].document_id


@pytest.mark.parametrize(
    "strategy", [HybridStrategy(), HybridStrategy(dense_weight=0), PaperStrategy()], ids=str
)
def test_a_pronoun_finds_the_names_of_earlier_turns(rag, strategy):
    result = rag.retrieve("When did he die?", strategy=strategy, history=HISTORY)
    assert result.nodes[0].document_id == "pell"
    assert "Orson Pell" in result.trace.carried.names


def test_a_vague_question_gets_the_topic_of_related_turns_only(rag):
    vague = "What are the opening hours of the museum?"
    trains = rag.retrieve(vague, history=["How much is the museum of trains?"])
    assert trains.trace.carried.turns[0].relatedness == 1
    fugues = rag.retrieve(vague, history=["Who composed fugues?"])
    assert not fugues.trace.carried.turns
    assert fugues.nodes == rag.retrieve(vague).nodes


def test_turns_are_related_by_the_calibration_of_the_model(multilingual_embedder):
    """The cosines of multilingual-e5-small lie between .75 and .9."""
    with E2GraphRAG.open(
        ":memory:", embedder=multilingual_embedder, models=Models(extractor=NoNames())
    ) as e5:
        e5.add(SourceDocument("fees", "火车博物馆的门票五元。博物馆周一闭馆。"))
        for turn, expected in (("火车博物馆在哪里？", 1), ("How do I bake bread at home?", 0)):
            carried = e5.retrieve("博物馆门票多少钱一张？", history=[turn]).trace.carried
            assert bool(carried.turns) == expected


@pytest.mark.parametrize("question", ["How much is the fee?", "How often?", "And on Sundays?"])
def test_a_question_that_leaves_its_topic_open_gets_it_from_the_history(rag, question):
    result = rag.retrieve(question, history=["Where is the museum of trains?"])
    assert result.trace.carried.turns[0].weight >= 0.5
    assert result.nodes[0].document_id in {"fees", "trains"}


def test_one_specific_word_without_a_question_mark_is_a_new_topic(rag):
    history = ["Where is the museum of trains, and how much does it cost?"]
    assert best(rag, "bread", history=history) == "bread"
    assert rag.retrieve("bread?", history=history).trace.carried.turns[0].weight >= 0.5
    assert rag.retrieve("museum", history=history).trace.carried.turns[0].weight >= 0.5


def test_a_name_that_is_also_a_word_needs_no_antecedent(open_index):
    people = {"mark": "Mark was born in Leeds. Mark paints.", "peter": "Peter was born in Hull."}
    with open_index() as people_index:
        people_index.add([SourceDocument(id_, text) for id_, text in people.items()])
        result = people_index.retrieve("Mark: where was he born?", history=["Who is Peter?"])
    assert result.nodes[0].document_id == "mark"
    assert not result.trace.carried.names


@pytest.mark.parametrize("mode", ["auto", "local", "global"])
def test_a_complete_question_ignores_the_history(rag, mode):
    question = "When did Johann Sebastian Bach die in Leipzig?"
    result = rag.retrieve(question, mode=mode, history=HISTORY)
    assert not result.trace.carried.terms
    assert result.nodes == rag.retrieve(question, mode=mode).nodes


def test_later_turns_weigh_more_and_answers_less(rag):
    history = ["Who was Marie Curie?", "A physicist.", *HISTORY]
    carried = rag.retrieve("Why is that?", history=history).trace.carried
    weights = {(turn.turns_back, turn.role): turn.weight for turn in carried.turns}
    assert weights == {(1, "assistant"): 1, (2, "user"): 1, (3, "user"): 0.7, (4, "user"): 0.49}
    assert carried.names["Orson Pell"] > carried.names["Marie Curie"] > 0
    assert carried.names["Orson Pell"] > carried.names["Kolb House"] > 0


PEOPLE = {
    "he": ("Pavel Orth", "Tarn Observatory", "influenza", "teacher", 1911),
    "she": ("Lena Munk", "Vik Theatre", "a stroke", "sailor", 1907),
    "his": ("Oskar Falk", "Lorne Library", "typhus", "clerk", 1866),
    "her": ("Greta Aune", "Osper Brewery", "a fall", "baker", 1944),
}
"""Two men and two women, what they founded, how they died, their earlier work, and years."""


@pytest.fixture(scope="module")
def founders(real_embedder, real_extractor) -> Iterator[E2GraphRAG]:
    with E2GraphRAG.open(
        ":memory:", embedder=real_embedder, models=Models(extractor=real_extractor)
    ) as opened:
        for key, (name, place, death, job, year) in PEOPLE.items():
            texts = {
                "founded": f"{name} founded the {place} in {year}.",
                "died": f"{name} died of {death} in Ostby.",
                "burned": f"The {place} burned down in {year + 66}.",
                "worked": f"Before that, {name} had worked as a {job} in Haugen.",
            }
            opened.add([SourceDocument(f"{key} {id_}", text) for id_, text in texts.items()])
        yield opened


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    ("question", "turns", "found"),
    [
        ("How did {he} die?", ("Who founded the {place}?", "{name}."), "died"),
        ("What was {his} job before?", ("Who founded the {place}?", "{name} did."), "worked"),
        ("When did it burn down?", ("Who founded the {place}?", "{name}."), "burned"),
        ("Who founded it?", ("When did the {place} burn down?", "Long ago."), "founded"),
        (
            "When did it burn down?",
            ("Who founded the {place}?", "The {place} was founded by {name}."),
            "burned",
        ),
        (
            "How did {he} die?",
            ("Tell me of the {place}.", "The {place} was founded by {name}. It was known well."),
            "died",
        ),
        (
            "When did it burn down?",
            ("What is the {place}?", "A sight.", "Who founded it?", "{name}."),
            "burned",
        ),
        (
            "What had {he} worked as?",
            ("Who founded the {place}?", "{name}.", "How did {he} die?", "In Ostby."),
            "worked",
        ),
        ("And {name}?", ("How did Ruth Lund die?", "Ruth Lund died of age."), "died"),
    ],
)
@pytest.mark.parametrize("key", PEOPLE)
def test_the_first_hit_is_about_what_a_pronoun_means(founders, key, question, turns, found):
    name, place, *_ = PEOPLE[key]
    he, his = ("he", "his") if key in {"he", "his"} else ("she", "her")
    values = {"name": name, "place": place, "he": he, "his": his}
    roles = ("user", "assistant") * 2
    history = [(role, turn.format(**values)) for role, turn in zip(roles, turns, strict=False)]
    assert best(founders, question.format(**values), history=history) == f"{key} {found}"


@pytest.mark.parametrize(
    "history",
    [
        ["How do I make tiramisu?"],
        [
            "How do I make tiramisu?",
            "Layer sponge, cream and coffee in a dish.",
            "Thanks!",
            "Sure.",
        ],
        ["How do I make tiramisu?", "Use sponge.", "Can I do that for ten guests?", "Of course."],
        ["What can I make with mascarpone?", "Tiramisu."],
    ],
)
@pytest.mark.parametrize("question", ["how long does it take?", "How much time does it take?"])
def test_how_long_it_takes_is_about_the_topic(rag, history, question):
    roles = ("user", "assistant") * 2
    turns = list(zip(roles, history, strict=False))
    assert rag.retrieve(question, history=turns).trace.carried.terms["tiramisu"] >= 0.5


def test_the_trace_says_what_was_carried_over_and_why(rag):
    trace = rag.retrieve("When did he die?", history=HISTORY).trace
    explained = trace.explain()
    assert "history: incompleteness 1.00, because the question refers back with 'he'" in explained
    assert "; 'he' means Orson Pell (user 2 back); turns: user 2 back 0.05; names:" in explained
    assert json.loads(json.dumps(trace.to_dict()))["carried"]["context"] == [HISTORY[0][1]]
    assert "history" not in rag.retrieve("When did he die?").trace.explain()


def test_models_read_each_turn_once_and_only_the_last_six(rag):
    models: Sequence[Counting] = list(rag.models.values())
    history = [("user", f"Turn {number} about Anna?") for number in range(1000)]
    for model in models:
        model.texts = []
    rag.retrieve("Where is she?", history=history)
    for model in models:
        assert len(model.texts) == len(set(model.texts)) == 7
        model.texts = []
    rag.retrieve("How is she?", history=[*history, "Where is she?"])
    assert all(model.texts == ["How is she?"] for model in models)


def test_the_question_at_the_end_of_the_history_is_not_a_turn(rag):
    question = "When did he die?"
    with_question = rag.retrieve(question, history=[*HISTORY, question])
    assert with_question.nodes == rag.retrieve(question, history=HISTORY).nodes


def test_a_filter_holds_for_what_the_history_finds(rag):
    where = {"document_id": {"$in": ["bach", "curie"]}}
    nodes = rag.retrieve("When did he die?", history=HISTORY, where=where).nodes
    assert {node.document_id for node in nodes} == {"bach", "curie"}


def test_a_token_budget_is_filled_with_what_the_history_finds(rag):
    result = rag.retrieve("When did he die?", history=HISTORY, token_budget=20)
    assert "ladder" in result.context()


def test_aretrieve_equals_retrieve(rag):
    found = asyncio.run(rag.aretrieve("When did he die?", history=HISTORY))
    assert found.nodes == rag.retrieve("When did he die?", history=HISTORY).nodes


def test_a_reranker_reads_the_context_of_the_question(rag):
    class Reader:
        def rerank(self, question, texts):
            self.question = question
            return [0.0] * len(texts)

    reader = Reader()
    rag.retrieve("When did he die?", history=HISTORY, strategy=HybridStrategy(reranker=reader))
    assert reader.question == "Who was Orson Pell?\nWhen did he die?"


def test_an_unknown_role_is_rejected(rag):
    with pytest.raises(InvalidInputError, match=r"history\[0\] has the unknown role 'robot'"):
        rag.retrieve("Why?", history=[("robot", "Because.")])


class ChineseNames(NameExtractor):
    """Finds two names in Chinese texts."""

    def extract(self, texts):
        return [
            [
                [
                    Mention(found.group(), *found.span(), "PERSON")
                    for found in re.finditer("诸葛亮|司马懿", text)
                ]
            ]
            for text in texts
        ]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("他是哪里人？", {"诸葛亮"}),
        ("他后来怎么样了？", {"诸葛亮"}),
        ("那司马懿呢？", {"诸葛亮"}),
        ("司马懿出生在哪个县？", set()),
    ],
)
def test_a_chinese_question_is_completed(question, names):
    texts = ["诸葛亮是琅琊人，住在隆中。", "司马懿是河内温县人。", "今天天气很好。"]
    with E2GraphRAG.open(
        ":memory:", embedder="hashing", models=Models(extractor=ChineseNames())
    ) as rag:
        rag.add([SourceDocument(text, text) for text in texts])
        carried = rag.retrieve(question, history=["诸葛亮是谁？"]).trace.carried
    assert set(carried.names) == names
