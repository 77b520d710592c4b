"""An index of older extraction rules keeps them until it is extracted again, in one step."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    ExtractionError,
    IndexingError,
    SettingsMismatchError,
    StoppedError,
)
from e2graphrag_integrations.indexing import extraction
from e2graphrag_integrations.store.queue import enqueue
from e2graphrag_integrations.types import SUBJECT_LABELS
from fakes import (
    STORY,
    CountingExtractor,
    FailingEmbedder,
    FailingExtractor,
    first_extraction_rules,
    numbered,
)

DOCUMENTS = [
    SourceDocument("anna", "Anna Berg\nAnna Berg was a pilot. Bert met Anna Berg in Oslo."),
    SourceDocument("story", STORY, "Harbour"),
    SourceDocument("empty", ""),
]
NEW = SourceDocument("emil", "Emil Dahl was a sailor. Emil Dahl left Oslo.")
QUESTIONS = ("Where did Bert meet Anna Berg?", "Who was a sailor?", "Who sold the map?")


class OtherExtractor(CountingExtractor):
    fingerprint = "fake:other"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "i.e2g"


@pytest.fixture
def outdated(path, open_index):
    """Return the path of a file that was built with version 1 of the rules."""
    with first_extraction_rules():
        open_index(path).add(DOCUMENTS)
    return path


def answers(rag):
    return [rag.retrieve(question, k=9).nodes for question in QUESTIONS]


def labels(rag):
    lines = [json.loads(line) for line in rag.export()]
    sentences = [sentence for line in lines for sentence in line.get("mentions", ())]
    return {mention[3] for sentence in sentences for mention in sentence}


def test_an_outdated_file_is_used_with_its_rules(outdated, open_index, caplog):
    rag = open_index(outdated)
    assert rag.is_outdated
    stats = rag.stats()
    assert (stats.extraction_rules, stats.is_outdated) == (1, True)
    assert rag.verify().ok
    assert not caplog.records
    before = answers(rag)
    rag.add(NEW)
    assert rag.stats().settings["extractor"] == "fake:names"
    assert SUBJECT_LABELS.isdisjoint(labels(rag))
    with first_extraction_rules():
        old = open_index()
        old.add(DOCUMENTS)
        assert answers(old) == before
        old.add(NEW)
    assert list(rag.export()) == list(old.export())


def test_an_open_handle_warns_once(outdated, open_index, caplog):
    rag = open_index(outdated)
    for _ in range(2):
        rag.retrieve("Anna", mode="global")
        rag.add(numbered(2), on_duplicate="skip")
    open_index().add(DOCUMENTS)  # not outdated
    [record] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert f"e2graphrag reindex {outdated}" in record.getMessage()


def test_a_reindexed_file_equals_a_new_one(outdated, open_index):
    with open_index(outdated) as rag:
        before = answers(rag)
        rag.add(NEW)
        report = rag.reindex()
        fresh = open_index()
        fresh.add([*DOCUMENTS, NEW])
        assert list(rag.export()) == list(fresh.export())
        assert answers(rag) == answers(fresh) != before
        assert rag.verify().ok
        stats = rag.stats()
        assert (stats.extraction_rules, stats.is_outdated, rag.is_outdated) == (2, False, False)
    assert (report.documents, report.chunks) == (4, stats.chunks)
    assert (report.entities, report.edges) == (stats.entities, stats.edges)
    assert (report.embedded, report.llm_calls, report.summaries) == (0, 0, 0)
    assert {"extract", "write", "total"} == set(report.seconds)
    with open_index(outdated) as rag:
        assert answers(rag) == answers(fresh)
        content = "SELECT kind, count(*) FROM content GROUP BY kind"
        assert rag.store.read(content) == fresh.store.read(content)  # the old ones are dropped


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_only_the_extractor_is_called(outdated, open_index, is_async):
    def summarize(_):
        raise AssertionError

    rag = open_index(outdated, embedder=FailingEmbedder(), summarizer=summarize)
    events = []
    report = await rag.areindex(progress=events.append) if is_async else rag.reindex()
    assert report.documents == 3
    assert not rag.is_outdated
    if is_async:
        assert {e.stage: e.done for e in events} == {"extract": report.chunks, "write": 3}


def test_a_current_file_does_not_change(path, open_index):
    rag = open_index(path)
    assert rag.reindex().documents == 0
    rag.add(DOCUMENTS)
    before = rag.store.generation
    again = open_index(path, extractor=FailingExtractor())
    assert again.reindex().skipped == ("anna", "empty", "story")
    assert again.store.generation == before


def test_a_failed_run_changes_nothing_and_its_results_are_reused(outdated, open_index, monkeypatch):
    monkeypatch.setattr(extraction, "_SLICE_SIZE", 1)

    class Failing(CountingExtractor):
        def extract(self, texts):
            if len(self.texts) == 3:
                raise RuntimeError("no memory")
            return super().extract(texts)

    before = list(open_index(outdated).export())
    rag = open_index(outdated, extractor=Failing())
    with pytest.raises(ExtractionError, match="no memory"):
        rag.reindex()
    assert rag.is_outdated
    assert rag.verify().ok
    assert list(rag.export()) == before
    counting = CountingExtractor()
    report = open_index(outdated, extractor=counting).reindex()
    assert len(counting.texts) == report.chunks - 3


KILLED = """
import os, sys
from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.store import store
from fakes import NameExtractor

class Extractor(NameExtractor):
    def extract(self, texts):
        if sys.argv[2] == "extract":
            os._exit(9)
        return super().extract(texts)

store.new_generation = lambda db: os._exit(9)  # the last step of the transaction
E2GraphRAG.open(sys.argv[1], embedder="hashing", extractor=Extractor()).reindex()
"""


@pytest.mark.parametrize("moment", ["extract", "write"])
def test_a_killed_run_leaves_the_old_index(outdated, open_index, moment):
    with open_index(outdated) as rag:
        before, expected = list(rag.export()), answers(rag)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(outdated), moment],
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert killed.returncode == 9
    rag = open_index(outdated)
    assert rag.verify().ok
    assert list(rag.export()) == before
    assert answers(rag) == expected
    rag.reindex()
    fresh = open_index()
    fresh.add(DOCUMENTS)
    assert list(rag.export()) == list(fresh.export())


def test_a_stopped_run_changes_nothing(outdated, open_index):
    rag = open_index(outdated)
    with pytest.raises(StoppedError, match=r"reindex\(\) to continue"):
        rag.reindex(progress=lambda _: rag.stop())
    assert rag.is_outdated
    assert rag.reindex().documents == 3


def test_a_damaged_row_is_reported_and_nothing_changes(outdated, open_index):
    rag = open_index(outdated)
    with rag.store.transaction() as db:
        db.execute("UPDATE documents SET title = 'Port' WHERE id = 'story'")
    with pytest.raises(CorruptStoreError, match="document 'story'"):
        rag.reindex()
    assert rag.is_outdated


def test_extractions_that_another_writer_deleted_are_noticed(outdated, open_index, monkeypatch):
    rag = open_index(outdated)
    monkeypatch.setattr(rag.store, "put_cached", lambda _kind, _contents: None)
    with pytest.raises(IndexingError, match="another writer changed"):
        rag.reindex()
    assert rag.is_outdated
    assert rag.verify().ok


def test_other_handles_continue_with_the_new_extractions(outdated, open_index):
    first, other = open_index(outdated), open_index(outdated)
    assert answers(first) == answers(other)
    other.reindex()
    assert answers(first) == answers(other)
    first.add(NEW)
    fresh = open_index()
    fresh.add([*DOCUMENTS, NEW])
    assert list(first.export()) == list(fresh.export())
    assert first.verify().ok


def test_a_queue_of_an_older_version_is_indexed(path, outdated, open_index):
    rag = open_index(outdated)
    manifest = rag.store.manifest()
    enqueue(rag.store, [NEW], manifest)
    rag.reindex()
    assert rag.resume().documents == 1
    fresh = open_index()
    fresh.add([*DOCUMENTS, NEW])
    assert list(rag.export()) == list(fresh.export())
    only_queued = open_index(path.with_name("queue.e2g"))
    enqueue(only_queued.store, [NEW], manifest)
    assert only_queued.resume().documents == 1
    assert not only_queued.is_outdated


def test_another_extractor_can_replace_that_of_the_file(path, open_index):
    rag = open_index(path)
    rag.add(DOCUMENTS)
    enqueue(rag.store, [NEW], rag.store.manifest())
    with (
        open_index(path, extractor=OtherExtractor()) as other,
        pytest.raises(SettingsMismatchError, match=r"fake:names, not fake:other.*call reindex\(\)"),
    ):
        other.retrieve("Anna")
    new = OtherExtractor()
    with open_index(path, extractor=new, upgrade=True) as other:
        assert new.texts
        assert other.stats().settings["extractor"].startswith("fake:other")
        assert other.resume().documents == 1  # the queue, too
    with pytest.raises(SettingsMismatchError, match="fake:other, not fake:names"):
        rag.retrieve("Anna")


def test_upgrade_reindexes_an_outdated_file(outdated, open_index, caplog):
    with open_index(outdated, upgrade=True) as rag:
        assert not rag.is_outdated
        rag.retrieve("Anna")
    assert not caplog.records
    with pytest.raises(SettingsMismatchError, match="pass extractor="):
        E2GraphRAG.open(outdated).reindex()


def test_upgrade_does_nothing_to_other_files(path):
    with E2GraphRAG.open(path, embedder="hashing", upgrade=True) as rag:
        rag.add(NEW)
    with E2GraphRAG.open(path, upgrade=True) as rag:
        assert (
            rag._index.components._router.extractor("en")._nlp is None
        )  # the pipeline is not loaded
        assert rag.retrieve("Emil Dahl").nodes


def test_a_failed_upgrade_closes_the_file(outdated, open_index):
    with pytest.raises(ExtractionError):
        open_index(outdated, extractor=FailingExtractor(), upgrade=True)
    assert open_index(outdated).is_outdated
    outdated.rename(outdated.with_name("moved.e2g"))  # Windows would refuse


def test_exports_keep_their_rules(outdated, open_index, tmp_path):
    for is_new in (False, True):
        rag = open_index(outdated, upgrade=is_new)
        rag.export_to(tmp_path / f"export-{is_new}")
        E2GraphRAG.import_from(tmp_path / f"export-{is_new}", tmp_path / f"{is_new}.e2g")
        copy = open_index(tmp_path / f"{is_new}.e2g")
        assert copy.is_outdated is not is_new
        assert list(copy.export()) == list(rag.export())
        assert answers(copy) == answers(rag)


def test_spacy_extractions_are_replaced_as_well(path):
    document = replace(NEW, text="CKHL-FM\nCKHL-FM is a radio station in Bergen. Emil owns it.")
    with first_extraction_rules(), E2GraphRAG.open(path, embedder="hashing") as rag:
        rag.add(document)
        assert "ckhl-fm ckhl-fm" in rag.graph.names
    with (
        E2GraphRAG.open(path, upgrade=True) as rag,
        E2GraphRAG.open(":memory:", embedder=HashingEmbedder()) as fresh,
    ):
        fresh.add(document)
        assert "ckhl-fm ckhl-fm" not in rag.graph.names
        assert list(rag.export()) == list(fresh.export())
        assert rag.stats().settings["extractor_model"] == "en_e2g_sm"
