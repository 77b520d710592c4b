"""Vector indexes in Postgres and in Qdrant: the same answers, updates, faults and repairs."""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from e2graphrag_integrations import E2GraphRAG, QdrantVectors, SourceDocument
from e2graphrag_integrations.cli.main import main as cli
from e2graphrag_integrations.errors import (
    InvalidInputError,
    MissingDependencyError,
    StoreConnectionError,
    VectorIndexError,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.search import vector_index
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.store.rows import new_generation, renew_stamps
from e2graphrag_integrations.vectors import pgvector, writer
from fakes import STORY, NameExtractor
from postgres_server import FAST_SETTINGS, find_binaries, running_postgres
from qdrant_server import API_KEY, QdrantServer

QUESTION = "Who gave Anna the map?"
SOME = {"number": {"$gte": 2}}
"""A filter that allows most documents."""


def documents(count: int = 8, version: int = 1) -> list[SourceDocument]:
    return [
        SourceDocument(f"d{n}", f"{STORY} Tale {n} in version {version}.", metadata={"number": n})
        for n in range(count)
    ]


@dataclass
class Place:
    """An index and its vector index.

    Attributes:
        path: Path or URL of the index.
        vectors: The argument `vectors`.
        open_index: Opens the index.
        drop_one: Deletes one vector.
        clear: Deletes the whole vector index.
    """

    path: str
    vectors: str
    open_index: Callable[..., E2GraphRAG]
    drop_one: Callable[[], Any]
    clear: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)

    def open(self, **options: Any) -> E2GraphRAG:
        return self.open_index(self.path, **({"vectors": self.vectors} | options))

    def plain(self) -> E2GraphRAG:
        return self.open(vectors=None)


@pytest.fixture
def in_postgres(postgres_url, extension, open_index) -> Place:
    schema = postgres_url.rpartition("=")[2]

    def run(statement: str) -> None:
        with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as db:
            db.execute(f"SET search_path = {schema}; {statement}")

    return Place(
        postgres_url,
        "pgvector",
        open_index,
        lambda: run("DELETE FROM vectors WHERE place = (SELECT min(place) FROM vectors)"),
        lambda: run("DROP TABLE vectors, vector_documents, vector_index"),
    )


@pytest.fixture
def in_qdrant(qdrant: QdrantServer, tmp_path: Path, open_index) -> Iterator[Place]:
    name = f"c{uuid.uuid4().hex}"

    def drop_one() -> None:
        import qdrant_edge as edge

        shard = qdrant.collections[name]
        points, _ = shard.scroll(edge.ScrollRequest(limit=100))
        lost = next(one.id for one in points if isinstance(one.id, int))
        shard.update(edge.UpdateOperation.delete_points([lost]))

    yield Place(
        str(tmp_path / "index.e2g"),
        f"{qdrant.url}/{name}",
        open_index,
        drop_one,
        lambda: qdrant.collections.pop(name),
    )
    qdrant.fail_after, qdrant.needs_key = None, False


@pytest.fixture(params=["in_postgres", "in_qdrant"])
def place(request) -> Place:
    return request.getfixturevalue(request.param)


@pytest.fixture
def searches_everything(monkeypatch) -> None:
    """Search the vector index also where an exact search would be faster."""
    monkeypatch.setattr(vector_index, "_EXACT_LIMIT", 1)


def answer(rag: E2GraphRAG, question: str = QUESTION, **options: Any) -> list[tuple[str, float]]:
    nodes = rag.retrieve(question, **options).nodes
    return [(node.node_id, round(node.score, 9)) for node in nodes]


def use(rag: E2GraphRAG, **options: Any) -> vector_index.VectorUse:
    found = rag.retrieve(QUESTION, **options).trace.vectors
    assert found is not None
    return found


@pytest.mark.fast_cases(1)
@pytest.mark.usefixtures("searches_everything")
def test_answers_are_those_of_an_exact_search_also_under_filters(place):
    with place.open() as rag, place.plain() as plain:
        rag.add(documents())
        for options in ({}, {"where": SOME}, {"where": lambda m: m["number"] != 5}, {"k": 40}):
            assert answer(rag, **options) == answer(plain, **options)
            assert use(rag, **options).reasons == ()
        assert plain.retrieve(QUESTION).trace.vectors is None
        found = rag.retrieve(QUESTION, where=SOME).trace
        assert f"vectors: {found.vectors.windows} of" in found.explain()


@pytest.mark.fast_cases(1)
def test_an_update_writes_only_what_changed(place):
    with place.open(vectors=None) as writer_:
        writer_.add(documents())
        with place.open() as rag:
            assert "is empty: call update_vectors()" in use(rag).describe()
            first = rag.update_vectors()
            assert (first.documents, first.written, first.removed) == (8, 8, 0)
            assert first.vectors == use(rag).covered == use(rag).windows
            writer_.update(documents(2, version=2))
            writer_.delete("d7")
            rag.refresh()
            # The new versions are found in the snapshot until the next update.
            assert use(rag).covered < use(rag).windows
            assert use(rag).reasons == ()
            assert answer(rag) == answer(writer_)
            second = asyncio.run(rag.aupdate_vectors())
            assert (second.documents, second.written, second.removed) == (7, 2, 1)
            assert use(rag).covered == use(rag).windows
            assert answer(rag) == answer(writer_)
            assert rag.update_vectors().vectors == 0


@pytest.mark.slow
def test_a_reindex_changes_stamps_but_writes_no_vectors(place):
    with place.open() as rag:
        rag.add(documents())
        with rag.store.transaction() as db:  # as `reindex` does
            renew_stamps(db, rag.path)
            new_generation(db)
        rag.refresh()
        assert use(rag).covered == 0
        assert rag.update_vectors().vectors == 0
        assert use(rag).covered == use(rag).windows


@pytest.mark.fast_cases(1)
def test_a_reader_notices_an_update_by_another_process(place):
    with place.open(vectors=None) as writer_, place.open() as reader:
        writer_.add(documents())
        assert use(reader).covered == 0
        with place.open() as updater:
            updater.update_vectors()
        for _ in range(200):
            reader._vectors._connection.checked_at = -1e9
            if use(reader).covered:
                break
            threading.Event().wait(0.01)
        assert use(reader).reasons == ()


@pytest.mark.slow
def test_a_read_transaction_does_not_wait_for_the_contents(in_qdrant, monkeypatch):
    rag = in_qdrant.open()
    rag.add(documents())
    assert use(rag).covered
    snapshot, vectors, turns = build_snapshot(rag.store), rag._vectors, itertools.count()
    contents = vectors._index.contents
    is_reading, may_read = threading.Event(), threading.Event()

    def read():
        if next(turns) == 0:
            is_reading.set()
            assert may_read.wait(10)
        return contents()

    def search():
        with rag.read_transaction():
            return vectors.search(snapshot)

    monkeypatch.setattr(vectors._index, "contents", read)
    with ThreadPoolExecutor(2) as threads:
        reload = threads.submit(vectors.reload)
        assert is_reading.wait(10)
        threads.submit(search).result(5)
        may_read.set()
        reload.result(10)
    assert use(rag).covered == use(rag).windows


@pytest.mark.slow
@pytest.mark.usefixtures("searches_everything")
def test_places_of_an_earlier_build_are_not_used(place):
    with place.open() as reader, place.plain() as plain:
        reader.add(documents())
        assert use(reader).reasons == ()
        place.clear()
        with place.open(vectors=None) as writer_:
            writer_.delete("d0")  # so that all places differ
            with place.open() as updater:
                updater.update_vectors()
        assert answer(reader) == answer(plain)


@pytest.mark.slow
def test_lost_vectors_are_repaired_by_the_next_update(place, caplog):
    with place.open() as rag, place.plain() as plain:
        rag.add(documents())
        place.drop_one()
        assert answer(rag, k=200) == answer(plain, k=200)  # fewer than all windows: own vectors
        assert "found only" in use(rag, k=200).describe()
        report = rag.update_vectors()
        assert report.written == 1
        assert "1 documents lacked vectors" in caplog.text
        assert use(rag, k=200).reasons == ()
        place.clear()
        assert answer(rag) == answer(plain)
        assert use(rag).reasons
        assert rag.update_vectors().written == 8
        assert use(rag).reasons == ()


@pytest.mark.slow
def test_a_crash_in_the_middle_of_an_update_loses_nothing(place, monkeypatch):
    monkeypatch.setattr(writer, "_BATCH", 1)
    with place.open(vectors=None) as plain:
        plain.add(documents())
        with place.open() as rag:
            put, calls = rag._vectors._index.put, iter(range(100))

            def crash(batch):
                if next(calls) == 5:
                    raise StoreConnectionError("the machine went down")
                put(batch)

            monkeypatch.setattr(rag._vectors._index, "put", crash)
            with pytest.raises(StoreConnectionError, match="went down"):
                rag.update_vectors()
            assert answer(rag) == answer(plain)
            monkeypatch.setattr(rag._vectors._index, "put", put)
            assert rag.update_vectors().written == 3
            assert use(rag).covered == use(rag).windows


@pytest.mark.slow
def test_two_updates_at_once_write_the_same(place):
    with place.open(vectors=None) as plain:
        plain.add(documents())
        handles = [place.open() for _ in range(2)]
        threads = [threading.Thread(target=one.update_vectors) for one in handles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rag = handles[0]
        rag.update_vectors()
        assert rag._vectors._index.count() == use(rag).windows == use(rag).covered
        assert answer(rag) == answer(plain)
        for one in handles:
            one.close()


@pytest.mark.slow
def test_an_index_with_another_embedder_replaces_the_vectors(place):
    with place.open() as rag:
        rag.add(documents(2))
        rag.delete(["d0", "d1"])
        assert rag._vectors._index.count() == 0
    from e2graphrag_integrations import HashingEmbedder

    with place.open(embedder=HashingEmbedder(64)) as rag:
        rag.add(documents(3))
        assert use(rag).covered == use(rag).windows
        contents = rag._vectors._index.contents()
        assert contents is not None
        assert (contents.dimension, len(contents.documents)) == (64, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("searches_everything")
def test_a_filter_that_hnsw_cannot_satisfy_is_searched_exactly(place, monkeypatch):
    with place.open() as rag, place.plain() as plain:
        rag.add(documents())
        token = rag._vectors._index.token()
        nothing = vector_index.Hits(np.empty(0, dtype=np.int64), token)
        monkeypatch.setattr(rag._vectors._index, "search", lambda *_: nothing)
        assert answer(rag, where=SOME) == answer(plain, where=SOME)
        assert "exact, because it found only 0 of" in use(rag, where=SOME).describe()


@pytest.mark.fast_cases(1)
def test_a_selective_filter_does_not_ask_the_server(place, monkeypatch):
    with place.open() as rag, place.plain() as plain:
        rag.add(documents())
        assert answer(rag, where={"number": 3}) == answer(plain, where={"number": 3})
        assert "allows only 6 windows" in use(rag, where={"number": 3}).describe()


# Postgres


def test_postgres_without_the_extension_is_an_error_that_names_the_statement(
    postgres, postgres_url, extension, open_index
):
    with psycopg.connect(postgres.url, autocommit=True) as db:
        name = f"n{uuid.uuid4().hex}"
        db.execute(f"CREATE DATABASE {name}")
    url = postgres_url.replace("/postgres?", f"/{name}?")
    with pytest.raises(VectorIndexError, match="run CREATE EXTENSION vector"):
        open_index(url, vectors="pgvector")
    with open_index(url) as rag:
        rag.add(documents(1))
        assert answer(rag)


def test_pgvector_needs_an_index_in_postgres(open_index, tmp_path):
    with pytest.raises(InvalidInputError, match="needs an index in Postgres"):
        open_index(tmp_path / "index.e2g", vectors="pgvector")


@pytest.mark.usefixtures("searches_everything")
def test_pgvector_is_searched_by_its_graph_in_one_transaction(in_postgres):
    with in_postgres.open() as rag:
        rag.add(documents())
        database = rag.store.database
        [(plan,)] = database.read(
            "SELECT count(*) FROM pg_indexes WHERE indexname = 'vectors_by_similarity' "
            "AND indexdef LIKE '%hnsw%m=''32''%' AND schemaname = current_schema()"
        )
        assert plan == 1
        with rag.read_transaction():
            assert use(rag, where=SOME).reasons == ()
            assert use(rag).reasons == ()  # the transaction was not ended
        assert rag.verify().ok
        rag.compact()


def test_dropping_an_index_drops_its_vectors(in_postgres):
    from e2graphrag_integrations import drop_index, list_indexes

    with in_postgres.open() as rag:
        rag.add(documents(1))
    drop_index(in_postgres.path)
    assert in_postgres.path.rpartition("=")[2] not in {
        one.schema for one in list_indexes(in_postgres.path)
    }


def test_pgvector_rejects_dimensions_that_it_cannot_index(in_postgres):
    from e2graphrag_integrations import HashingEmbedder

    with in_postgres.open(embedder=HashingEmbedder(4001), vectors=None) as rag:
        rag.add(documents(1))
    with (
        in_postgres.open(embedder=HashingEmbedder(4001)) as rag,
        pytest.raises(VectorIndexError, match="up to 4000 dimensions"),
    ):
        rag.update_vectors()


@pytest.mark.slow
@pytest.mark.usefixtures("searches_everything")
def test_older_versions_of_pgvector_have_the_same_answers(open_index, tmp_path, monkeypatch):
    """Version 0.6 has neither half precision nor iterative scans."""
    binaries = find_binaries("pgserver")
    if binaries is None or "pgserver" not in str(binaries):
        pytest.skip("there is no pgserver for this version of Python")
    monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path))
    with running_postgres(FAST_SETTINGS, "pgserver") as server:
        with psycopg.connect(server.url, autocommit=True) as db:
            db.execute("CREATE EXTENSION vector")
        with (
            open_index(f"{server.url}?schema=s", vectors="pgvector") as rag,
            open_index(f"{server.url}?schema=s") as plain,
        ):
            rag.add(documents())
            for options in ({}, {"where": SOME}):
                assert answer(rag, **options) == answer(plain, **options)
                assert use(rag, **options).reasons == ()


# Qdrant


def test_a_lost_server_is_replaced_by_the_own_vectors_and_named(in_qdrant, qdrant, caplog):
    with in_qdrant.open() as rag, in_qdrant.plain() as plain:
        rag.add(documents())
        qdrant.fail_after = 0
        assert answer(rag) == answer(plain)
        assert "own vectors instead of Qdrant" in use(rag).describe()
        assert "503" in use(rag).describe()
        asked = len(qdrant.requests)
        assert answer(rag) == answer(plain)
        assert len(qdrant.requests) == asked  # not asked again at once
        with caplog.at_level(logging.WARNING):
            rag.add(SourceDocument("new", "Anna met Zoe."))  # is not lost
        assert "was not updated" in caplog.text
        with pytest.raises(StoreConnectionError, match="Service is shutting down"):
            rag.update_vectors()
        qdrant.fail_after = None
        rag._vectors._connection.retry_at = 0
        rag.update_vectors()
        assert use(rag).covered == use(rag).windows


@pytest.mark.slow
def test_a_server_that_dies_between_two_requests_of_an_update_is_continued(in_qdrant, qdrant):
    with in_qdrant.open(vectors=None) as plain:
        plain.add(documents(3))
        with in_qdrant.open() as rag:
            for count in range(30):
                qdrant.fail_after = count
                try:
                    rag.update_vectors()
                except StoreConnectionError:
                    continue
                break
            qdrant.fail_after = None
            rag.update_vectors()
            assert use(rag).covered == use(rag).windows == rag._vectors._index.count()


@pytest.mark.slow
def test_a_collection_of_others_is_never_changed(in_qdrant, qdrant, open_index, tmp_path):
    with in_qdrant.open() as rag:
        rag.add(documents(2))
    before = qdrant.collections[in_qdrant.vectors.rpartition("/")[2]]
    with open_index(tmp_path / "other.e2g", vectors=in_qdrant.vectors) as other:
        other.add(documents(1))
        with pytest.raises(VectorIndexError, match="other points than the vectors of this index"):
            other.update_vectors()
        with pytest.raises(VectorIndexError, match="choose another collection"):
            other.retrieve(QUESTION)
        assert qdrant.collections[in_qdrant.vectors.rpartition("/")[2]] is before
        assert other.update_vectors(replace=True).written == 1
        assert use(other).covered == use(other).windows


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_the_key_is_sent_and_never_shown(in_qdrant, qdrant, monkeypatch, caplog):
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    qdrant.needs_key = True
    wrong = "wrong-key-0123456789"
    secret = QdrantVectors(in_qdrant.vectors, api_key=API_KEY)
    with in_qdrant.open(vectors=secret) as rag:
        rag.add(documents(2))
        assert use(rag).reasons == ()
        assert API_KEY not in repr(secret) + rag.retrieve(QUESTION).trace.explain()
        assert copy.copy(secret).key is None  # it is reduced like a pickle
        assert API_KEY.encode() not in pickle.dumps(secret)
    monkeypatch.setenv("QDRANT_API_KEY", wrong)
    with in_qdrant.open() as rag:
        with pytest.raises(VectorIndexError, match="refused the API key") as caught:
            rag.update_vectors()
        assert wrong not in str(caught.value)
        with pytest.raises(VectorIndexError, match="refused the API key"):
            rag.retrieve(QUESTION)
    assert wrong not in caplog.text


@pytest.mark.parametrize("key", ["secret\x00key", "sécret", "two\nlines"])
def test_a_key_that_no_header_can_contain_is_refused_without_showing_it(key, monkeypatch):
    with pytest.raises(InvalidInputError, match="no header can contain") as caught:
        QdrantVectors("http://127.0.0.1:6333/c", api_key=key)
    assert key not in str(caught.value)
    monkeypatch.setenv("QDRANT_API_KEY", " from-a-file\n")
    assert QdrantVectors("http://127.0.0.1:6333/c").key == "from-a-file"


@pytest.mark.parametrize(
    "vectors",
    [
        "faiss",
        "http://host:6333",
        "http://user:secret@host:6333/c",
        "http://host:99999/c",
        "http://host:port/c",
        "http://[::1/c",
        "",
        7,
        "ftp://a/b",
    ],
)
def test_an_invalid_argument_is_rejected_before_anything_is_written(vectors, tmp_path):
    with pytest.raises(InvalidInputError) as caught:
        E2GraphRAG.open(tmp_path / "index.e2g", vectors=vectors)
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(in_qdrant, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "qdrant_client", None)
    with pytest.raises(MissingDependencyError, match=r"e2graphrag-integrations\[qdrant\]"):
        in_qdrant.open()


# Real vectors, the other faces


@pytest.mark.slow
@pytest.mark.usefixtures("searches_everything")
def test_real_vectors_are_found_by_pgvector_and_qdrant(
    in_postgres, in_qdrant, real_embedder, tmp_path
):
    options = {"embedder": real_embedder, "extractor": NameExtractor()}
    with E2GraphRAG.open(tmp_path / "plain.e2g", **grouped(options)) as rag:
        rag.add(documents(5))
        expected = answer(rag)
    for one in (in_postgres, in_qdrant):
        with E2GraphRAG.open(one.path, **grouped({"vectors": one.vectors, **options})) as rag:
            rag.add(documents(5))
            rag.update_vectors()
            assert answer(rag) == expected
            assert rag.retrieve(QUESTION).trace.vectors.reasons == ()


def test_langchain_uses_the_vector_index(in_qdrant):
    from langchain_core.documents import Document

    from e2graphrag_integrations import HashingEmbedder

    options = {"embeddings": HashingEmbedder(), "extractor": NameExtractor()}
    with E2GraphRAGIndex.open(
        in_qdrant.path, **grouped({"vector_store": in_qdrant.vectors, **options})
    ) as index:
        index.add_documents([Document(STORY, metadata={"source": "a"})])
        found = index.rag.retrieve(QUESTION)
        assert found.trace.vectors.reasons == ()
        assert found.trace.vectors.covered > 0
        assert index.rag.update_vectors().written == 0


def test_the_command_line_updates_and_searches(in_qdrant, capsys):
    with in_qdrant.open_index(in_qdrant.path, embedder="hashing") as rag:
        rag.add(documents(2))
    assert cli(["export", "vectors", in_qdrant.path, in_qdrant.vectors]) == 0
    assert "2 document(s): wrote 2" in capsys.readouterr().out
    options = ["--vectors", in_qdrant.vectors, "--explain", "--mode", "global"]
    assert cli(["query", in_qdrant.path, QUESTION, *options]) == 0
    assert "vectors: " in capsys.readouterr().out


def test_places_in_a_filter_are_a_bitmap_of_postgres(in_postgres):
    bits, end = pgvector._bitmap(np.asarray([3, 9, 17]))
    with in_postgres.open() as rag:
        rows = rag.store.read("SELECT get_bit(?, n) FROM generate_series(0, ?) n", (bits, end - 1))
    assert [n for n, (bit,) in enumerate(rows) if bit] == [3, 9, 17]
