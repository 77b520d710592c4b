"""An update is worth a rebuild, byte by byte, and costs no more than the summaries it changes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.store.schema import checksum
from fakes import CountingLLM, NameExtractor

CONTENT = {"chunking": "content", "grouping": "content", "chunk_overlap": None}
FIXED = {"chunking": "fixed", "grouping": "fixed", "chunk_overlap": 0}
WAYS = [CONTENT, FIXED, CONTENT | {"grouping": "fixed"}, FIXED | {"grouping": "content"}]
NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hal")


REFRAIN = "And so it went on and on, and on and on."
"""Nearly a chunk: some chunks are there many times."""


def sentences_of(seed, count=60):
    """Return sentences of four to eight words and, every sixth, a refrain."""
    source = np.random.default_rng(seed)
    return [
        f"{NAMES[source.integers(8)]} met {NAMES[source.integers(8)]} "
        f"{'again and ' * source.integers(3)}{source.integers(2 * count)} times."
        if number % 6
        else REFRAIN
        for number in range(count)
    ]


def document(sentences):
    return SourceDocument("story", " ".join(sentences), title="A Story")


def index(llm, **options):
    defaults = {
        "embedder": HashingEmbedder(16),
        "extractor": NameExtractor(),
        "summarizer": llm,
        "summarizer_id": "digests",
        "chunk_size": 12,
        "group_size": 3,
    }
    return E2GraphRAG.open(":memory:", **(defaults | options))


def built(sentences, **options):
    """Return the export of an index that is built of the sentences at once."""
    with index(CountingLLM(), **options) as rag:
        rag.add(document(sentences))
        return list(rag.export())


def summaries(exported):
    nodes = [json.loads(line) for line in exported if '"node":' in line]
    return {node["node"]: node for node in nodes if node["level"]}


@st.composite
def edits(draw):
    """A sentence put in, taken out or replaced; its place counts from either end."""
    kind = draw(st.sampled_from(["insert", "delete", "replace"]))
    return kind, draw(st.integers(-60, 59)), draw(st.integers(0, 9))


def edited(sentences, edit):
    kind, at, number = edit
    at %= len(sentences) + (kind == "insert")
    new = [] if kind == "delete" else [f"Zoe wrote {number} letters to Yan."]
    return [*sentences[:at], *new, *sentences[at + (kind != "insert") :]]


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 99),
    changes=st.lists(edits(), min_size=1, max_size=2),
    way=st.sampled_from(WAYS),
)
def test_updates_leave_what_a_rebuild_gives_for_no_more_calls_than_new_summaries(
    seed, changes, way
):
    sentences, llm = sentences_of(seed), CountingLLM()
    with index(llm, **way) as rag:
        rag.add(document(sentences))
        for change in changes:
            before, calls = list(rag.export()), llm.calls
            sentences = edited(sentences, change)
            report = rag.update(document(sentences))
            after = list(rag.export())
            new = summaries(after).keys() - summaries(before).keys()
            assert llm.calls - calls == report.llm_calls <= len(new)
            assert rag.verify().problems == ()
            assert after == built(sentences, **way)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 99), st.integers(1, 20), st.sampled_from([FIXED, FIXED | {"chunk_overlap": 4}])
)
def test_text_at_the_end_makes_only_the_right_edge_of_a_fixed_tree_anew(seed, count, way):
    sentences = sentences_of(seed, 60 + count)
    before, after = built(sentences[:60], **way), built(sentences, **way)
    old, new = summaries(before), summaries(after)
    made = [node for id_, node in new.items() if id_ not in old]
    last_chunk = max(
        node["span"][0] for line in before if (node := json.loads(line)).get("level") == 0
    )
    top = max(node["level"] for node in old.values())
    for level in range(1, top + 1):
        here = [node["span"] for node in made if node["level"] == level]
        # All of them hold what is new, and one of them holds what was last.
        assert all(end > last_chunk for _, end in here)
        assert sum(start <= last_chunk for start, _ in here) <= 1
    with index(llm := CountingLLM(), **way) as rag:
        rag.add(document(sentences[:60]))
        first = llm.calls
        rag.update(document(sentences))
        assert llm.calls - first <= len(made)
        assert list(rag.export()) == after


def test_an_edit_of_a_long_text_costs_a_few_calls_by_content_and_many_in_fixed_groups():
    costs = {}
    for way in ("content", "fixed"):
        sentences, llm = sentences_of(0, 200), CountingLLM()
        with index(llm, **(CONTENT if way == "content" else FIXED)) as rag:
            rag.add(document(sentences))
            whole, costs[way] = llm.calls, []
            for at in range(10, 200, 45):
                sentences.insert(at, f"Zoe came to see Yan on day {at}.")
                costs[way].append(rag.update(document(sentences)).llm_calls)
        assert whole > 60
    assert max(costs["content"]) <= 12
    assert np.mean(costs["content"]) < whole / 10
    assert max(costs["fixed"]) > whole / 4


def test_an_edit_back_and_forth_ends_where_it_began(open_index):
    sentences = sentences_of(1)
    rag = open_index(summarizer=CountingLLM(), **CONTENT)
    rag.add(document(sentences))
    before = list(rag.export())
    rag.update(document([*sentences[:30], "Zoe came by.", *sentences[30:]]))
    assert list(rag.export()) != before
    rag.update(document(sentences))
    assert list(rag.export()) == before


def test_an_edit_of_one_document_makes_nothing_of_another_anew(open_index):
    rag = open_index(summarizer=(llm := CountingLLM()), **CONTENT)
    text = " ".join(sentences_of(2, 120))
    other = SourceDocument("other", " ".join(sentences_of(3, 120)))
    rag.add([SourceDocument("one", text), other])
    nodes = [line for line in rag.export() if '"document":"other"' in line]
    calls = llm.calls
    rag.update(
        SourceDocument("one", text[: len(text) // 2] + " Zoe came by. " + text[len(text) // 2 :])
    )
    assert llm.calls - calls < calls / 8
    assert nodes
    assert [line for line in rag.export() if '"document":"other"' in line] == nodes


# The settings in the file


def test_a_file_is_cut_by_content_again_when_it_is_opened_without_saying_so(tmp_path, open_index):
    path, sentences = tmp_path / "i.e2g", sentences_of(4)
    with open_index(path, summarizer=CountingLLM(), **CONTENT) as rag:
        rag.add(document(sentences))
        assert rag.settings.chunking == rag.settings.grouping == "content"
    new = [*sentences[:20], "Zoe came by.", *sentences[20:]]
    again = open_index(
        path, summarizer=CountingLLM(), chunk_size=None, chunk_overlap=None, group_size=None
    )
    assert again.stats().settings["chunking"] == again.stats().settings["grouping"] == "content"
    again.update(document(new))
    assert again.verify().ok
    rebuilt = open_index(summarizer=CountingLLM(), **CONTENT)
    rebuilt.add(document(new))
    assert list(again.export()) == list(rebuilt.export())


@pytest.mark.parametrize(("made", "asked"), [(CONTENT, "fixed"), (FIXED, "content")])
@pytest.mark.parametrize("name", ["chunking", "grouping"])
def test_a_file_is_not_opened_to_be_cut_otherwise(tmp_path, open_index, made, asked, name):
    path = tmp_path / "i.e2g"
    with open_index(path, **made) as rag:
        rag.add(document(sentences_of(5, 9)))
    with pytest.raises(SettingsMismatchError, match=f"{name}={made[name]}, not '{asked}'"):
        open_index(path, **({"chunk_overlap": None, name: asked}))


@pytest.mark.parametrize("wrong", [CONTENT | {"chunk_overlap": 4}, CONTENT | {"grouping": "tree"}])
def test_settings_that_do_not_fit_are_refused_before_there_is_a_file(tmp_path, open_index, wrong):
    with pytest.raises(InvalidInputError, match=r"chunk_overlap=4|grouping='tree'"):
        open_index(tmp_path / "i.e2g", **wrong)
    assert not list(tmp_path.iterdir())


def rewrite_manifest(path, change):
    """Change what a file says it was made with."""
    with closing(sqlite3.connect(path)) as db:
        [(value,)] = db.execute("SELECT value FROM manifest WHERE key = 'made_with'")
        value = json.dumps(change(json.loads(value)))
        db.execute(
            "UPDATE manifest SET value = ?, checksum = ? WHERE key = 'made_with'",
            (value, checksum("made_with", value)),
        )
        db.commit()


def test_a_file_from_before_there_was_a_choice_goes_on_fixed(tmp_path, open_index):
    path, first, second = tmp_path / "i.e2g", sentences_of(6), sentences_of(7)
    fixed = {"chunk_overlap": 4, "summarizer": CountingLLM(), "summarizer_id": "digests"}
    with open_index(path, **fixed) as rag:
        rag.add(document(first))
    rewrite_manifest(
        path, lambda made: {k: v for k, v in made.items() if k not in ("chunking", "grouping")}
    )
    with pytest.raises(SettingsMismatchError, match="chunking=fixed, not 'content'"):
        open_index(path, chunk_overlap=None, chunking="content")
    with open_index(path, **fixed) as rag:
        assert rag.settings.chunking == rag.settings.grouping == "fixed"
        assert rag.verify().ok
        rag.add(SourceDocument("second", " ".join(second)))
        rag.update(document(first[5:]))
        assert rag.verify().ok
        found = list(rag.export())
    rebuilt = open_index(**fixed)
    rebuilt.add([document(first[5:]), SourceDocument("second", " ".join(second))])
    assert found == list(rebuilt.export())


def test_verify_notices_trees_that_are_grouped_otherwise_than_the_file_says(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path, **CONTENT) as rag:
        rag.add(document(sentences_of(8)))
        assert rag.verify().ok
    rewrite_manifest(path, lambda made: made | {"grouping": "fixed"})
    problems = open_index(path, chunk_overlap=None).verify().problems
    assert any("is not where its chunks put it" in problem for problem in problems)


# Real vectors


def test_an_edited_document_answers_like_a_rebuilt_one_on_real_vectors(
    real_embedder, real_extractor
):
    about = ("the violin", "a photograph", "the harbour at night", "three eggs", "whales", "taxes")
    people = ("Irene Adler", "Doctor Watson", "Mary Morstan", "Sherlock Holmes")
    old = [
        f"On day {day} {people[day % 4]} spoke to {people[day % 3]} about {about[day % 6]}."
        for day in range(20)
    ]
    new = [*old[:10], "Mycroft Hudson sold a telescope to Irene Adler.", *old[11:-4]]
    options = {"embedder": real_embedder, "extractor": real_extractor, "summarizer": CountingLLM()}
    options |= {"chunk_size": 40, "group_size": 3, "chunking": "content", "grouping": "content"}
    questions = (
        "Who sold a telescope?",
        "What did Irene Adler say to Doctor Watson about whales?",
        "Which animals were spoken of?",
    )
    with (
        E2GraphRAG.open(":memory:", **options) as rag,
        E2GraphRAG.open(":memory:", **options) as anew,
    ):
        rag.add(document(old))
        rag.update(document(new))
        anew.add(document(new))
        assert "telescope" in rag.retrieve(questions[0], k=1).nodes[0].text
        for question in questions:
            found, expected = (one.retrieve(question, k=6) for one in (rag, anew))
            assert found.route == expected.route
            assert [n.node_id for n in found.nodes] == [n.node_id for n in expected.nodes]
            assert [n.text for n in found.nodes] == [n.text for n in expected.nodes]
            assert [n.score for n in found.nodes] == pytest.approx(
                [n.score for n in expected.nodes], abs=1e-5
            )
