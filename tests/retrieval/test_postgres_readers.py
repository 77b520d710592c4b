"""Readers of an index in Postgres: round trips, notices of changes, and the server's faults."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from e2graphrag_integrations import HashingEmbedder, HybridStrategy, SourceDocument
from e2graphrag_integrations._utils.postgres_urls import parse_postgres_url
from e2graphrag_integrations.errors import StoreConnectionError, StoreError
from e2graphrag_integrations.store.postgres import connection as postgres_connection
from e2graphrag_integrations.store.postgres import listener as postgres_listener
from fakes import CountingLLM, NameExtractor
from postgres_server import running_postgres

N_DOCUMENTS = 12
PLACES = ["Oslo", "Bonn", "Riga", "Lima"]
OPTIONS = {
    "embedder": HashingEmbedder(),
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
}


def document(number: int, version: int = 0) -> SourceDocument:
    """Return a document in which every version has a name of its own."""
    text = f"Anna met Bert in {PLACES[number % 4]}. Bert sold map {number} to Cleo. "
    text += f"Name{number}v{version} left."
    return SourceDocument(f"d{number:02}", text, metadata={"version": version})


def found_nodes(rag, document_id):
    return rag.retrieve("Who left?", k=500, where={"document_id": document_id}).nodes


def found(rag, question="Who left?", **options):
    return {node.document_id for node in rag.retrieve(question, k=500, **options).nodes}


def wait_until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "the condition was not met"
        time.sleep(0.005)


def listeners():
    return [one for one in threading.enumerate() if one.name == "e2graphrag-listen"]


@pytest.fixture
def opened(postgres_url, open_index, request):
    """Return an index with 12 documents, and a function that opens it again."""
    own = OPTIONS | getattr(request, "param", {})
    writer = open_index(postgres_url, **own)
    writer.add([document(number) for number in range(N_DOCUMENTS)])
    return writer, lambda url=postgres_url, **options: open_index(url, **(own | options))


WITH_LLM = pytest.mark.parametrize(
    "opened", [{"summarizer": CountingLLM(), "llm_id": "counting"}], indirect=True
)
"""No summary repeats its chunks."""


@pytest.fixture
def statements(monkeypatch):
    """Return the statements that this thread sends, in the order in which it sends them."""
    sent, thread = [], threading.current_thread()
    execute = psycopg.Connection.execute

    def counted(connection, query, *arguments, **options):
        if threading.current_thread() is thread:
            sent.append(query if isinstance(query, str) else query.as_string(connection))
        return execute(connection, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    return sent


# Round trips

WITHOUT_BRIDGES = HybridStrategy(bridge_weight=0)


@pytest.mark.fast_cases(1)
@WITH_LLM
@pytest.mark.parametrize(
    "options", [{}, {"token_budget": 200}, {"where": {"document_id": "d03"}}, {"mode": "global"}]
)
@pytest.mark.parametrize(("strategy", "most"), [(WITHOUT_BRIDGES, 1), (HybridStrategy(), 2)])
def test_a_question_makes_one_round_trip_and_one_for_bridges(
    opened, statements, options, strategy, most
):
    _, reopen = opened
    reader = reopen()
    found(reader)  # the first question derives the search index
    for _ in range(3):
        statements.clear()
        result = reader.retrieve("Who sold the map to Cleo in Oslo?", strategy=strategy, **options)
        assert result.nodes
        assert result.trace.freshness.is_newest
        assert 1 <= len(statements) <= most, statements
        assert all("FROM nodes" in one for one in statements)


def test_nodes_in_the_place_of_repeated_summaries_are_read_in_a_second_round_trip(
    opened, statements
):
    _, reopen = opened
    reader = reopen()
    found(reader)
    for _ in range(3):
        statements.clear()
        result = reader.retrieve("Who sold the map to Cleo in Oslo?", strategy=WITHOUT_BRIDGES)
        assert result.trace.cuts["duplicates"]
        assert len(statements) == 2
        assert all("FROM nodes" in one for one in statements)


@WITH_LLM
def test_a_question_makes_one_round_trip_while_the_next_state_is_prepared(
    opened, statements, monkeypatch
):
    writer, reopen = opened
    reader = reopen()
    found(reader)
    monkeypatch.setattr(reader._session._generations, "_refresh_in_background", lambda: None)
    writer.add(document(20))
    found(reader)  # this answer shows that there is a newer state
    statements.clear()
    result = reader.retrieve("Who sold the map?", strategy=WITHOUT_BRIDGES)
    assert len(statements) == 1
    assert not result.trace.freshness.is_newest


def test_a_question_without_results_makes_at_most_one_round_trip(opened, statements):
    _, reopen = opened
    reader = reopen()
    found(reader)
    statements.clear()
    result = reader.retrieve("Who left?", where={"document_id": "none"})
    assert not result.nodes
    assert result.trace.freshness.is_newest
    assert len(statements) <= 1  # none if a notice has just told the newest generation


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("max_staleness", "count"), [(0, 2), (60, 1)])
def test_only_an_answer_without_an_allowed_age_needs_a_second_round_trip(
    opened, statements, max_staleness, count
):
    _, reopen = opened
    reader = reopen(max_staleness=max_staleness)
    found(reader)
    statements.clear()
    found(reader)
    assert len(statements) == count


def test_a_refresh_reads_only_the_changed_documents(opened, monkeypatch):
    writer, reopen = opened
    reader = reopen()
    found(reader)
    writer.update(document(3, 1))
    read, rows = type(reader.store.database).read, []

    def counted(database, query, parameters=()):
        result = read(database, query, parameters)
        rows.append((query, result))
        return result

    monkeypatch.setattr(type(reader.store.database), "read", counted)
    reader.refresh()
    texts = [row for query, result in rows if "stamp FROM" not in query for row in result]
    assert not [row for row in texts if {document(n).id for n in range(12) if n != 3} & {*row}]
    assert len([row for query, result in rows if "stamp FROM" in query for row in result]) == 12
    assert "d03" in found(reader, "Name3v1")


def test_a_second_reader_loads_the_search_index_that_the_first_has_derived(opened, monkeypatch):
    writer, reopen = opened
    first, second = reopen(), reopen()
    found(first)
    found(second)
    writer.add(document(20))
    first.refresh()
    read, queries = type(second.store.database).read, []

    def counted(database, query, parameters=()):
        queries.append(query)
        return read(database, query, parameters)

    monkeypatch.setattr(type(second.store.database), "read", counted)
    second.refresh()
    assert {query for query in queries if "manifest" not in query} == set()
    assert "d20" in found(second)


@pytest.mark.slow
def test_every_answer_beside_writers_comes_from_one_state(opened):
    """Documents are complete and of one version; of each writer, the first ones are there."""
    writer, reopen = opened
    size = {document(n).id: len(found_nodes(writer, document(n).id)) for n in range(2)}
    assert len({*size.values()}) == 1
    is_written = threading.Event()

    def write(rag, first):
        for number in range(first, first + 3):
            rag.add(document(number))
            rag.update(document(first, number))

    def read(rag):
        finished = False
        while not finished:
            finished = is_written.is_set()
            check(rag.retrieve("Who left?", k=500))

    def check(result):
        nodes = defaultdict(list)
        for node in result.nodes:
            nodes[node.document_id].append(node)
        assert {len(one) for one in nodes.values()} == {size["d00"]}
        assert all(len({node.metadata["version"] for node in one}) == 1 for one in nodes.values())
        missing = 0
        for first in (20, 40):
            numbers = [int(one[1:]) for one in nodes if first <= int(one[1:]) < first + 3]
            missing += max(numbers, default=first - 1) + 1 - first - len(numbers)
        assert missing <= result.trace.freshness.left_out

    settings = ({}, {"max_staleness": 0}, {"max_staleness": 0.05})
    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read, reopen(**one)) for one in settings]
        writers = [pool.submit(write, reopen(), first) for first in (20, 40)]
        wait(writers)
        is_written.set()
    for future in (*writers, *readers):
        future.result()
    assert len(writer.document_ids) == N_DOCUMENTS + 6


# Notices


def generation_of(rag) -> str:
    """Return the generation that would answer the next question."""
    return rag._session._generations._last.name


def listening_reader(reopen, **options):
    reader = reopen(**options)
    found(reader)
    found(reader)  # the second question starts the listener
    return reader


def test_a_change_is_prepared_before_the_next_question(opened):
    writer, reopen = opened
    reader = listening_reader(reopen)
    writer.add(document(20))
    wait_until(lambda: generation_of(reader) == writer.store.generation)
    result = reader.retrieve("Who left?", k=500)
    assert "d20" in {node.document_id for node in result.nodes}
    assert result.trace.freshness.is_newest
    assert not result.trace.freshness.waited


def test_a_reader_that_nobody_asks_prepares_only_one_state(opened, statements):
    writer, reopen = opened
    reader = listening_reader(reopen)
    writer.add(document(20))
    wait_until(lambda: generation_of(reader) == writer.store.generation)
    before = generation_of(reader)
    for number in range(21, 24):
        writer.add(document(number))
    known = reader.store.database._newest
    wait_until(lambda: known.known.name == writer.store.generation)
    assert generation_of(reader) == before


@pytest.mark.slow
def test_without_notices_every_promise_holds(opened, monkeypatch):
    """As if each notice was late: it never arrives."""
    monkeypatch.setattr(postgres_listener, "_run", lambda state, *_: state.close())
    writer, reopen = opened
    strict, patient, default = reopen(max_staleness=0), reopen(max_staleness=3600), reopen()
    for reader in (strict, patient, default):
        found(reader)
    for version in range(1, 4):
        writer.update(document(5, version))
        assert "d05" in found(strict, f"Name5v{version}")
        found(default)  # its texts show that there is a newer state
        wait_until(lambda: generation_of(default) == writer.store.generation)
        assert "d05" in found(default)
        default.update(document(6, version))
        assert "d06" in found(default, f"Name6v{version}")
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 3601)
    assert {"d05", "d06"} <= found(patient)


@pytest.mark.slow
def test_the_listener_connects_again(opened, postgres, monkeypatch):
    monkeypatch.setattr(postgres_listener, "_RETRY_SECONDS", 0.01)
    writer, reopen = opened
    reader = listening_reader(reopen)
    for number in (20, 21):
        postgres.end_connections()
        assert found(reader)
        writer.add(document(number))
        wait_until(lambda: generation_of(reader) == writer.store.generation)
    assert len(listeners()) == 1


def test_the_listener_ends_with_the_index(opened):
    _, reopen = opened
    reader = listening_reader(reopen)
    assert len(listeners()) == 1
    reader.close()
    assert not listeners()


@pytest.mark.slow
def test_neither_a_fork_nor_the_end_of_the_process_waits_for_the_listener(opened, postgres_url):
    code = f"""
import os
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models
from fakes import CountingLLM, NameExtractor
models = Models(extractor=NameExtractor())
rag = E2GraphRAG.open({postgres_url!r}, embedder=HashingEmbedder(), models=models)
for _ in range(2):
    assert rag.retrieve("Who left?").nodes
child = os.fork()
for _ in range(2):
    assert rag.retrieve("Who left?").nodes
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Faults


@contextmanager
def failing_reads(monkeypatch, postgres, times):
    """End all connections just before a text is read, for the first `times` statements."""
    execute, failures = psycopg.Connection.execute, []

    def failing(connection, query, *arguments, **options):
        if isinstance(query, str) and "FROM nodes" in query and len(failures) < times:
            failures.append(query)
            postgres.end_connections()
        return execute(connection, query, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", failing)
        yield failures


def test_a_connection_lost_in_the_middle_of_a_question(opened, postgres, monkeypatch):
    _, reopen = opened
    reader = reopen()
    expected = found(reader)
    with failing_reads(monkeypatch, postgres, 1) as failures:
        assert found(reader) == expected
    assert len(failures) == 1
    with (
        failing_reads(monkeypatch, postgres, 2),
        pytest.raises(StoreConnectionError, match="was lost"),
    ):
        found(reader)
    assert found(reader) == expected


def test_more_threads_than_connections_take_turns(opened, monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.store.postgres.database._READERS", 2)
    _, reopen = opened
    reader = reopen()
    expected, answers = found(reader), []
    threads = [threading.Thread(target=lambda: answers.append(found(reader))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 8


def test_a_role_that_may_only_read_gets_notices(opened, postgres_url):
    writer, reopen = opened
    schema = parse_postgres_url(postgres_url).schema
    role = f"reader_{schema}"
    with psycopg.connect(parse_postgres_url(postgres_url).conninfo, autocommit=True) as db:
        db.execute(f"CREATE ROLE {role} LOGIN")
        db.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        db.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    reader = listening_reader(lambda: reopen(postgres_url.replace("e2g@", f"{role}@")))
    writer.add(document(20))
    wait_until(lambda: generation_of(reader) == writer.store.generation)
    assert "d20" in found(reader)
    with pytest.raises(StoreError, match="the server is read-only"):
        reader.add(document(21))


@pytest.mark.slow
@pytest.mark.usefixtures("postgres_url")
def test_a_standby_is_polled_and_a_restarted_server_answers_again(open_index, monkeypatch):
    monkeypatch.setattr(postgres_listener, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(postgres_listener, "_RETRY_SECONDS", 0.01)
    monkeypatch.setitem(postgres_connection._DEFAULTS, "connect_timeout", 2)
    with running_postgres() as server:
        url = f"{server.url}?schema=standby"
        writer = open_index(url, **OPTIONS)
        writer.add([document(number) for number in range(N_DOCUMENTS)])
        reader = listening_reader(lambda: open_index(url, **OPTIONS))
        expected = found(reader)
        server.stop()
        with pytest.raises(StoreConnectionError, match="whether the server runs"):
            found(reader)
        assert generation_of(reader)
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        assert found(reader) == expected
        with pytest.raises(StoreError, match="the server is read-only"):
            reader.add(document(20))
        with psycopg.connect(server.url) as db:
            db.execute("SELECT pg_promote()")
        writer.add(document(20))
        wait_until(lambda: generation_of(reader) == writer.store.generation)
        assert "d20" in found(reader)
        reader.close()
        writer.close()
