"""An index in Postgres: URLs, privileges, versions, lost connections, forks, and no passwords."""

from __future__ import annotations

import _thread
import copy
import os
import pickle
import sys
import threading
import time
import traceback
from contextlib import closing

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder
from e2graphrag_integrations._utils.postgres_urls import parse_postgres_url
from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    IndexGoneError,
    InvalidInputError,
    MissingDependencyError,
    NotAnIndexError,
    SchemaVersionError,
    StoreConnectionError,
    StoreError,
    StoreLockedError,
)
from e2graphrag_integrations.store import postgres as store_postgres
from e2graphrag_integrations.store.location import drop_index, list_indexes
from e2graphrag_integrations.store.postgres.schema import POSTGRES_VERSION
from e2graphrag_integrations.store.store import Store
from fakes import numbered
from postgres_server import running_postgres

PASSWORD = "hunter2-canary"  # noqa: S105 - of a server on loopback


def schema_of(url):
    return parse_postgres_url(url).schema


def execute(url, *statements):
    """Run statements, with `<s>` for the name of the schema, and return the last rows."""
    with psycopg.connect(parse_postgres_url(url).conninfo, autocommit=True) as db:
        results = [db.execute(one.replace("<s>", schema_of(url))) for one in statements]
        return results[-1].fetchall() if results[-1].description else None


@pytest.mark.parametrize(
    ("url", "schema", "shown"),
    [
        ("postgresql://host/db", "e2graphrag", "postgresql://host/db?schema=e2graphrag"),
        ("postgres://u:p%40@h:1/d?schema=a", "a", "postgresql://u@h:1/d?schema=a"),
        (
            "postgresql://u@h/d?password=p&sslmode=require&schema=b_2",
            "b_2",
            "postgresql://u@h/d?sslmode=require&schema=b_2",
        ),
        ("postgresql://a:1,b:2/d?schema=c", "c", "postgresql://a:1,b:2/d?schema=c"),
        (
            "postgresql:///d?host=/run/x",
            "e2graphrag",
            "postgresql:///d?host=%2Frun%2Fx&schema=e2graphrag",
        ),
    ],
)
def test_a_url_names_a_schema_and_is_shown_without_its_password(url, schema, shown):
    parsed = parse_postgres_url(url)
    assert (parsed.schema, parsed.shown) == (schema, shown)
    assert parse_postgres_url(parsed.shown).shown == shown
    assert parse_postgres_url(parsed.complete) == parsed
    assert "p%40" not in repr(parsed)


@pytest.mark.parametrize("call", [list_indexes, drop_index])
def test_a_url_that_is_no_text_is_refused(call):
    with pytest.raises(InvalidInputError, match="url must be a string, not int"):
        call(5)


def test_a_plus_sign_in_a_parameter_is_no_space():
    parsed = parse_postgres_url("postgresql://h/d?application_name=a+b%20c&schema=a")
    assert conninfo_to_dict(parsed.conninfo)["application_name"] == "a+b c"


@pytest.mark.parametrize("url", ["postgresql://.../db", "postgresql://h/d\ud800"])
def test_a_url_that_cannot_be_encoded_is_rejected(url):
    with pytest.raises(InvalidInputError):
        E2GraphRAG.open(url)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{PASSWORD}@h/db?schema=a;DROP TABLE x",
        f"postgresql://u:{PASSWORD}@h/db?schema=A",
        f"postgresql://u:{PASSWORD}@h/db?schema=pg_catalog",
        f"postgresql://u:{PASSWORD}@h/db?schema=information_schema",
        f"postgresql://u:{PASSWORD}@h/db?schema=",
        f"postgresql://u:{PASSWORD}@h/db?schema={'a' * 64}",
        f"postgresql://u:{PASSWORD}@h/db?schema=a&schema=b",
        f"postgresql://u:{PASSWORD}/x@h/db",
        f"postgresql://u:{PASSWORD}@x:y@h:1:2/db",
        f"postgresql://u:{PASSWORD}#@h/db",
        f"postgresql+psycopg://u:{PASSWORD}@h/db",
        f"postgresql://u:{PASSWORD}@h/db?nonsense=1",
    ],
)
def test_a_wrong_url_is_rejected_without_showing_the_password(url):
    with pytest.raises(InvalidInputError) as caught:
        E2GraphRAG.open(url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_server_that_does_not_answer_is_a_typed_error_without_the_password():
    url = f"postgresql://u:{PASSWORD}@127.0.0.1:1/db"
    with pytest.raises(StoreConnectionError, match="check the URL") as caught:
        E2GraphRAG.open(url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_without_psycopg_the_error_names_the_command_that_installs_it(monkeypatch):
    package = f"{store_postgres.__name__}."
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.setattr(store_postgres, name.removeprefix(package), sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[postgres\]'"
    ):
        E2GraphRAG.open("postgresql://host/db")


def test_the_password_is_shown_nowhere(postgres, postgres_url, open_index, story, caplog):
    execute(postgres_url, f"CREATE ROLE secretive LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    url = postgres_url.replace("e2g@", f"secretive:{PASSWORD}@")
    rag = open_index(url)
    rag.add(story)
    shown = [
        repr(rag),
        rag.path,
        str(rag.stats()),
        str(rag.verify()),
        str(rag.store.snapshot_folder),
    ]
    shown += [repr(vars(rag.store.database)), caplog.text]
    shown += [
        name for (name,) in execute(postgres_url, "SELECT application_name FROM pg_stat_activity")
    ]
    with pytest.raises(StoreLockedError) as caught, rag.write_lock():
        open_index(url, lock_timeout=0.01).add(numbered(3))
    shown += traceback.format_exception(caught.value)
    with pytest.raises(InvalidInputError) as existing:
        rag.copy_to(url)
    shown += traceback.format_exception(existing.value)
    assert not [text for text in shown if PASSWORD in text]
    with closing(copy.deepcopy(rag)) as other:  # in this process, the copy needs the password
        assert other.document_ids == ["story"]


def test_the_search_index_of_each_user_has_its_own_folder_in_the_cache(
    postgres_url, open_index, story, tmp_path, monkeypatch
):
    rag = open_index(postgres_url)
    rag.add(story)
    rag.retrieve("Ada")
    [folder] = (tmp_path / "cache").iterdir()
    assert folder == rag.store.snapshot_folder
    assert [one.name for one in folder.iterdir()] == [rag.store.generation]
    execute(postgres_url, "CREATE ROLE someone SUPERUSER LOGIN")
    folders = {folder, open_index(postgres_url.replace("e2g@", "someone@")).store.snapshot_folder}
    url = postgres_url.replace("e2g@", "")
    for user, options in (("e2g", ""), ("someone", ""), ("e2g", "-c app.tenant=a")):
        monkeypatch.setenv("PGUSER", user)
        monkeypatch.setenv("PGOPTIONS", options)
        folders.add(open_index(url).store.snapshot_folder)
    assert len(folders) == 5
    execute(postgres_url, "DROP ROLE someone")


def test_a_schema_with_other_tables_is_no_index(postgres_url, open_index):
    execute(postgres_url, "CREATE SCHEMA <s>", "CREATE TABLE <s>.documents (id int)")
    with pytest.raises(NotAnIndexError, match="choose another schema"):
        open_index(postgres_url)
    assert execute(postgres_url, "SELECT * FROM <s>.documents") == []


def test_an_empty_schema_becomes_an_index(postgres_url, open_index, story):
    execute(postgres_url, "CREATE SCHEMA <s>")
    open_index(postgres_url).add(story)
    assert open_index(postgres_url).retrieve("Anna?", k=1).nodes


@pytest.mark.parametrize("version", [1, 99])
def test_a_schema_of_another_format_version_is_refused(postgres_url, open_index, version):
    open_index(postgres_url).close()
    execute(postgres_url, f"UPDATE <s>.e2graphrag SET value = {version}")  # noqa: S608 - a number
    expected = f"format version {version}, .* only version {POSTGRES_VERSION}: index the documents"
    with pytest.raises(SchemaVersionError, match=expected):
        open_index(postgres_url)


def test_missing_privileges_are_typed_errors_that_say_what_to_grant(
    postgres_url, open_index, story
):
    open_index(postgres_url).add(story)
    schema = schema_of(postgres_url)
    role = f"role_{schema}"
    execute(postgres_url, f"CREATE ROLE {role} LOGIN")
    url = postgres_url.replace("e2g@", f"{role}@")
    with pytest.raises(StoreError, match="GRANT the role USAGE"):
        open_index(url)
    with pytest.raises(StoreError, match="CREATE on the database"):
        open_index(f"{url}2")
    execute(
        postgres_url,
        f"GRANT USAGE ON SCHEMA <s> TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA <s> TO {role}",
    )
    reader = open_index(url)
    assert reader.retrieve("Ada").nodes
    with pytest.raises(StoreError, match="INSERT, UPDATE and DELETE"):
        reader.add(numbered(3))
    assert [one.documents for one in list_indexes(url) if one.schema == schema] == [1]


def test_damage_is_found_by_its_checksum(postgres_url, open_index, story):
    rag = open_index(postgres_url)
    rag.add(story)
    execute(postgres_url, "UPDATE <s>.documents SET text = 'changed'")
    with pytest.raises(CorruptStoreError, match="does not match its checksum"):
        rag.document("story")
    assert not rag.verify().ok


def test_reads_survive_that_the_server_ends_all_connections(
    postgres, postgres_url, open_index, story
):
    rag = open_index(postgres_url)
    rag.add(story)
    before = list(rag.export())
    postgres.end_connections()
    assert list(rag.export()) == before
    postgres.end_connections()
    assert rag.retrieve("Ada").nodes
    postgres.end_connections()
    rag.add(numbered(3))  # no transaction had begun
    assert rag.verify().ok


def test_a_read_transaction_does_not_continue_on_another_connection(
    postgres, postgres_url, open_index, story
):
    rag = open_index(postgres_url)
    rag.add(story)

    def read():
        with rag.read_transaction():
            assert rag.document_ids == ["story"]
            postgres.end_connections()
            assert rag.document_ids

    with pytest.raises(StoreConnectionError, match="was lost"):
        read()
    assert rag.document_ids == ["story"]


def test_a_connection_lost_in_a_write_transaction_writes_nothing(
    postgres, postgres_url, open_index, story
):
    rag = open_index(postgres_url)
    rag.add(story)
    before, generation = list(rag.export()), rag.store.generation

    def write():
        with rag.store.transaction() as db:
            db.execute("DELETE FROM documents")
            postgres.end_connections()

    with pytest.raises(StoreConnectionError, match="was lost"):
        write()
    assert (list(rag.export()), rag.store.generation) == (before, generation)
    rag.add(numbered(3))
    assert rag.verify().ok


def test_a_writer_that_lost_its_lock_stops_and_the_next_call_continues(
    postgres, postgres_url, open_index
):
    documents = [numbered(40, f"d{number}", 100 * number) for number in range(4)]
    calls = []

    def summarize(prompt):
        calls.append(prompt)
        if len(calls) == 3:
            postgres.end_connections()
        return f"Summary {hash(prompt)}."

    rag = open_index(postgres_url, summarizer=summarize, llm_id="llm", concurrency=1)
    with pytest.raises(StoreConnectionError, match="lost during an operation"):
        rag.add(documents)
    assert not rag.writer()
    with open_index(postgres_url, summarizer=summarize, llm_id="llm") as other:
        other.add(documents, on_duplicate="replace")
        assert other.document_ids == [document.id for document in documents]
        assert other.verify().ok
    assert len(calls) - len(set(calls)) <= 1  # at most the call in flight is repeated


@pytest.mark.slow
@pytest.mark.usefixtures("postgres_url")
def test_a_server_that_restarts(open_index, story):
    with running_postgres() as server:
        rag = open_index(f"{server.url}?schema=restarts")
        rag.add(story)
        found = [node.text for node in rag.retrieve("Ada").nodes]
        server.stop()
        with pytest.raises(
            StoreConnectionError, match="check the URL, and whether the server runs"
        ):
            rag.document("story")
        with pytest.raises(StoreConnectionError):
            rag.add(numbered(3))
        server.start()
        assert [node.text for node in rag.retrieve("Ada").nodes] == found
        rag.add(numbered(3))
        assert rag.verify().ok
        rag.close()


def test_an_exhausted_pool_is_a_typed_error(postgres_url, monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.store.postgres.database._READERS", 1)
    with closing(Store(postgres_url, timeout=0.05)) as store, store.read_transaction():
        errors = []

        def read():
            try:
                store.generation  # noqa: B018
            except StoreConnectionError as error:
                errors.append(str(error))

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert "have been in use for 0.05 seconds" in errors[0]


def test_the_error_of_a_locked_index_names_the_holder(postgres_url, open_index):
    first, second = open_index(postgres_url), open_index(postgres_url, lock_timeout=0.05)
    with first.write_lock():
        assert second.writer() == first.store.index_lock.own()
        assert first.writer() is second.store.index_lock.own() is None
        with pytest.raises(StoreLockedError, match=rf"process {os.getpid()} \(.+\) on .* \(e2g"):
            second.add(numbered(3))
    second.add(numbered(3))


def test_the_lock_is_free_when_its_holder_dies(postgres, postgres_url, open_index):
    first, second = open_index(postgres_url), open_index(postgres_url, lock_timeout=5)
    with first.write_lock():
        postgres.end_connections()
        second.add(numbered(3))
        with pytest.raises(StoreConnectionError, match="with it the lock"):
            first.add(numbered(5, "other"))
    assert second.verify().ok


@pytest.mark.usefixtures("control_c")
def test_an_interrupt_before_a_write_transaction_leaves_no_lock(postgres_url, open_index):
    first, second = open_index(postgres_url), open_index(postgres_url)
    is_waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    def interrupt():
        while not execute(postgres_url, is_waiting):
            time.sleep(0.01)
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    with second.store.transaction():
        thread.start()
        with pytest.raises(KeyboardInterrupt), first.write_lock(), first.store.transaction():
            pass
    thread.join(10)
    assert second.writer() is None
    second.add(numbered(3))
    first.add(numbered(5, "other"))


def test_an_interrupt_after_the_lock_was_acquired_releases_it(
    postgres_url, open_index, monkeypatch
):
    first, second = open_index(postgres_url), open_index(postgres_url)

    def interrupt(query, keys):
        with first.store.database._write_lock:
            first.store.database._writer().execute(query, keys)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(first.store.database, "lock_session", interrupt)
        with pytest.raises(KeyboardInterrupt), first.write_lock():
            pass
    assert second.writer() is None
    second.add(numbered(3))


def test_a_dropped_index_is_a_typed_error_for_those_who_use_it(postgres_url, open_index, story):
    rag = open_index(postgres_url)
    rag.add(story)
    drop_index(postgres_url)
    with pytest.raises(StoreError, match="the index was dropped"):
        rag.document("story")
    with pytest.raises(IndexGoneError, match="was dropped"):
        rag.store.reopen()
    assert schema_of(postgres_url) not in [one.schema for one in list_indexes(postgres_url)]


def test_drop_keeps_what_is_not_of_the_index(postgres_url, open_index, story):
    open_index(postgres_url).add(story)
    execute(postgres_url, "CREATE TABLE <s>.own (id int)")
    drop_index(postgres_url)
    assert execute(postgres_url, "SELECT * FROM <s>.own") == []
    with pytest.raises(InvalidInputError, match="does not exist"):
        drop_index(postgres_url)


def test_drop_waits_for_a_reader_no_longer_than_its_timeout(postgres_url, open_index, story):
    rag = open_index(postgres_url)
    rag.add(story)
    conninfo = parse_postgres_url(postgres_url).conninfo
    with psycopg.connect(conninfo) as reader:
        nodes = sql.Identifier(schema_of(postgres_url), "nodes")
        reader.execute(sql.SQL("SELECT * FROM {}").format(nodes))
        with pytest.raises(StoreLockedError):
            drop_index(postgres_url, lock_timeout=0.05)
    assert rag.retrieve("Anna?").nodes
    drop_index(postgres_url)


def test_drop_deletes_tables_whose_policies_depend_on_others(postgres_url, open_index, story):
    open_index(postgres_url).add(story)
    policy = "USING (EXISTS (SELECT 1 FROM <s>.windows))"
    execute(postgres_url, f"CREATE POLICY own ON <s>.content {policy}")
    drop_index(postgres_url)
    assert schema_of(postgres_url) not in [one.schema for one in list_indexes(postgres_url)]


def test_drop_waits_for_a_writer(postgres_url, open_index, story):
    rag = open_index(postgres_url)
    with rag.write_lock(), pytest.raises(StoreLockedError):
        drop_index(postgres_url, lock_timeout=0.05)
    rag.add(story)


@pytest.mark.parametrize("url", ["novels.e2g", "postgresql://host/db"])
def test_drop_needs_a_url_that_names_the_schema(url):
    with pytest.raises(InvalidInputError):
        drop_index(url)


def test_a_forked_process_reads_but_does_not_write(postgres_url, open_index, story):
    rag = open_index(postgres_url)
    rag.add(story)
    rag.retrieve("Ada")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            result = str(rag.document_ids)
            with pytest.raises(StoreError, match="open the index again"):
                rag.add(numbered(3))
            result += " refused"
            os.write(writer, result.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).decode() == "['story'] refused"
    os.close(reader)
    os.close(writer)
    rag.add(numbered(3))  # the parent's connections still work
    assert rag.verify().ok


def test_a_pickle_contains_no_password_and_opens_the_same_index(postgres_url, story):
    url = postgres_url.replace("e2g@", f"e2g:{PASSWORD}@")
    with E2GraphRAG.open(url, embedder=HashingEmbedder(32)) as rag:
        rag.add(story)
        data = pickle.dumps(rag)
    assert PASSWORD.encode() not in data
    with pickle.loads(data) as copied:  # noqa: S301 - written by this test
        assert copied.document_ids == ["story"]
    drop_index(postgres_url)
    with pytest.raises(InvalidInputError, match="does not exist"):
        pickle.loads(data)  # noqa: S301 - written by this test


def test_a_closed_index_raises(postgres_url, open_index):
    rag = open_index(postgres_url)
    rag.close()
    rag.close()
    with pytest.raises(ClosedError):
        rag.document_ids  # noqa: B018
