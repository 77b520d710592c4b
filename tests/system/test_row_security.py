"""Row-level security in Postgres, as docs/scopes.md describes it."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.store.location import list_indexes
from e2graphrag_integrations.store.postgres import schema as postgres_schema
from e2graphrag_integrations.store.tables.mirrored_vectors import put_mirrored
from e2graphrag_integrations.store.tables.pending_documents import put_pending
from e2graphrag_integrations.store.tables.source_files import write_source_files
from fakes import CountingLLM, NameExtractor
from langchain_fakes import SMALL

RECIPE = "\n".join(
    re.findall(
        r"^```postgresql\n(.*?)^```",
        (Path(__file__).parents[2] / "docs/scopes.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
OWN_TABLES = {*postgres_schema.OWN_TABLES}
OPTIONS = {
    "embedder": HashingEmbedder(),
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
}


def letter(tenant: str, name: str) -> SourceDocument:
    text = f"{name} met Bert in Oslo. Bert gave {name} a map. {name} sailed to Rome with Bert."
    return SourceDocument(f"{tenant}-{name}", text, f"{name}'s Letter", {"tenant": tenant})


def fill_other_tables(url: str) -> None:
    """Write rows of both tenants to the tables that only a writer needs."""
    with E2GraphRAG.open(url, **grouped({**OPTIONS, "summarizer": CountingLLM()})) as rag:
        rag.add([letter("a", "Cleopatra"), letter("b", "Zoey")], wait=False)
        leases = rag.store.database.leases(60)
        assert {*leases.claim(), *leases.claim()} == {"a-Cleopatra", "b-Zoey"}
        leases.close()
        put_pending(rag.store, {"a-Cleo": "Cleo", "b-Zoe": "Zoe"})
        put_mirrored(rag.store, "store", ["Cleo", "Zoe"])


@pytest.fixture
def secured(postgres, postgres_url):
    """Return the URL of an index with row-level security, and a function for those of tenants."""
    schema = re.search(r"schema=(\w+)", postgres_url).group(1)
    llm = CountingLLM()
    with E2GraphRAG.open(
        postgres_url, **grouped({**OPTIONS, "summarizer": llm, "scope_keys": ["tenant"]})
    ) as rag:
        rag.add([letter("a", "Anna"), letter("a", "Cleo"), letter("b", "Zoe")])
        rag.add(SourceDocument("b-copy", letter("a", "Anna").text, "Zoe's", {"tenant": "b"}))
        rag.edit_entities(alias={"Zoe": "Bert", "Cleo": "Anna"})
        write_source_files(rag.store, {one: f"/home/{one}.txt" for one in ("a-Cleo", "b-Zoe")})
    recipe = RECIPE.replace("letters.", f"{schema}.").replace("SCHEMA letters", f"SCHEMA {schema}")
    roles = {tenant: f"tenant_{tenant}" for tenant in "ab"}
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(recipe)
        connection.execute(
            "CREATE ROLE tenant_b LOGIN;"
            f"GRANT USAGE ON SCHEMA {schema} TO tenant_b;"
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO tenant_b"
        )
    user = re.search(r"//(\w+)@", postgres_url).group(1)
    yield schema, lambda tenant: postgres_url.replace(f"//{user}@", f"//{roles[tenant]}@")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for role in roles.values():
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_role_reads_only_the_rows_of_its_tenant(secured, open_index, postgres, postgres_url):
    schema, url_of = secured
    fill_other_tables(postgres_url)
    with psycopg.connect(postgres.url) as connection:
        assert {
            table
            for table in OWN_TABLES
            if connection.execute(f"SELECT FROM {schema}.{table}").rowcount
        } == OWN_TABLES
    tenants = [("a", {"a-Anna", "a-Cleo"}, "Zoe"), ("b", {"b-Zoe", "b-copy"}, "Cleo")]
    for tenant, own, others in tenants:
        rag = open_index(url_of(tenant), **OPTIONS, summarizer=CountingLLM())
        assert set(rag.document_ids) == own
        result = rag.retrieve("Who met Bert in Oslo?", k=50)
        assert {node.document_id for node in result.nodes} == own
        assert any(node.level for node in result.nodes)
        shown = repr(
            [
                result,
                result.trace.to_dict(),
                rag.entities(),
                rag.communities(),
                rag.stats(),
                list(rag.export()),
            ]
        )
        assert others not in shown
        assert rag.verify().problems == ()
        assert rag.scoped({"tenant": tenant}).document_ids == sorted(own)
        assert rag.scoped({"tenant": "ab".replace(tenant, "")}).document_ids == []
        with pytest.raises(StoreError):
            rag.add(letter(tenant, "Dora"))
        with psycopg.connect(url_of(tenant).partition("?")[0]) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
            ).fetchall()
            rows = {
                table: connection.execute(f"TABLE {schema}.{table}").fetchall()
                for (table,) in tables
            }
        assert others not in repr(rows)
        assert {row[0] for row in rows["documents"]} == own
        assert rows["content"]
        hidden = OWN_TABLES - {"manifest", "e2graphrag", "documents", "nodes", "windows", "content"}
        assert not any(rows[table] for table in hidden)


def test_roles_that_the_environment_names_share_no_search_index(
    secured, open_index, postgres_url, monkeypatch
):
    del secured  # the roles
    url = re.sub(r"//\w+@", "//", postgres_url)
    for tenant, others in (("a", "Zoe"), ("b", "Cleo")):
        monkeypatch.setenv("PGUSER", f"tenant_{tenant}")
        rag = open_index(url, **OPTIONS)
        found = rag.retrieve("Who met Bert in Oslo?", k=50)
        assert {node.document_id[0] for node in found.nodes} == {tenant}
        assert others not in repr([found, rag.entities()])


def test_changes_of_the_owner_reach_the_tenant(secured, open_index, postgres_url):
    _, url_of = secured
    reader = open_index(url_of("a"), **OPTIONS, max_staleness=0)
    assert "Dora" not in repr(reader.retrieve("Who met Bert?", k=50))
    writer = open_index(postgres_url, **OPTIONS, summarizer=CountingLLM())
    writer.add([letter("a", "Dora"), letter("b", "Yves")])
    found = repr(reader.retrieve("Who met Bert?", k=50))
    assert "Dora" in found
    assert "Yves" not in found
    writer.delete(["a-Anna", "a-Cleo", "a-Dora"])
    assert reader.retrieve("Who met Bert?", k=50).nodes == ()
    assert reader.document_ids == []
    assert reader.verify().problems == ()


def test_langchain_documents_are_secured_by_their_segments(postgres, postgres_url, secured):
    from langchain_core.documents import Document

    del secured  # the roles
    schema = "lc_secured"
    url = re.sub(r"schema=\w+", f"schema={schema}", postgres_url)
    pages = [
        Document(
            id=f"{tenant}{n}",
            page_content=f"{name} met Bert in Oslo.",
            metadata={"source": "s.pdf", "tenant": tenant},
        )
        for tenant, name in (("a", "Anna"), ("b", "Zoe"))
        for n in range(2)
    ]
    with E2GraphRAGIndex.from_documents(
        pages, **grouped({"path": url, "scope_keys": ["tenant"], **SMALL})
    ):
        pass
    recipe = RECIPE.partition("CREATE ROLE tenant_a")[0].replace("letters.", f"{schema}.")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(recipe)
        connection.execute(
            f"GRANT USAGE ON SCHEMA {schema} TO tenant_a;"
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO tenant_a"
        )
    user = re.search(r"//(\w+)@", url).group(1)
    own = url.replace(f"//{user}@", "//tenant_a@")
    with E2GraphRAGIndex.open(own, **grouped({"auto_build": False, **SMALL})) as index:
        found = index.as_retriever(k=50).invoke("Who met Bert?")
    assert found
    assert "Zoe" not in repr(found)
    assert [one.schema for one in list_indexes(postgres.url) if one.schema == schema] == [schema]
