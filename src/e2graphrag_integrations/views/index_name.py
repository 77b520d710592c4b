"""The name of an index, as the page and the report show it."""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import parse_qs, urlsplit

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url


def index_name(path: str) -> str:
    """Return the name of an index, without its folder or server.

    >>> index_name("/data/novels.e2g"), index_name("postgresql://host/db?schema=library")
    ('novels', 'library')
    >>> index_name("/data/novels.shards.json")
    'novels'
    """
    if is_postgres_url(path):
        url = urlsplit(path)
        return parse_qs(url.query).get("schema", [PurePath(url.path).name])[0]
    return PurePath(path).stem.removesuffix(".shards")
