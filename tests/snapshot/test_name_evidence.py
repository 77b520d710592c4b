"""Which words of a question are names, by where the texts use them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.options import grouped

MEETINGS = {
    "kick-off": "Ben Hamre met Ottoline Brack in Bath.",
    "budget": "Ottoline Brack read the report, while Ben Hamre took a bath.",
    "review": "In May, Louis Vane may meet Louise Vane at the Tarn Observatory.",
    "notes": "It takes time to read. She reads a reading list, and they may have a bath in time.",
    "magazine": "Time Magazine praised the Tarn Observatory of Oslo.",
    "plan": "They will take their time. Will Sorrel will come in time, or he may not.",
    "york": "New York is far. New York University and the New York Times are there.",
}
QUESTION = "which meetings did {} attend?"


@pytest.fixture(scope="module")
def rag(real_embedder, real_extractor):
    with E2GraphRAG.open(
        ":memory:", embedder=real_embedder, models=Models(extractor=real_extractor)
    ) as rag:
        rag.add([SourceDocument(id_, text) for id_, text in MEETINGS.items()])
        yield rag


def linked(rag, question):
    return [link.entity for link in rag.retrieve(question, k=3).trace.links]


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize(
    ("name", "entity"),
    [
        ("ben hamre", "ben hamre"),
        ("ben", "ben hamre"),
        ("hamre", "ben hamre"),
        ("b. hamre", "ben hamre"),
        ("ben-hamre's guests", "ben hamre"),
        ("ottolnie brack", "ottoline brack"),
        ("the tarn-observatory", "tarn observatory"),
        ("new york", "new york"),
    ],
)
@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_names_link_in_any_case(rag, name, entity, case):
    assert linked(rag, case(QUESTION.format(name))) == [entity]


@given(st.lists(st.booleans(), min_size=14, max_size=14))
def test_any_casing_links_to_the_same_entity(rag, flips):
    cased = "".join(c.upper() if up else c for c, up in zip("ottoline brack", flips, strict=True))
    assert "ottoline brack" in linked(rag, f"what did {cased} read?")


@pytest.mark.parametrize(
    "question",
    [
        "what time is it?",
        "may they take a bath?",
        "what will happen in time?",
        "who is reading the report?",
        "WHO WILL READ IT IN TIME?",
    ],
)
def test_common_words_link_to_no_name(rag, question):
    assert linked(rag, question) == []


def test_a_tie_is_shown_and_not_broken(rag):
    trace = rag.retrieve("Where did Louisa Vane go?", k=3).trace
    assert trace.links == ()
    assert trace.ties == {"Louisa Vane": ("louis vane", "louise vane")}
    assert "no entity: Louisa Vane (louis vane or louise vane?)" in trace.explain()
    surname = rag.retrieve("Where did Vane go?", k=3).trace
    assert [(one.entity, one.others) for one in surname.links] == [("louis vane", ("louise vane",))]
    assert "louis vane (alias of 'Vane', or louise vane)" in surname.explain()


def test_a_mention_is_shown_as_the_question_has_it(rag):
    [link] = rag.retrieve("WHO MET OTTOLINE BRACK?", k=3).trace.links
    assert link.mention == "OTTOLINE BRACK"


def test_a_name_outside_of_the_scope_neither_links_nor_shows(
    tmp_path, real_embedder, real_extractor
):
    options = {"embedder": real_embedder, "extractor": real_extractor}
    with E2GraphRAG.open(tmp_path / "a.e2g", **grouped(options)) as rag:
        documents = [
            SourceDocument(id_, text, metadata={"team": "b" if id_ == "review" else "a"})
            for id_, text in MEETINGS.items()
        ]
        rag.add(documents)
        reader = rag.scoped({"team": "a"})
        for question in ("where is louis vane?", "Where is Louisa Vane?", "what of vane?"):
            trace = reader.retrieve(question, k=3).trace
            assert (trace.links, trace.ties) == ((), {})
            assert "louise" not in trace.explain()
        assert linked(reader, "where is ben?") == ["ben hamre"]
