"""Every store behaves as the engine requires."""

from __future__ import annotations

from e2graphrag_integrations.testing import check_store


def test_an_index_file_conforms(tmp_path):
    check_store(str(tmp_path / "index.e2g"))


def test_a_schema_of_a_postgres_database_conforms(postgres_url):
    check_store(postgres_url)
