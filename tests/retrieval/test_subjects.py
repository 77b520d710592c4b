"""Subjects in an index: what is embedded, the trace, and the statistics."""

from __future__ import annotations

from dataclasses import replace

from e2graphrag_integrations import HashingEmbedder, SourceDocument
from e2graphrag_integrations.entities.subjects import SUBJECT_RULES
from e2graphrag_integrations.retrieval.names.title_links import _links_from
from strategies import FakeEmbedder

ENTRIES = (
    "# Guide\n\n## Weena\n\nWeena is a friend who swims in the river.\n\n",
    "## Morlocks\n\nMorlocks are people who eat at night.\n\n",
)


def guide(*more):
    """Return a document with one segment per section."""
    texts = [*ENTRIES, *more]
    ends = [len("".join(texts[: number + 1])) for number in range(len(texts))]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    segments = [(start, end, {"part": number}) for number, (start, end) in enumerate(spans)]
    return SourceDocument("guide", "".join(texts), segments=segments)


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
        rag.add(replace(guide(), metadata=metadata))
        embedded.append(embedder.texts)
    assert embedded[0] == embedded[1]


def test_trace_names_the_subjects_that_title_links_follow(open_index):
    rag = open_index(split_segments=True)
    rag.add([guide(), SourceDocument("a", "Weena met Bert in Oslo.")])
    rag.add(SourceDocument("b", "He ran.", title="Bert (singer)"))
    trace = rag.retrieve("What happened in Oslo?").trace
    followed = {(one.subject, one.source) for one in trace.title_links}
    assert followed == {("weena", "section"), ("bert", "title")}
    assert "title links: " in trace.explain()
    assert "bert (title, " in trace.explain()
    assert {one["source"] for one in trace.to_dict()["title_links"]} == {"section", "title"}


def test_sections_link_to_others_of_their_document_but_not_to_themselves(open_index):
    rag = open_index(split_segments=True)
    rag.add(guide("## Eloi\n\nEloi are friends of the Morlocks. Eloi sing."))
    snapshot = rag._session.snapshot()
    links = [
        {target for _, _, found in _links_from(chunk, snapshot) for own in found for target in own}
        for chunk in range(len(snapshot.chunk_nodes))
    ]
    assert links == [set(), {2}, {1}]


def test_stats_count_the_sources_of_subjects(open_index):
    rag = open_index()
    rag.add(SourceDocument("a", "Weena met Bert.", title="Microsoft Word - a.doc"))
    rag.add(SourceDocument("b", "He ran.", title="Bert"))
    rag.add(SourceDocument("books/Weena.md", "She swam."))
    stats = rag.stats()
    assert stats.subjects == {"none": 1, "title": 1, "file": 1}
    assert (stats.sections, stats.trusted_sources) == (0, ("file",))
    assert stats.entities == len(rag.entities())
    assert open_index(embedder=HashingEmbedder()).stats().subjects == {}
    assert SUBJECT_RULES in rag.stats().settings["extractor"]
