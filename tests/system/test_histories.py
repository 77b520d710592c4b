"""Whatever happens to an index, it is one built anew from the documents that survived."""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from fakes import CountingLLM, NameExtractor

QUESTIONS = ("Did Anna meet Bert?", "Who ran?")
SENTENCES = [
    f"{one} {verb} {other}."
    for one in ("Anna", "Bert", "Cleo", "Dora")
    for verb in ("met", "saw", "left")
    for other in ("Emil", "Fay", "Gus")
]
texts = st.lists(st.sampled_from(SENTENCES), max_size=14).map(" ".join)
ids = st.sampled_from("abcd")
batches = st.dictionaries(ids, texts, min_size=1, max_size=3)


class Death(BaseException):
    """The end of a process."""


class MortalLLM(CountingLLM):
    """A model in the middle of whose work the process may die."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: int | None = None

    def __call__(self, prompt: str) -> str:
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0:
                raise Death
        return super().__call__(prompt)


def opened(path, llm, cut):
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(16),
        extractor=NameExtractor(),
        summarizer=llm,
        summarizer_id="mortal",
        concurrency=2,
        chunk_size=9,
        chunk_overlap=0,
        group_size=2,
        chunking=cut,
        grouping=cut,
    )


def of(documents):
    return [SourceDocument(id_, text, metadata={"of": id_}) for id_, text in documents.items()]


def seen(rag):
    return list(rag.export()), [rag.retrieve(question, k=6).nodes for question in QUESTIONS]


@lru_cache(maxsize=500)
def fresh(cut, documents):
    with opened(":memory:", CountingLLM(), cut) as rag:
        rag.add(of(dict(documents)))
        return seen(rag)


class Histories(RuleBasedStateMachine):
    """Adds, updates, deletes, reopenings and deaths in any order."""

    cut = "fixed"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.deaths = 0
        self.llm = MortalLLM()
        self.rag = opened(self.path, self.llm, self.cut)
        self.model: dict[str, str] = {}

    @property
    def path(self) -> Path:
        return self.folder / f"{self.deaths}.e2g"

    @rule(given=batches)
    def add(self, given):
        report = self.rag.add(of(given), on_duplicate="replace")
        unchanged = {id_ for id_, text in given.items() if self.model.get(id_) == text}
        assert set(report.skipped) == unchanged
        assert report.documents == len(given) - len(unchanged)
        self.model |= given

    @rule(given=batches)
    def keep_the_first_version(self, given):
        self.rag.add(of(given), on_duplicate="skip")
        self.model = given | self.model

    @precondition(lambda self: self.model)
    @rule(data=st.data(), sentence=st.sampled_from(SENTENCES))
    def edit(self, data, sentence):
        id_ = data.draw(st.sampled_from(sorted(self.model)))
        parts = self.model[id_].split(". ")
        at = data.draw(st.integers(0, len(parts)))
        text = ". ".join([*parts[:at], sentence.rstrip("."), *parts[at:]])
        estimate = self.rag.estimate(update=of({id_: text})).llm_calls
        report = self.rag.update(of({id_: text}))
        assert report.llm_calls + report.saved_calls == estimate
        self.model[id_] = text

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data):
        gone = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1))
        assert self.rag.delete(gone).documents == len(gone)
        self.model = {id_: text for id_, text in self.model.items() if id_ not in gone}

    @rule()
    def reopen(self):
        self.rag.close()
        self.rag = opened(self.path, self.llm, self.cut)

    @rule()
    def compact(self):
        self.rag.compact()

    @rule(given=batches, lives=st.integers(0, 8))
    def die(self, given, lives):
        self.llm.lives = lives
        made = self.llm.calls
        try:
            self.rag.add(of(given), on_duplicate="replace")
        except Death:
            died = True
        else:
            died = False
        self.llm.lives = None
        if died:
            self.come_back(given, made)
        self.model |= given

    def come_back(self, given, made):
        """Go on in another process with the files as they were when the first one died."""
        before, self.deaths = self.path, self.deaths + 1
        for suffix in ("", "-wal"):
            if Path(f"{before}{suffix}").exists():
                shutil.copy(f"{before}{suffix}", f"{self.path}{suffix}")
        old, self.rag = self.rag, opened(self.path, self.llm, self.cut)
        old.close()
        assert self.rag.verify().problems == ()
        there = {id_: self.rag.document(id_).text for id_ in self.rag.document_ids}
        waiting = {state.id for state in self.rag.status() if state.status != "done"}
        for id_, text in (self.model | given).items():
            assert there.get(id_) in {text, self.model.get(id_)}
            assert there.get(id_) == text or id_ in waiting
        self.rag.resume()
        assert {state.status for state in self.rag.status()} == {"done"}
        prompts = self.llm.prompts[made:]
        # What was finished before the death is not asked for again.
        assert len(prompts) == len(set(prompts))

    @invariant()
    def it_is_one_built_anew_from_what_is_there(self):
        assert seen(self.rag) == fresh(self.cut, tuple(sorted(self.model.items())))

    @invariant()
    def it_is_sound(self):
        assert self.rag.verify().problems == ()
        assert [state.id for state in self.rag.status()] == sorted(self.model)

    def teardown(self):
        self.rag.close()
        shutil.rmtree(self.folder)


class ContentHistories(Histories):
    """The same where chunks and groups are cut by content."""

    cut = "content"


HISTORIES = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestFixed = Histories.TestCase
TestFixed.settings = HISTORIES
TestContent = ContentHistories.TestCase
TestContent.settings = HISTORIES
