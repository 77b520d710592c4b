"""An update equals a rebuild byte by byte and costs only the summaries that it changes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.store.rows import checksum
from fakes import CountingLLM, NameExtractor
from strategies import examples

CONTENT = {"chunking": "content", "grouping": "content", "chunk_overlap": None}
FIXED = {"chunking": "fixed", "grouping": "fixed", "chunk_overlap": 0}
CHUNKINGS = [CONTENT, FIXED, CONTENT | {"grouping": "fixed"}, FIXED | {"grouping": "content"}]
NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hal")


REFRAIN = "And so it went on and on, and on and on."
"""Almost a chunk long, so that some chunks repeat."""


def make_sentences(seed, count=60):
    """Return sentences of four to eight words; every sixth is the refrain."""
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
        "llm_id": "digests",
        "chunk_size": 12,
        "group_size": 3,
    }
    return E2GraphRAG.open(":memory:", **grouped(defaults | options))


def rebuilt_export(sentences, **options):
    """Return the export of an index built from the sentences at once."""
    with index(CountingLLM(), **options) as rag:
        rag.add(document(sentences))
        return list(rag.export())


def summaries(exported):
    nodes = [json.loads(line) for line in exported if '"node":' in line]
    return {node["node"]: node for node in nodes if node["level"]}


@st.composite
def edits(draw):
    """Draw an insertion, deletion or replacement of a sentence at a position from either end."""
    kind = draw(st.sampled_from(["insert", "delete", "replace"]))
    return kind, draw(st.integers(-60, 59)), draw(st.integers(0, 9))


def edited(sentences, edit):
    kind, position, number = edit
    position %= len(sentences) + (kind == "insert")
    new = [] if kind == "delete" else [f"Zoe wrote {number} letters to Yan."]
    return [*sentences[:position], *new, *sentences[position + (kind != "insert") :]]


@pytest.mark.slow
@examples(12)
@given(
    seed=st.integers(0, 99),
    changes=st.lists(edits(), min_size=1, max_size=2),
    chunking=st.sampled_from(CHUNKINGS),
)
def test_update_equals_rebuild_and_calls_the_llm_only_for_new_summaries(seed, changes, chunking):
    sentences, llm = make_sentences(seed), CountingLLM()
    with index(llm, **chunking) as rag:
        rag.add(document(sentences))
        for change in changes:
            before, calls = list(rag.export()), llm.calls
            sentences = edited(sentences, change)
            report = rag.update(document(sentences))
            after = list(rag.export())
            new = summaries(after).keys() - summaries(before).keys()
            assert llm.calls - calls == report.llm_calls <= len(new)
            assert rag.verify().problems == ()
            assert after == rebuilt_export(sentences, **chunking)


@pytest.mark.slow
@examples(8)
@given(
    st.integers(0, 99), st.integers(1, 20), st.sampled_from([FIXED, FIXED | {"chunk_overlap": 4}])
)
def test_appended_text_regenerates_only_the_right_edge_of_a_fixed_tree(seed, count, chunking):
    sentences = make_sentences(seed, 60 + count)
    before, after = (
        rebuilt_export(sentences[:60], **chunking),
        rebuilt_export(sentences, **chunking),
    )
    old, new = summaries(before), summaries(after)
    regenerated = [node for id_, node in new.items() if id_ not in old]
    last_chunk = max(
        node["span"][0] for line in before if (node := json.loads(line)).get("level") == 0
    )
    top = max(node["level"] for node in old.values())
    for level in range(1, top + 1):
        spans = [node["span"] for node in regenerated if node["level"] == level]
        # All cover new text; at most one also covers the previously last chunk.
        assert all(end > last_chunk for _, end in spans)
        assert sum(start <= last_chunk for start, _ in spans) <= 1
    with index(llm := CountingLLM(), **chunking) as rag:
        rag.add(document(sentences[:60]))
        initial = llm.calls
        rag.update(document(sentences))
        assert llm.calls - initial <= len(regenerated)
        assert list(rag.export()) == after


@pytest.mark.slow
def test_edit_costs_few_calls_with_content_grouping_and_many_with_fixed_groups():
    costs = {}
    for chunking in ("content", "fixed"):
        sentences, llm = make_sentences(0, 200), CountingLLM()
        with index(llm, **(CONTENT if chunking == "content" else FIXED)) as rag:
            rag.add(document(sentences))
            build_calls, costs[chunking] = llm.calls, []
            for at in range(10, 200, 45):
                sentences.insert(at, f"Zoe came to see Yan on day {at}.")
                costs[chunking].append(rag.update(document(sentences)).llm_calls)
        assert build_calls > 60
    assert max(costs["content"]) <= 12
    assert np.mean(costs["content"]) < build_calls / 10
    assert max(costs["fixed"]) > build_calls / 4


def test_reverting_an_edit_restores_the_index(open_index):
    sentences = make_sentences(1)
    rag = open_index(summarizer=CountingLLM(), **CONTENT)
    rag.add(document(sentences))
    before = list(rag.export())
    rag.update(document([*sentences[:30], "Zoe came by.", *sentences[30:]]))
    assert list(rag.export()) != before
    rag.update(document(sentences))
    assert list(rag.export()) == before


def test_edit_leaves_other_documents_unchanged(open_index):
    rag = open_index(summarizer=(llm := CountingLLM()), **CONTENT)
    text = " ".join(make_sentences(2, 120))
    other = SourceDocument("other", " ".join(make_sentences(3, 120)))
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


def test_reopened_file_keeps_content_chunking_without_repeating_the_setting(tmp_path, open_index):
    path, sentences = tmp_path / "i.e2g", make_sentences(4)
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


@pytest.mark.parametrize(("written", "requested"), [(CONTENT, "fixed"), (FIXED, "content")])
@pytest.mark.parametrize("name", ["chunking", "grouping"])
def test_file_cannot_be_opened_with_different_chunking_or_grouping(
    tmp_path, open_index, written, requested, name
):
    path = tmp_path / "i.e2g"
    with open_index(path, **written) as rag:
        rag.add(document(make_sentences(5, 9)))
    with pytest.raises(SettingsMismatchError, match=f"{name}={written[name]}, not '{requested}'"):
        open_index(path, **({"chunk_overlap": None, name: requested}))


@pytest.mark.parametrize("wrong", [CONTENT | {"chunk_overlap": 4}, CONTENT | {"grouping": "tree"}])
def test_conflicting_settings_are_rejected_before_a_file_is_created(tmp_path, open_index, wrong):
    with pytest.raises(InvalidInputError, match=r"chunk_overlap=4|grouping='tree'"):
        open_index(tmp_path / "i.e2g", **wrong)
    assert not list(tmp_path.iterdir())


def rewrite_recorded_settings(path, change):
    """Change the settings that a file records."""
    with closing(sqlite3.connect(path)) as db:
        [(value,)] = db.execute("SELECT value FROM manifest WHERE key = 'made_with'")
        value = json.dumps(change(json.loads(value)))
        db.execute(
            "UPDATE manifest SET value = ?, checksum = ? WHERE key = 'made_with'",
            (value, checksum("made_with", value)),
        )
        db.commit()


def test_verify_reports_trees_that_do_not_match_the_files_grouping(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with open_index(path, **CONTENT) as rag:
        rag.add(document(make_sentences(8)))
        assert rag.verify().ok
    rewrite_recorded_settings(path, lambda settings: settings | {"grouping": "fixed"})
    problems = open_index(path, chunk_overlap=None).verify().problems
    assert any("is in the wrong place of the tree" in problem for problem in problems)


# Real vectors


@pytest.mark.slow
def test_edited_document_ranks_like_a_rebuilt_one_on_real_vectors(real_embedder, real_extractor):
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
        E2GraphRAG.open(":memory:", **grouped(options)) as rag,
        E2GraphRAG.open(":memory:", **grouped(options)) as rebuilt,
    ):
        rag.add(document(old))
        rag.update(document(new))
        rebuilt.add(document(new))
        assert "telescope" in rag.retrieve(questions[0], k=1).nodes[0].text
        for question in questions:
            found, expected = (one.retrieve(question, k=6) for one in (rag, rebuilt))
            assert found.route == expected.route
            assert [n.node_id for n in found.nodes] == [n.node_id for n in expected.nodes]
            assert [n.text for n in found.nodes] == [n.text for n in expected.nodes]
            assert [n.score for n in found.nodes] == pytest.approx(
                [n.score for n in expected.nodes], abs=1e-5
            )
