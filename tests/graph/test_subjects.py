from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.edit_arguments import new_edits
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.subjects import subject_candidates
from e2graphrag_integrations.graph.builder import build_graph
from e2graphrag_integrations.graph.metadata_names import NamesInMetadata
from e2graphrag_integrations.graph.subjects import (
    Subject,
    SubjectChoice,
    Subjects,
    choose_subjects,
)
from e2graphrag_integrations.graph.titles import (
    Section,
    SubjectTableBuilder,
    sections_in_texts,
    title_form,
)


def graph_of(*chunks):
    """Return the graph of chunks, given as strings of names."""
    return build_graph([[[(name, "other") for name in chunk.split()]] for chunk in chunks])


def named(graph, *names):
    """Return the entities of documents whose subjects have the given names."""
    choice = SubjectChoice([Subject(tuple(some)) for some in names])
    return Subjects.from_choice(graph, choice)


def table_of(*texts):
    """Return the candidates in the texts of chunks."""
    builder = SubjectTableBuilder()
    for chunk, text in enumerate(texts):
        builder.add(chunk, subject_candidates(text))
    return builder.table()


def chosen(texts, titles=None, graph=None, in_metadata=None, files=None):
    """Return the subjects of documents with one chunk each."""
    nothing = [None] * len(texts)
    return choose_subjects(
        graph or graph_of(*("" for _ in texts)),
        titles or nothing,
        table_of(*texts),
        np.arange(len(texts)),
        NamesInMetadata(in_metadata or nothing, files or nothing),
    ).of_documents


def test_edits_apply_to_subjects():
    titles = ["Bob", "Overture", "Mercury (planet)", "Mercury (metal)", "Mercury (god)"]
    apart = [("Mercury (planet)", "Mercury (metal)")]
    edits = EntityEdits(tuple(new_edits({"Bob": "Anna"}, apart, ["Overture"])))
    graph = graph_of("anna")
    choice = choose_subjects(graph, titles, table_of(*[""] * 5), np.arange(5), edits=edits)
    assert [one.names for one in choice.of_documents] == [(title,) for title in titles]
    subjects = Subjects.from_choice(graph, choice, edits)
    names = [[subjects.names[row] for row in subjects.names_of(i).tolist()] for i in range(5)]
    assert names == [["anna"], [], ["mercury (planet"], ["mercury (metal"], ["mercury"]]


def test_names_of_subjects_follow_the_entities_of_the_graph():
    subjects = named(
        graph_of("anna oslo"), ["Zoo"], ["Oslo", "Christiania"], [], ["ZOO (film)"], ["?"]
    )
    assert list(subjects.names) == ["anna", "oslo", "zoo", "christiania"]
    assert [subjects.names_of(i).tolist() for i in range(5)] == [[2], [1, 3], [], [2], []]
    assert subjects.index == {"anna": 0, "oslo": 1, "zoo": 2, "christiania": 3}
    assert subjects.documents == {2: [0, 3], 1: [1], 3: [1]}
    assert subjects.is_subject.tolist() == [False, True, True, True]


def test_index_without_documents_has_only_the_graphs_entities():
    subjects = named(graph_of("anna"))
    assert list(subjects.names) == ["anna"]
    assert (subjects.entities.tolist(), subjects.documents) == ([], {})
    assert subjects.entities.dtype.kind == subjects.documents_of_entities.dtype.kind == "i"


names = st.lists(
    st.text("ab ()?", max_size=6) | st.sampled_from(["Anna", "Anna (film)", "Oslo"]), max_size=3
)


@given(st.lists(st.sampled_from(["a", "b", "anna", "cleo"]), unique=True), st.lists(names))
def test_names_and_documents_map_to_each_other(mentioned, drawn):
    graph = graph_of(" ".join(mentioned))
    subjects = named(graph, *drawn)
    forms = [[*dict.fromkeys(f for name in some if (f := title_form(name)))] for some in drawn]
    rows = [subjects.names_of(document).tolist() for document in range(len(drawn))]
    assert [[subjects.names[row] for row in some] for some in rows] == forms
    assert list(subjects.names[: len(graph.names)]) == list(graph.names)
    assert len(set(subjects.names)) == len(subjects.names)
    assert set(subjects.names) == {*mentioned, *(form for some in forms for form in some)}
    pairs = [(entity, d) for entity, documents in subjects.documents.items() for d in documents]
    assert sorted(pairs) == sorted((row, d) for d, some in enumerate(rows) for row in some)


RUSH = "Rush\nRush is a Canadian rock band that was formed in Toronto in 1968 by three friends."
TOTO = "Toto\nToto is an American rock band that was formed in Los Angeles in 1977 by friends."
CHATS = [
    "Time: 20260408_08:38\nAlice: Your bread has been delivered, please pick it up at the bakery.",
    "Time: 20260412_08:11\nAlice: Your bread has been delivered, please pick it up at the bakery.",
]


def test_title_comes_before_the_heading_and_the_definition():
    [subject, other] = chosen([RUSH, TOTO], ["Rush (band)", None], graph_of("rush", "rush toto"))
    assert subject == Subject(("Rush (band)",), "title")
    assert other.source is None or other.source == "definition"


def test_only_mentioned_headings_are_subjects_if_few_are_mentioned():
    texts = [RUSH, *CHATS * 15]
    graph = graph_of("rush", "rush", *["alice"] * 29)
    assert chosen(texts, graph=graph) == [Subject(("Rush",), "heading"), *[Subject()] * 30]


def test_all_headings_are_trusted_if_other_documents_mention_enough_of_them():
    subjects = chosen([RUSH, TOTO], graph=graph_of("rush", "toto rush"))
    assert [one.source for one in subjects] == ["heading", "heading"]


def test_first_lines_of_chats_are_not_subjects():
    assert chosen(CHATS, graph=graph_of("alice", "alice")) == [Subject(), Subject()]


def test_definitions_are_subjects_only_where_most_documents_have_one():
    bodies = [text.partition("\n")[2] for text in (RUSH, TOTO)]
    assert chosen(bodies) == [Subject(("Rush",), "definition"), Subject(("Toto",), "definition")]
    assert chosen([*bodies, *CHATS, CHATS[0]]) == [Subject()] * 5


def test_only_the_first_chunk_of_a_document_names_its_subject():
    bodies = [text.partition("\n")[2] for text in (RUSH, TOTO)]
    choice = choose_subjects(graph_of("", ""), [None], table_of(*bodies), np.asarray([0, 0]))
    assert choice.of_documents == [Subject(("Rush",), "definition")]
    assert choice.trusted == {"definition"}


def test_junk_title_does_not_count_as_a_title():
    graph = graph_of("rush", "rush toto")
    titles = ["Microsoft Word - rush.doc", "untitled"]
    assert [one.source for one in chosen([RUSH, TOTO], titles, graph)] == ["heading", "heading"]


def test_title_in_the_metadata_comes_after_the_title():
    subjects = chosen(["It grew.", "It fell."], ["Dune", None], in_metadata=["Sand", "Rain"])
    assert subjects == [Subject(("Dune",), "title"), Subject(("Rain",), "metadata")]


def test_file_name_is_a_subject_only_where_other_documents_mention_some():
    files = ["Toto", "Rush"]
    assert chosen(["It grew.", "It fell."], files=files) == [Subject(), Subject()]
    subjects = chosen(["It grew.", "It fell."], graph=graph_of("", "toto"), files=files)
    assert subjects == [Subject(("Toto",), "file"), Subject(("Rush",), "file")]


BOOK = (
    "# Palaces\n\nThey are old.\n\n## 1. Weena\n\nShe swam.",
    "Then she slept.",
    "At night.\n\n### Eloi\n\nThey sang.",
    "## Morlocks\n\nThey ate.",
)


def test_sections_hold_up_to_the_next_heading_of_their_level():
    chunk_documents = np.asarray([0, 0, 0, 0, 1])
    table = table_of(*BOOK, "Another document.")
    assert sorted(sections_in_texts(table, chunk_documents), key=lambda one: one[1:]) == [
        Section("1. Weena", 0, 3, begins_chunk=False),
        Section("Palaces", 0, 4),
        Section("Eloi", 2, 3, begins_chunk=False),
        Section("Morlocks", 3, 4),
    ]


def test_no_headings_give_no_sections():
    assert list(sections_in_texts(table_of("Plain."), np.asarray([0]))) == []
    assert list(sections_in_texts(table_of(), np.asarray([], dtype=np.int64))) == []


ENTRIES = (
    "# Bands\n\nThese are bands.\n\n",
    "## 1. Rush\n\nRush is a Canadian rock band that was formed in Toronto.",
    "## Toto\n\nToto is an American rock band that was formed in Los Angeles.",
    "## See also\n\nOther lists.",
)


def sections_of(*texts):
    """Return the names of the sections of each chunk, for one document with these chunks."""
    graph = graph_of(*("" for _ in texts))
    chunk_documents = np.zeros(len(texts), dtype=np.int64)
    choice = choose_subjects(graph, [None], table_of(*texts), chunk_documents)
    subjects = Subjects.from_choice(graph, choice)
    rows = [subjects.sections_of(chunk).tolist() for chunk in range(len(texts))]
    return [sorted(subjects.names[row] for row in own) for own in rows], choice.trusted


def test_headings_of_entries_are_subjects_of_their_sections():
    names, trusted = sections_of(*ENTRIES)
    assert names == [["bands"], ["bands", "rush"], ["bands", "toto"], ["bands"]]
    assert "section" in trusted


def test_headings_do_not_count_where_most_sections_begin_without_a_definition():
    assert sections_of(*BOOK) == ([[], [], [], []], frozenset())


def test_titles_that_differ_between_pages_count_without_a_definition():
    metadata = NamesInMetadata([None], [None], titled=[Section("Rush", 0, 1), Section("?", 1, 2)])
    graph = graph_of("", "")
    choice = choose_subjects(graph, [None], table_of("", ""), np.zeros(2, dtype=np.int64), metadata)
    assert choice.sections == [("rush", Section("Rush", 0, 1))]
