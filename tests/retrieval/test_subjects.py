"""Subjects in an index: what is embedded, the trace, and the statistics."""

from __future__ import annotations

import numpy as np

from e2graphrag_integrations import HashingEmbedder, SourceDocument
from e2graphrag_integrations.entities.subjects import SUBJECT_RULES
from e2graphrag_integrations.retrieval.title_links import _links_from
from strategies import FakeEmbedder

GUIDE = "# Guide\n\n## Weena\n\nShe swam in the river.\n\n## Morlocks\n\nThey ate at night."


class Recorder(FakeEmbedder):
    def __init__(self):
        super().__init__()
        self.texts = []

    def embed(self, texts):
        self.texts += texts
        return super().embed(texts)


def test_headings_and_metadata_are_not_embedded(open_index):
    embedded = []
    for metadata in ({}, {"Title": "Guide", "file_name": "Guide.md", "Header 2": "Weena"}):
        embedder = Recorder()
        rag = open_index(embedder=embedder)
        rag.add(SourceDocument("guide", GUIDE, metadata=metadata))
        embedded.append(embedder.texts)
    assert embedded[0] == embedded[1]


def test_trace_names_the_subjects_that_title_links_follow(open_index):
    rag = open_index(chunk_size=12, chunk_overlap=0)
    rag.add([SourceDocument("guide", GUIDE), SourceDocument("a", "Weena met Bert in Oslo.")])
    rag.add(SourceDocument("b", "He ran.", title="Bert (singer)"))
    trace = rag.retrieve("What happened in Oslo?").trace
    followed = {(one.subject, one.source) for one in trace.title_links}
    assert followed == {("weena", "section"), ("bert", "title")}
    assert "title links: " in trace.explain()
    assert "bert (title, " in trace.explain()
    assert {one["source"] for one in trace.to_dict()["title_links"]} == {"section", "title"}


def test_sections_link_only_to_other_documents(open_index):
    rag = open_index(chunk_size=12, chunk_overlap=0)
    rag.add(
        SourceDocument("guide", f"{GUIDE}\n\n## More\n\nWeena met the Morlocks. Anna met Weena.")
    )
    rag.add(SourceDocument("a", "Anna met Weena."))
    trace = rag.retrieve("Where was Anna?").trace
    assert {one.source for one in trace.title_links} == {"section"}
    snapshot = rag._session.snapshot()
    subjects, [weena] = snapshot.subjects, [snapshot.graph.index["weena"]]
    guide = snapshot.documents.index("guide")
    assert subjects.sections[weena]
    chunks = np.flatnonzero(snapshot.chunk_documents == guide).tolist()
    targets = [
        target
        for chunk in chunks
        for _, _, found in _links_from(chunk, snapshot)
        for target in np.concatenate(found).tolist()
    ]
    assert targets
    assert not set(targets) & set(chunks)


def test_stats_count_the_sources_of_subjects(open_index):
    rag = open_index()
    rag.add(SourceDocument("a", "Weena met Bert.", title="Microsoft Word - a.doc"))
    rag.add(SourceDocument("b", "He ran.", title="Bert"))
    rag.add(SourceDocument("books/Weena.md", "She swam."))
    stats = rag.stats()
    assert stats.subjects == {"none": 1, "title": 1, "file": 1}
    assert (stats.sections, stats.trusted_sources) == (0, ("file",))
    assert open_index(embedder=HashingEmbedder()).stats().subjects == {}
    assert SUBJECT_RULES in rag.stats().settings["extractor"]
