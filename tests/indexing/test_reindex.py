"""An index of another extractor is extracted again in one step, without any model."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    ExtractionError,
    IndexingError,
    SettingsMismatchError,
    StoppedError,
)
from e2graphrag_integrations.indexing.stages import extraction
from e2graphrag_integrations.store.queue import enqueue
from fakes import (
    STORY,
    CountingExtractor,
    FailingEmbedder,
    FailingExtractor,
    OldExtractor,
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
def old(path, open_index):
    """Return the path of a file that was built with another extractor."""
    open_index(path, extractor=OldExtractor()).add(DOCUMENTS)
    return path


def is_current(rag):
    return rag.store.manifest()["extractor"].startswith("fake:names")


def answers(rag):
    return [rag.retrieve(question, k=9).nodes for question in QUESTIONS]


def test_a_file_of_another_extractor_is_refused_with_the_remedy(old, open_index):
    rag = open_index(old)
    for call in (lambda: rag.retrieve("Anna"), lambda: rag.add(NEW)):
        with pytest.raises(SettingsMismatchError, match=r"fake:old, not fake:names.*reindex\(\)"):
            call()
    rag.reindex()
    assert rag.retrieve("Anna").nodes


def test_a_reindexed_file_equals_a_new_one(old, open_index):
    with open_index(old, extractor=OldExtractor()) as rag:
        before = answers(rag)
        rag.add(NEW)
    with open_index(old) as rag:
        report = rag.reindex()
        fresh = open_index()
        fresh.add([*DOCUMENTS, NEW])
        assert list(rag.export()) == list(fresh.export())
        assert answers(rag) == answers(fresh) != before
        assert rag.verify().ok
        assert is_current(rag)
        stats = rag.stats()
        mentioned = [one for one in rag.entities(top=stats.entities) if one.mentions]
    assert (report.documents, report.chunks) == (4, stats.chunks)
    assert (report.entities, report.edges) == (len(mentioned), stats.edges)
    assert (report.embedded, report.llm_calls, report.summaries) == (0, 0, 0)
    assert {"extract", "write", "total"} == set(report.seconds)
    with open_index(old) as rag:
        assert answers(rag) == answers(fresh)
        content = "SELECT kind, count(*) FROM content GROUP BY kind"
        assert rag.store.read(content) == fresh.store.read(content)  # the old ones are dropped


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_only_the_extractor_is_called(old, open_index, is_async):
    def summarize(_):
        raise AssertionError

    rag = open_index(old, embedder=FailingEmbedder(), summarizer=summarize)
    events = []
    report = await rag.areindex(progress=events.append) if is_async else rag.reindex()
    assert report.documents == 3
    assert is_current(rag)
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


def test_a_failed_run_changes_nothing_and_its_results_are_reused(old, open_index, monkeypatch):
    monkeypatch.setattr(extraction, "_SLICE_SIZE", 1)

    class Failing(CountingExtractor):
        def extract(self, texts):
            if len(self.texts) == 3:
                raise RuntimeError("no memory")
            return super().extract(texts)

    before = list(open_index(old).export())
    rag = open_index(old, extractor=Failing())
    with pytest.raises(ExtractionError, match="no memory"):
        rag.reindex()
    assert not is_current(rag)
    assert rag.verify().ok
    assert list(rag.export()) == before
    counting = CountingExtractor()
    report = open_index(old, extractor=counting).reindex()
    assert len(counting.texts) == report.chunks - 3


KILLED = """
import os, sys
from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.store import store
from fakes import NameExtractor

class Extractor(NameExtractor):
    def extract(self, texts):
        if sys.argv[2] == "extract":
            os._exit(9)
        return super().extract(texts)

store.new_generation = lambda db: os._exit(9)  # the last step of the transaction
models = Models(extractor=Extractor())
E2GraphRAG.open(sys.argv[1], embedder="hashing", models=models).reindex()
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["extract", "write"])
def test_a_killed_run_leaves_the_old_index(old, open_index, moment):
    with open_index(old, extractor=OldExtractor()) as rag:
        before, expected = list(rag.export()), answers(rag)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(old), moment],
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert killed.returncode == 9
    rag = open_index(old)
    assert rag.verify().ok
    assert list(rag.export()) == before
    with open_index(old, extractor=OldExtractor()) as unchanged:
        assert answers(unchanged) == expected
    rag.reindex()
    fresh = open_index()
    fresh.add(DOCUMENTS)
    assert list(rag.export()) == list(fresh.export())


def test_a_stopped_run_changes_nothing(old, open_index):
    rag = open_index(old)
    with pytest.raises(StoppedError, match=r"reindex\(\) to continue"):
        rag.reindex(progress=lambda _: rag.stop())
    assert not is_current(rag)
    assert rag.reindex().documents == 3


def test_a_damaged_row_is_reported_and_nothing_changes(old, open_index):
    rag = open_index(old)
    with rag.store.transaction() as db:
        db.execute("UPDATE documents SET title = 'Port' WHERE id = 'story'")
    with pytest.raises(CorruptStoreError, match="document 'story'"):
        rag.reindex()
    assert not is_current(rag)


def test_extractions_that_another_writer_deleted_are_noticed(old, open_index, monkeypatch):
    rag = open_index(old)
    monkeypatch.setattr(rag.store, "put_cached", lambda _kind, _contents: None)
    with pytest.raises(IndexingError, match="another writer changed"):
        rag.reindex()
    assert not is_current(rag)
    assert rag.verify().ok


def test_other_handles_continue_with_the_new_extractions(old, open_index):
    first, other = open_index(old), open_index(old)
    other.reindex()
    assert answers(first) == answers(other)
    first.add(NEW)
    fresh = open_index()
    fresh.add([*DOCUMENTS, NEW])
    assert list(first.export()) == list(fresh.export())
    assert first.verify().ok


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
    with open_index(path, extractor=new) as other:
        other.reindex()
        assert new.texts
        assert other.stats().settings["extractor"].startswith("fake:other")
        assert other.resume().documents == 1  # the queue, too
    with pytest.raises(SettingsMismatchError, match="fake:other, not fake:names"):
        rag.retrieve("Anna")


def test_exports_keep_their_extractor(old, open_index, tmp_path):
    with open_index(old) as rag:
        rag.export_to(tmp_path / "export")
    E2GraphRAG.import_from(tmp_path / "export", tmp_path / "imported.e2g")
    copy = open_index(tmp_path / "imported.e2g")
    assert not is_current(copy)
    assert copy.reindex().documents == 3
    rag = open_index(old)
    rag.reindex()
    assert list(copy.export()) == list(rag.export())
    assert answers(copy) == answers(rag)


def test_spacy_extractions_are_replaced_as_well(path):
    document = replace(NEW, text="CKHL-FM\nCKHL-FM is a radio station in Bergen. Emil owns it.")
    with E2GraphRAG.open(path, embedder="hashing", models=Models(extractor=OldExtractor())) as rag:
        rag.add(document)
    with (
        E2GraphRAG.open(path, models=Models(extractor="en_e2g_sm")) as rag,
        E2GraphRAG.open(":memory:", embedder=HashingEmbedder()) as fresh,
    ):
        rag.reindex()
        fresh.add(document)
        assert list(rag.export()) == list(fresh.export())
        assert rag.stats().settings["extractor_model"] == "en_e2g_sm"
