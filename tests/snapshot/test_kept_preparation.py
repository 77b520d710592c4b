"""What questions compute of a large snapshot is kept on disk, and gives the same answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.entities.matching.aliases import NameIndexes
from e2graphrag_integrations.graph.subjects import SubjectChoice, Subjects
from e2graphrag_integrations.graph.titles import Section
from e2graphrag_integrations.snapshot import files as snapshot_files
from e2graphrag_integrations.snapshot import kept_preparation
from e2graphrag_integrations.snapshot.array_files import load_arrays, save_arrays
from e2graphrag_integrations.snapshot.snapshot import Preparation, Snapshot
from e2graphrag_integrations.snapshot.subset import with_edits
from fakes import damage_file

PARTS = ("keys", "name_words", "ranks", "shares", "subjects")

DOCUMENTS = [
    SourceDocument("a", "Anna Arndt met Bert Brecht in Oslo.", title="Anna Arndt"),
    SourceDocument(
        "b",
        "# Zermatt\nCleo Clark saw the harbour.\n\n# Emil Ende\nDora Dunn met Anna Arndt.",
        title="Nowhere Land",
    ),
    SourceDocument("c", "Bert Brecht wrote to Dora Dunn at night."),
]


@pytest.fixture
def path(tmp_path, open_index, monkeypatch):
    """A closed index that keeps everything, after a question with a misspelled name."""
    monkeypatch.setattr(snapshot_files, "_MIN_KEPT", 0)
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(DOCUMENTS)
        use(snapshot_of(rag))
    return path


def snapshot_of(rag):
    return rag._session.snapshot()


def use(snapshot):
    """Return all that is kept of a snapshot, as plain values."""
    subjects, ranks, aliases = (
        snapshot.subjects,
        snapshot.personalized_pagerank,
        snapshot.aliases,
    )
    keys = [
        (one.packed.tolist(), one.bits)
        for one in (getattr(aliases.index, name) for name in ("names", "aliases", "parts", "words"))
    ]
    return {
        "names": list(subjects.names),
        "rows": [subjects.index[name] for name in subjects.names],
        "entities": subjects.entities.tolist(),
        "documents": subjects.documents_of_entities.tolist(),
        "sections": (subjects.section_entities.tolist(), subjects.section_chunks.tolist()),
        "choice": vars(subjects.choice),
        "ranks": [one.toarray().tolist() for one in (ranks.chunk_entities, ranks.entity_chunks)],
        "sums": [one.tolist() for one in (*ranks.sums, ranks.return_probability)],
        "shares": snapshot.shares_named.tolist(),
        "keys": keys,
        "similar": [aliases.words.one_typo_from(word) for word in ("brechd", "clarc", "zebra")],
    }


def folder_of(path):
    [folder] = Path(f"{path}.snapshot").iterdir()
    return folder


def answers(rag):
    questions = ("Whom did Anna Arndt meet?", "Who is Brechd?", "What is Nowhere Land?")
    return [rag.retrieve(question, k=3).nodes for question in questions]


@pytest.fixture
def computed(monkeypatch):
    """The names of what is computed instead of loaded."""
    names = []

    def record(owner, method, name):
        real = getattr(owner, method)

        def recording(*arguments):
            names.append(name)
            return real(*arguments)

        monkeypatch.setattr(owner, method, recording)

    record(Snapshot, "choose_subjects", "subjects")
    record(Snapshot, "prepare_pagerank", "ranks")
    record(Snapshot, "count_named", "shares")
    record(NameIndexes, "by_letters", "keys")
    record(NameIndexes, "words", "name_words")
    return names


def test_another_process_loads_what_the_first_question_computed(
    path, open_index, computed, monkeypatch
):
    with open_index(path) as rag:
        loaded, found = use(snapshot_of(rag)), answers(rag)
    assert computed == []
    monkeypatch.setattr(snapshot_files, "_MIN_KEPT", 10_000)
    with open_index(path) as rag:
        assert use(snapshot_of(rag)) == loaded
        assert answers(rag) == found
    assert sorted(computed) == [*PARTS]


def test_a_small_snapshot_keeps_nothing(tmp_path, open_index):
    with open_index(tmp_path / "i.e2g") as rag:
        rag.add(DOCUMENTS)
        use(snapshot_of(rag))
    assert not {one.name for one in folder_of(tmp_path / "i.e2g").iterdir()} & {*PARTS}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_damaged_parts_are_computed_again(path, open_index, computed, part, damage):
    expected = use(snapshot_of(open_index(path)))
    damage_file(folder_of(path) / part / "meta.json", damage)
    assert use(snapshot_of(open_index(path))) == expected
    assert computed == [part]
    assert use(snapshot_of(open_index(path))) == expected
    assert computed == [part]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_other_rules_are_computed_again(path, open_index, computed, monkeypatch, part):
    kind = kept_preparation._KINDS[part]
    monkeypatch.setitem(kept_preparation._KINDS, part, replace(kind, rules=kind.rules + 1))
    use(snapshot_of(open_index(path)))
    use(snapshot_of(open_index(path)))
    assert computed == [part]


def rewrite(path, part, change):
    """Change the arrays and the values of a part, with valid checksums."""
    arrays, meta = load_arrays(folder_of(path) / part)
    change(arrays := {name: np.array(array) for name, array in arrays.items()}, meta)
    save_arrays(folder_of(path) / part, arrays, meta)


def put(name, value):
    return lambda arrays, _: arrays.update({name: np.asarray(value)})


def drop(name):
    return lambda arrays, _: arrays.pop(name)


def set_meta(name, value):
    return lambda _, meta: meta.update({name: value})


CRAFTED = [
    ("subjects", put("entities", [9_999])),
    ("subjects", put("documents", [9_999])),
    ("subjects", put("section_chunks", [9_999])),
    ("subjects", put("bounds", [0, 9_999])),
    ("subjects", drop("entities")),
    ("subjects", set_meta("subjects", [])),
    ("subjects", set_meta("subjects", 7)),
    ("subjects", set_meta("sections", [["zermatt", "Zermatt", 0, 9_999, True]])),
    ("ranks", put("chunk_entities_indices", [9_999])),
    ("ranks", put("entity_chunks_indptr", [0])),
    ("ranks", drop("entity_chunks_data")),
    ("ranks", put("chunk_sums", [1.0])),
    ("ranks", put("entity_sums", [1])),
    ("ranks", put("returns", [[1.0]])),
    ("shares", put("shares", [1.0])),
    ("shares", drop("shares")),
    ("keys", put("names", [-1])),
    ("keys", put("names", np.full(3, 1 << 63, dtype=np.uint64) | np.uint64(15))),
    ("keys", set_meta("bits", dict.fromkeys(("names", "aliases", "parts", "words"), 64))),
    ("keys", drop("parts")),
    ("name_words", put("starts", [9_999])),
    ("name_words", put("lengths", [9_999])),
    ("name_words", put("letters", [1])),
]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(("part", "change"), CRAFTED)
def test_parts_that_do_not_fit_are_computed_again(path, open_index, computed, part, change):
    expected = use(snapshot_of(open_index(path)))
    rewrite(path, part, change)
    assert use(snapshot_of(open_index(path))) == expected
    assert computed == [part]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("part", PARTS)
def test_verify_names_parts_that_differ_from_a_build(path, open_index, part):
    assert open_index(path).verify().problems == ()
    changes = {
        "subjects": set_meta("trusted", ["title"]),
        "ranks": lambda arrays, _: arrays["chunk_entities_data"].__imul__(2),
        "shares": lambda arrays, _: arrays["shares"].__imul__(0),
        "keys": lambda arrays, _: arrays.update(names=arrays["names"][:1]),
        "name_words": lambda arrays, _: arrays["letters"].__imul__(0),
    }
    rewrite(path, part, changes[part])
    [problem] = open_index(path).verify().problems
    assert part in str(problem)


def test_sections_are_kept(path, open_index, tmp_path):
    snapshot = snapshot_of(open_index(path))
    row = len(snapshot.graph.names)
    sections = [("zermatt", Section("Zermatt", np.int64(0), np.int64(2)))]
    choice = SubjectChoice(snapshot.subjects.choice.of_documents, sections, frozenset({"section"}))
    columns = [np.array(one, dtype=np.int64) for one in ([row], [1], [row, row], [0, 1])]
    subjects = Subjects.of(snapshot.graph, ["zermatt"], columns, choice)
    kind = kept_preparation._KINDS["subjects"]
    save_arrays(tmp_path / "part", *kind.arrays(snapshot, subjects))
    restored = kind.restore(snapshot, *load_arrays(tmp_path / "part"))
    assert vars(restored.choice) == vars(choice)
    assert restored.sections == subjects.sections
    assert restored.sections_of(1).tolist() == [row]
    assert restored.index["zermatt"] == row


def test_a_snapshot_with_another_graph_computes_its_own(path, open_index, computed):
    snapshot = snapshot_of(open_index(path))
    other = with_edits(snapshot, snapshot.edits)
    assert use(other) == use(replace(other, preparation=Preparation()))
    assert set(computed) == {*PARTS}
