"""`E2GraphRAG`: behavior that no other test module covers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import metadata

import pytest

from e2graphrag_integrations import E2GraphRAG, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    ExtractionError,
    InvalidInputError,
    SummaryError,
    UnknownDocumentError,
)
from fakes import CountingLLM, NameExtractor, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}


@pytest.mark.parametrize("arguments", [(), ("novel.e2g",)])
def test_the_constructor_says_how_an_index_is_opened(arguments):
    for options in ({}, {"embedder": "hashing"}):
        with pytest.raises(InvalidInputError, match=r"opened by E2GraphRAG\.open\(path"):
            E2GraphRAG(*arguments, **options)


def test_a_copy_needs_the_path_of_a_file_in_a_folder(open_index, tmp_path):
    rag = open_index()
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "no" / "a.e2g", "not exist")):
        with pytest.raises(InvalidInputError, match=message):
            rag.copy_to(path)


@pytest.mark.parametrize(
    ("name", "meant"), [("top_k", "k"), ("filter", "where"), ("pahts", "paths")]
)
async def test_an_unknown_option_of_a_question_leads_to_the_known_one(open_index, name, meant):
    rag = open_index()
    message = f"{name!r}: did you mean {meant!r}"
    for reader in (rag, rag.scoped({"tenant": 1})):
        with pytest.raises(InvalidInputError, match=message):
            reader.retrieve("Who?", **{name: 1})
        with pytest.raises(InvalidInputError, match=message):
            await reader.aretrieve("Who?", **{name: 1})


def test_a_url_of_another_kind_is_no_path():
    with pytest.raises(
        InvalidInputError, match=r"begins with 'mysql://': .* in Postgres"
    ) as raised:
        E2GraphRAG.open("mysql://anna:hidden@host/novels")
    assert "hidden" not in str(raised.value)


def test_update_replaces_the_changed_and_skips_the_rest(open_index, story):
    rag = open_index()
    rag.add([story, numbered(3)])
    report = rag.update([story, SourceDocument("numbered", "Greta met Hans.")])
    assert report.skipped == ("story",)
    assert report.documents == 1
    assert rag.document("numbered").text == "Greta met Hans."
    assert rag.retrieve("Greta", k=1).nodes[0].document_id == "numbered"


def test_a_failed_update_keeps_the_old_version(open_index, story):
    calls = []

    def failing(prompt: str) -> str:
        calls.append(prompt)
        if "Zoe" in prompt:
            raise RuntimeError("gone")
        return f"Summary number {len(calls)}."

    rag = open_index(summarizer=failing)
    rag.add(story)
    before = list(rag.export())
    with pytest.raises(SummaryError):
        rag.update(SourceDocument("story", story.text + " Zoe came."))
    assert list(rag.export()) == before
    assert rag.verify().ok
    assert rag.retrieve("Where did Anna meet Bert?").nodes


async def test_aupdate_equals_update(open_index, story):
    changed = SourceDocument("story", story.text + " Zoe came.")
    exports = []
    for _ in range(2):
        rag = open_index()
        rag.add(story)
        report = rag.update(changed) if exports else await rag.aupdate(changed)
        assert report.documents == 1
        exports.append(list(rag.export()))
    assert exports[0] == exports[1]


def test_update_of_an_unknown_document_changes_nothing(open_index, story):
    rag = open_index()
    rag.add(story)
    changed = SourceDocument("story", "Other.")
    with pytest.raises(UnknownDocumentError, match=r"'new'.*use add"):
        rag.update([changed, SourceDocument("new", "New.")])
    assert rag.document("story") == story


def test_update_with_an_id_given_twice_changes_nothing(open_index, story):
    rag = open_index()
    rag.add(story)
    with pytest.raises(DuplicateDocumentError, match="given twice"):
        rag.update([SourceDocument("story", "One."), SourceDocument("story", "Two.")])
    assert rag.document("story") == story


def test_add_rejects_a_stored_id_with_other_content_and_writes_nothing(open_index, story):
    rag = open_index()
    rag.add(story)
    before = list(rag.export())
    for other in (
        SourceDocument("story", "Other."),
        SourceDocument("story", story.text, title="Another", metadata=story.metadata),
        SourceDocument("story", story.text, title=story.title, metadata={"kind": "lie"}),
    ):
        with pytest.raises(DuplicateDocumentError, match=r"use update\(\)"):
            rag.add([numbered(3), other])
    assert list(rag.export()) == before


def test_add_accepts_one_document_or_any_iterable(open_index, story):
    rag = open_index()
    assert rag.add(story).documents == 1
    assert rag.add(numbered(n, f"d{n}") for n in (2, 3)).documents == 2
    assert rag.add([]).documents == 0
    assert rag.document_ids == ["d2", "d3", "story"]


@pytest.mark.parametrize("wrong", [["a text"], [{"id": "a"}], [None]])
def test_an_item_that_is_not_a_document_is_rejected_with_its_position(open_index, story, wrong):
    rag = open_index()
    with pytest.raises(InvalidInputError, match="document 1 is a"):
        rag.add([story, *wrong])
    assert rag.document_ids == []


def test_delete_accepts_one_id_several_or_none(open_index):
    rag = open_index()
    rag.add([numbered(2, name) for name in "abcd"])
    rag.delete("a")
    rag.delete(name for name in ("b", "c", "b"))
    rag.delete([])
    assert rag.document_ids == ["d"]


def test_stats_count_the_contents_of_the_index(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    rag.add(SourceDocument("d", "Anna met Bert. Bert met Cleo. Anna sat down."))
    stats = rag.stats()
    assert (stats.documents, stats.chunks, stats.summaries, stats.levels) == (1, 3, 1, 2)
    assert (stats.entities, stats.edges, stats.mentions) == (3, 2, 5)
    assert (stats.windows, stats.dimension) == (4, 256)
    assert stats.to_dict()["settings"]["group_size"] == "5"


def test_stats_include_the_file_size(tmp_path, open_index, story):
    rag = open_index(tmp_path / "i.e2g")
    rag.add(story)
    rag.close()
    again = open_index(tmp_path / "i.e2g")
    assert again.stats().bytes >= (tmp_path / "i.e2g").stat().st_size > 0
    assert open_index().stats().bytes == 0


def test_stats_count_the_entities_that_the_list_has(open_index):
    rag = open_index()
    rag.add(SourceDocument("d", "Bert met Cleo in Oslo.", title="Weena"))
    assert "weena" in {one.name for one in rag.entities()}  # no text mentions this subject
    assert rag.stats().entities == len(rag.entities()) == 4


def test_the_graph_reflects_the_current_documents(open_index):
    rag = open_index()
    assert rag.graph.names == []
    rag.add(SourceDocument("d", "Anna met Bert."))
    assert list(rag.graph.names) == ["anna", "bert"]
    graph = rag.graph.to_networkx()
    assert graph.edges["anna", "bert"]["weight"] == 0.5  # two entities in the sentence
    rag.delete("d")
    assert list(rag.graph.names) == []


def test_edge_weights_sum_over_documents_and_shrink_on_delete(open_index):
    rag = open_index()
    rag.add([SourceDocument(name, "Anna met Bert.") for name in "ab"])
    assert rag.graph.to_networkx().edges["anna", "bert"]["weight"] == 1.0
    rag.delete("b")
    assert rag.graph.to_networkx().edges["anna", "bert"]["weight"] == 0.5


def test_the_index_is_a_context_manager_and_its_repr_names_the_path(tmp_path):
    with E2GraphRAG.open(tmp_path / "i.e2g", embedder="hashing") as rag:
        assert str(tmp_path / "i.e2g") in repr(rag)
    assert [p.name for p in tmp_path.iterdir()] == ["i.e2g"]


def test_the_strategy_passed_to_open_is_the_default(open_index):
    rag = open_index(strategy=PaperStrategy(max_hops=1))
    rag.add(SourceDocument("d", "Anna met Bert. Bert met Cleo."))
    assert rag.retrieve("Anna Cleo").trace.pairs[0].hops is None
    assert rag.retrieve("Anna Cleo", strategy=PaperStrategy()).trace.pairs[0].hops == 2


def test_an_index_remains_usable_after_a_failed_add(open_index, story):
    answers = iter(["", *["Fine."] * 99])
    rag = open_index(summarizer=lambda _: next(answers), concurrency=1)
    with pytest.raises(SummaryError):
        rag.add(story)
    assert rag.retrieve("Anna").nodes == ()
    rag.add(story)
    assert rag.retrieve("Anna").nodes


async def test_adelete_equals_delete(open_index, story):
    rag = open_index()
    rag.add(story)
    await rag.adelete("story")
    assert rag.document_ids == []


def test_the_package_has_a_version():
    import e2graphrag_integrations

    assert e2graphrag_integrations.__version__ == metadata.version("e2graphrag-integrations")


def test_deleting_the_last_document_clears_the_cache(open_index, story, tmp_path):
    path = tmp_path / "i.e2g"
    rag = open_index(path, extractor=Failing())
    with pytest.raises(ExtractionError):
        rag.add(story)
    other = open_index(path)
    other.add(numbered(3))
    other.delete("numbered")
    other.delete("story")  # was queued, so cached results were kept for it
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM content").fetchone() == (0,)


def test_cached_results_of_a_deleted_document_are_dropped_when_the_queue_is_empty(
    open_index, tmp_path
):
    path = tmp_path / "i.e2g"
    names = NameExtractor()
    extractor = Failing()
    rag = open_index(path, extractor=extractor)
    extractor.extract = names.extract
    rag.add(numbered(9))
    del extractor.extract
    with pytest.raises(ExtractionError):
        rag.add(SourceDocument("late", "Anna met Bert."))
    rag.delete("numbered")
    extractor.extract = names.extract
    assert rag.resume().documents == 1
    fresh = open_index(extractor=names)
    fresh.add(SourceDocument("late", "Anna met Bert."))
    count = "SELECT count(*) FROM content"
    assert rag.store.read(count) == fresh.store.read(count)


def test_deleting_a_queued_document_drops_its_cached_results(open_index):
    def failing(_):
        raise RuntimeError("no")

    rag = open_index(summarizer=failing, **FOUR)
    rag.add(SourceDocument("short", "Anna met Bert."))  # needs no summary
    count = "SELECT count(*) FROM content"
    before = rag.store.read(count)
    with pytest.raises(SummaryError):
        rag.add(numbered(40))
    assert rag.store.read(count) > before
    rag.delete("numbered")
    assert rag.store.read(count) == before


def test_replacing_a_failed_version_drops_its_cached_results(open_index):
    answers = iter([RuntimeError("no")])

    def model(prompt):
        for error in answers:
            raise error
        return CountingLLM()(prompt)

    rag = open_index(summarizer=model, **FOUR)
    with pytest.raises(SummaryError):
        rag.add(numbered(40))
    rag.add(SourceDocument("numbered", "Greta met Hans. Hans met Ida."))
    fresh = open_index(summarizer=CountingLLM(), **FOUR)
    fresh.add(rag.document("numbered"))
    count = "SELECT count(*) FROM content"
    assert rag.store.read(count) == fresh.store.read(count)


class Failing(NameExtractor):
    def extract(self, texts):
        raise RuntimeError("no")
