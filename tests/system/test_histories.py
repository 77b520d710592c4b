"""After any history of operations an index equals a rebuild from its documents."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
    WriteOptions,
    drop_index,
)
from fakes import CountingLLM, NameExtractor
from strategies import examples

QUESTIONS = ("Did Anna meet Bert?", "Who ran?")
SENTENCES = [
    f"{subject} {verb} {object_}."
    for subject in ("Anna", "Bert", "Cleo", "Dora")
    for verb in ("met", "saw", "left")
    for object_ in ("Emil", "Fay", "Gus")
]
texts = st.lists(st.sampled_from(SENTENCES), max_size=14).map(" ".join)
ids = st.sampled_from("abcd")
batches = st.dictionaries(ids, texts, min_size=1, max_size=3)


class Crash(BaseException):
    """Stands for the end of the process."""


class CrashingLLM(CountingLLM):
    """Raises `Crash` after `calls_left` calls, if that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.calls_left: int | None = None

    def __call__(self, prompt: str) -> str:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Crash
        return super().__call__(prompt)


def open_rag(path, llm, method):
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(16),
        models=Models(extractor=NameExtractor(), llm_id="crashing"),
        summarizer=llm,
        writes=WriteOptions(concurrency=2),
        settings=IndexSettings(
            chunk_size=9, chunk_overlap=0, group_size=2, chunking=method, grouping=method
        ),
    )


def documents_from(documents):
    return [SourceDocument(id_, text, metadata={"source": id_}) for id_, text in documents.items()]


def observe(rag):
    return list(rag.export()), [rag.retrieve(question, k=6).nodes for question in QUESTIONS]


@lru_cache(maxsize=500)
def rebuilt(method, documents):
    with open_rag(":memory:", CountingLLM(), method) as rag:
        rag.add(documents_from(dict(documents)))
        return observe(rag)


class Histories(RuleBasedStateMachine):
    """Adds, updates, deletes, reopens, compactions and crashes in any order."""

    method = "fixed"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.crashes = 0
        self.llm = CrashingLLM()
        self.rag = open_rag(self.path, self.llm, self.method)
        self.model: dict[str, str] = {}

    @property
    def path(self) -> Path:
        return self.folder / f"{self.crashes}.e2g"

    @rule(batch=batches)
    def add(self, batch):
        report = self.rag.add(documents_from(batch), on_duplicate="replace")
        unchanged = {id_ for id_, text in batch.items() if self.model.get(id_) == text}
        assert set(report.skipped) == unchanged
        assert report.documents == len(batch) - len(unchanged)
        self.model |= batch

    @rule(batch=batches)
    def add_without_replacing(self, batch):
        self.rag.add(documents_from(batch), on_duplicate="skip")
        self.model = batch | self.model

    @precondition(lambda self: self.model)
    @rule(data=st.data(), sentence=st.sampled_from(SENTENCES))
    def edit(self, data, sentence):
        id_ = data.draw(st.sampled_from(sorted(self.model)))
        parts = self.model[id_].split(". ")
        at = data.draw(st.integers(0, len(parts)))
        text = ". ".join([*parts[:at], sentence.rstrip("."), *parts[at:]])
        estimate = self.rag.estimate(update=documents_from({id_: text})).llm_calls
        report = self.rag.update(documents_from({id_: text}))
        assert report.llm_calls + report.saved_calls == estimate
        self.model[id_] = text

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data):
        deleted = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1))
        assert self.rag.delete(deleted).documents == len(deleted)
        self.model = {id_: text for id_, text in self.model.items() if id_ not in deleted}

    @rule()
    def reopen(self):
        self.rag.close()
        self.rag = open_rag(self.path, self.llm, self.method)

    @rule()
    def compact(self):
        self.rag.compact()

    @rule(batch=batches, calls_left=st.integers(0, 8))
    def crash_during_add(self, batch, calls_left):
        self.llm.calls_left = calls_left
        calls = self.llm.calls
        try:
            self.rag.add(documents_from(batch), on_duplicate="replace")
        except Crash:
            crashed = True
        else:
            crashed = False
        self.llm.calls_left = None
        if crashed:
            self.recover(batch, calls)
        self.model |= batch

    def recover(self, batch, calls):
        """Continue with the files as they were at the crash, like a new process."""
        self.keep_state_of_crash()
        old, self.rag = self.rag, open_rag(self.path, self.llm, self.method)
        old.close()
        assert self.rag.verify().problems == ()
        indexed = {id_: self.rag.document(id_).text for id_ in self.rag.document_ids}
        waiting = {state.id for state in self.rag.status() if state.status != "done"}
        for id_, text in (self.model | batch).items():
            assert indexed.get(id_) in {text, self.model.get(id_)}
            assert indexed.get(id_) == text or id_ in waiting
        self.rag.resume()
        assert {state.status for state in self.rag.status()} == {"done"}
        prompts = self.llm.prompts[calls:]
        # Calls that finished before the crash are not repeated.
        assert len(prompts) == len(set(prompts))

    def keep_state_of_crash(self):
        """Copy the files, before the crashed process closes them."""
        crashed, self.crashes = self.path, self.crashes + 1
        for suffix in ("", "-wal"):
            if Path(f"{crashed}{suffix}").exists():
                shutil.copy(f"{crashed}{suffix}", f"{self.path}{suffix}")

    @invariant()
    def index_equals_a_rebuild(self):
        assert observe(self.rag) == rebuilt(self.method, tuple(sorted(self.model.items())))

    @invariant()
    def index_is_valid(self):
        assert self.rag.verify().problems == ()
        assert [state.id for state in self.rag.status()] == sorted(self.model)

    def teardown(self):
        self.rag.close()
        shutil.rmtree(self.folder)


class ContentHistories(Histories):
    """The same with content-defined chunks and groups."""

    method = "content"


HISTORY_SETTINGS = settings(examples(5), stateful_step_count=15)
TestFixed = Histories.TestCase
TestFixed.pytestmark = [pytest.mark.slow]
TestFixed.settings = HISTORY_SETTINGS
TestContent = ContentHistories.TestCase
TestContent.pytestmark = [pytest.mark.slow]
TestContent.settings = HISTORY_SETTINGS


@pytest.mark.slow
def test_histories_in_postgres(postgres, tmp_path, monkeypatch):
    monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path))

    class PostgresHistories(Histories):
        def __init__(self):
            self.schema = f"h{uuid.uuid4().hex[:20]}"
            super().__init__()

        @property
        def path(self):
            return f"{postgres.url}?schema={self.schema}"

        def keep_state_of_crash(self):
            postgres.end_connections()

        def teardown(self):
            super().teardown()
            drop_index(self.path)

    run_state_machine_as_test(
        PostgresHistories, settings=settings(examples(3), stateful_step_count=10)
    )
