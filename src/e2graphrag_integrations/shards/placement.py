"""Which shard a document belongs to."""

from __future__ import annotations

import hashlib


def shard_of(document_id: str, shards: int) -> int:
    """Return the number of the shard of a document, from 0: a hash of its id, without a table."""
    digest = hashlib.blake2b(document_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards
