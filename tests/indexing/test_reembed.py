"""The embedder of an index is replaced in one step, without an extractor or a language model."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    FreshnessPolicy,
    HashingEmbedder,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    EmbeddingError,
    IndexingError,
    InvalidInputError,
    SettingsMismatchError,
    StoppedError,
    StoreError,
)
from fakes import STORY, CountingExtractor, CountingLLM, FailingEmbedder, NameExtractor
from strategies import examples

TEXT = " ".join(f"Anna met Bert {n} times in Oslo." for n in range(30))
DOCUMENTS = [
    SourceDocument("anna", TEXT, "Meetings"),
    SourceDocument("story", STORY, "Harbor"),
    SourceDocument("empty", ""),
]
QUESTIONS = ("Where did Anna meet Bert?", "Who sold the map?")
SMALL, LARGE = HashingEmbedder(64), HashingEmbedder(96)
SHORT = HashingEmbedder(64, 16)  # reads few tokens, so nodes have more windows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "i.e2g"


@pytest.fixture
def rag(path, open_index):
    """An index with summaries, tags and an entity edit."""
    rag = open_index(path, embedder=SMALL, summarizer=CountingLLM(), llm_id="fake", group_size=3)
    rag.add(DOCUMENTS)
    rag.set_tags(["harbor", "meeting"])
    rag.edit_entities(alias={"annie": "anna"})
    return rag


def answers(rag):
    return [rag.retrieve(question, k=9).nodes for question in QUESTIONS]


def test_an_embedded_again_index_equals_a_new_one(rag, open_index):
    report = rag.reembed(LARGE)
    nodes = rag.stats().chunks + rag.stats().summaries
    assert (report.documents, report.embedded, report.llm_calls) == (3, nodes, 0)
    new = open_index(embedder=LARGE, summarizer=CountingLLM(), llm_id="fake", group_size=3)
    new.add(DOCUMENTS)
    new.set_tags(["harbor", "meeting"])
    new.edit_entities(alias={"annie": "anna"})
    assert list(rag.export()) == list(new.export())
    assert answers(rag) == answers(new)
    assert rag.tag_counts() == new.tag_counts()
    assert rag.stats().dimension == 96
    assert rag.verify().ok


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_only_the_embedder_is_called(path, open_index, is_async):
    extractor, llm = CountingExtractor(), CountingLLM()
    rag = open_index(path, embedder=SMALL, extractor=extractor, summarizer=llm, llm_id="fake")
    rag.add(DOCUMENTS)
    extracted, prompts = len(extractor.texts), llm.calls
    report = await rag.areembed(LARGE) if is_async else rag.reembed(LARGE)
    assert report.documents == 3
    assert (len(extractor.texts), llm.calls) == (extracted, prompts)
    rag.add(SourceDocument("new", "Emil left Oslo."))
    assert rag.verify().ok


def test_the_estimate_is_what_is_embedded(rag):
    nodes = rag.stats().chunks + rag.stats().summaries
    estimate = rag.estimate_reembed(LARGE)
    assert estimate.nodes == nodes
    assert 0 < estimate.windows <= nodes
    assert estimate.tokens > estimate.windows
    rag.reembed(LARGE)
    assert rag.estimate_reembed(LARGE).windows == 0
    assert rag.reembed(LARGE).skipped == ("anna", "empty", "story")


def test_nodes_get_the_windows_of_the_new_embedder(rag, open_index, path):
    before = rag.stats().windows
    rag.reembed(SHORT)
    assert rag.stats().windows > before
    assert rag.verify().ok
    rag.close()
    assert answers(open_index(path, embedder=SHORT))


def test_a_failed_run_changes_nothing_and_its_vectors_are_reused(rag, open_index, path):
    found = answers(rag)
    with pytest.raises(EmbeddingError):
        rag.reembed(FailingEmbedder())
    assert answers(rag) == found
    assert rag.verify().ok
    rag.close()
    assert answers(open_index(path, embedder=SMALL)) == found


def test_an_undo_that_fails_does_not_hide_the_error_of_the_run(rag, monkeypatch):
    def note(store, embedder, progress, writer):
        if writer is None:
            raise StoreError("cannot write")

    class Broken(HashingEmbedder):
        def embed(self, texts):
            raise RuntimeError("no memory")

    monkeypatch.setattr("e2graphrag_integrations.indexing.reembed.note_reembedding", note)
    with pytest.raises(EmbeddingError, match="no memory"):
        rag.reembed(Broken(96))


class Stopping(HashingEmbedder):
    """Asks an index to stop while it embeds."""

    def __init__(self, rag):
        super().__init__(96)
        self.rag = rag
        self.texts = 0

    def embed(self, texts):
        self.texts += len(texts)
        self.rag.stop()
        return super().embed(texts)


def test_a_stopped_run_changes_nothing_and_the_next_one_continues(rag):
    rag.add(SourceDocument("long", " ".join(f"Anna met Bert {n} times." for n in range(300))))
    found, stopping = answers(rag), Stopping(rag)
    windows = rag.estimate_reembed(stopping).windows
    with pytest.raises(StoppedError, match=r"reembed\(\)"):
        rag.reembed(stopping)
    assert answers(rag) == found
    assert 0 < stopping.texts < windows
    assert rag.estimate_reembed(stopping).windows == windows - stopping.texts
    assert rag.reembed(LARGE).documents == 4


def test_vectors_of_an_earlier_run_do_not_count_for_the_speed(rag):
    rag.add(SourceDocument("long", " ".join(f"Anna met Bert {n} times." for n in range(300))))
    with pytest.raises(StoppedError):
        rag.reembed(Stopping(rag))
    events = []
    report = rag.reembed(LARGE, progress=events.append)
    last = [one for one in events if one.stage == "embed"][-1]
    assert (last.done, last.done - last.reused) == (last.total, report.embedded)
    assert 0 < report.embedded < last.total
    assert last.rate == pytest.approx(report.embedded / last.seconds)


KILLED = """
import os, sys
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models
from e2graphrag_integrations.store import store
from fakes import NameExtractor

calls = 0

class Embedder(HashingEmbedder):
    def embed(self, texts):
        global calls
        calls += len(texts)
        if sys.argv[2] == "embed" and calls > 64:
            os._exit(9)
        return super().embed(texts)

if sys.argv[2] == "commit":
    store.new_generation = lambda db: os._exit(9)  # the last step of the transaction
models = Models(extractor=NameExtractor())
E2GraphRAG.open(sys.argv[1], embedder="hashing", models=models).reembed(Embedder(96))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["embed", "commit"])
def test_a_killed_run_leaves_the_old_vectors_and_is_continued(path, moment):
    text = " ".join(f"Anna met Bert {n} times in Oslo." for n in range(900))

    class Counting(HashingEmbedder):
        embedded = 0

        def embed(self, texts):
            Counting.embedded += len(texts)
            return super().embed(texts)

    models = Models(extractor=NameExtractor())
    with E2GraphRAG.open(path, embedder="hashing", chunk_size=200, models=models) as rag:
        rag.add(SourceDocument("a", text))
        found, windows = answers(rag), rag.stats().windows
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, path, moment],
        cwd=sys.modules["fakes"].__file__.rpartition("/")[0],
        check=False,
    )
    assert killed.returncode == 9
    with E2GraphRAG.open(path, models=models) as rag:
        assert rag.verify().ok
        assert answers(rag) == found
        rag.reembed(Counting(96))
        assert Counting.embedded <= windows + 8 - (64 if moment == "embed" else windows)
        assert rag.verify().ok


def test_a_damaged_row_is_reported_and_nothing_changes(rag):
    with rag.store.transaction() as db:
        db.execute("UPDATE nodes SET text = 'x' WHERE level = 0")
    with pytest.raises(CorruptStoreError):
        rag.reembed(LARGE)
    assert rag.made_with["dimension"] == "64"


def test_vectors_that_another_writer_deleted_are_noticed(rag, monkeypatch):
    replace_vectors = rag.store.replace_vectors

    def after_a_deletion(*arguments):
        with rag.store.transaction() as db:
            db.execute(
                "DELETE FROM content WHERE kind = 'vector' "
                "AND key NOT IN (SELECT content_key FROM windows)"
            )
        replace_vectors(*arguments)

    monkeypatch.setattr(rag.store, "replace_vectors", after_a_deletion)
    with pytest.raises(IndexingError, match=r"call reembed\(\) again"):
        rag.reembed(LARGE)
    assert rag.verify().ok


def test_questions_about_the_old_state_use_the_old_embedder(path, open_index):
    rag = open_index(path, embedder=SMALL, read_your_writes=False)
    rag.add(DOCUMENTS)
    old = rag.read_snapshot(lambda snapshot, _: snapshot)
    rag.reembed(LARGE)
    components = rag.parts_for_scopes()[0].components
    for _ in range(2):
        assert components.embedder_for(old.made_with).dimension == 64
        assert components.embedder_for(rag.store.manifest()).dimension == 96


@pytest.mark.slow
def test_other_handles_load_a_named_embedder_and_refuse_another(path, open_index):
    rag = open_index(path, embedder="hashing")
    rag.add(DOCUMENTS)
    other = open_index(path, embedder=None, max_staleness=0)
    assert answers(other)
    rag.reembed(LARGE)
    with pytest.raises(SettingsMismatchError, match="embedder"):
        other.retrieve(QUESTIONS[0])
    rag.reembed("hashing")
    assert answers(other) == answers(rag)
    with E2GraphRAG.open(
        path, freshness=FreshnessPolicy(max_staleness=0), models=Models(extractor=NameExtractor())
    ) as third:
        assert answers(third) == answers(rag)


def test_copies_and_pickles_have_the_new_embedder(path):
    with E2GraphRAG.open(path, embedder=SMALL) as rag:
        rag.add(DOCUMENTS[:1])
        rag.reembed("hashing")
        for other in (copy.deepcopy(rag), pickle.loads(pickle.dumps(rag))):  # noqa: S301 - own
            with other:
                assert answers(other) == answers(rag)


def test_documents_that_wait_are_indexed_with_the_new_embedder(path, open_index):
    rag = open_index(path, embedder=SMALL)
    rag.add(DOCUMENTS[0])
    rag.add(DOCUMENTS[1], wait=False)
    rag.reembed(LARGE)
    assert rag.resume().documents == 1
    assert rag.verify().ok
    assert rag.retrieve("Who sold the map?").nodes


def test_a_listener_and_a_cached_summary_of_another_type_are_refused(rag):
    with pytest.raises(InvalidInputError, match="progress=3 must be a function"):
        rag.reembed(LARGE, progress=3)
    with pytest.raises(InvalidInputError, match="summary contains a lone surrogate"):
        rag.cache_summaries([(["Anna."], 1, "\ud800")])


@pytest.mark.parametrize("wait", [True, False])
def test_an_index_without_documents_keeps_its_embedder_and_says_so(path, open_index, wait):
    rag = open_index(path, embedder=SMALL)
    rag.add(DOCUMENTS[0], wait=wait)
    if wait:
        rag.delete("anna")
    for call in (rag.reembed, rag.estimate_reembed):
        with pytest.raises(InvalidInputError, match="no vectors yet"):
            call(LARGE)
    assert rag.replaced_embedder is SMALL
    rag.add(DOCUMENTS[1])
    assert answers(copy.deepcopy(rag)) == answers(rag)


@pytest.mark.parametrize("embedder", [5, None, object()])
def test_something_else_than_an_embedder_is_refused(rag, embedder):
    with pytest.raises(InvalidInputError, match="embedder"):
        rag.reembed(embedder)


@pytest.mark.slow
def test_an_index_in_postgres_is_embedded_again(postgres_url, open_index):
    rag = open_index(postgres_url, embedder=SMALL)
    rag.add(DOCUMENTS)
    rag.reembed(LARGE)
    own = open_index(embedder=LARGE)
    own.add(DOCUMENTS)
    assert list(rag.export()) == list(own.export())
    assert answers(rag) == answers(own)


@given(
    texts=st.lists(st.text(alphabet="AnaBo .\n", max_size=80), min_size=1, max_size=4),
    dimensions=st.lists(st.sampled_from([8, 16, 32]), min_size=1, max_size=3),
)
@examples(20)
def test_any_sequence_of_embedders_ends_as_a_new_index(texts, dimensions):
    documents = [SourceDocument(str(n), text) for n, text in enumerate(texts)]
    models = Models(extractor=NameExtractor())
    with (
        E2GraphRAG.open(":memory:", embedder=HashingEmbedder(64), models=models) as rag,
        E2GraphRAG.open(":memory:", embedder=HashingEmbedder(dimensions[-1]), models=models) as new,
    ):
        rag.add(documents)
        new.add(documents)
        for dimension in dimensions:
            rag.reembed(HashingEmbedder(dimension))
        assert list(rag.export()) == list(new.export())
        assert rag.verify().ok


def test_real_vectors_replace_hashed_ones(real_embedder, real_extractor):
    with E2GraphRAG.open(
        ":memory:", embedder="hashing", models=Models(extractor=real_extractor)
    ) as rag:
        rag.add([DOCUMENTS[1], SourceDocument("whale", "Whales weigh up to 150 tonnes.")])
        rag.reembed(real_embedder)
        [node] = rag.retrieve("How heavy are big sea mammals?", k=1, mode="global").nodes
        assert node.document_id == "whale"
        assert rag.verify().ok
