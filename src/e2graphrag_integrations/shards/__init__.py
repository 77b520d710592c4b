"""One index in several files or schemas, for collections beyond one machine.

A shard is an ordinary index of some of the documents. A coordinator merges what all scores depend
on and the lists of the shards, so the answers are those of one index.
"""

from __future__ import annotations

from e2graphrag_integrations.shards.index import ShardedIndex, open_shards
from e2graphrag_integrations.shards.ray import RayShards
from e2graphrag_integrations.shards.rebalance import rebalance
from e2graphrag_integrations.shards.shards_file import ShardsFile, create_shards
from e2graphrag_integrations.shards.threads import ThreadShards

__all__ = [
    "RayShards",
    "ShardedIndex",
    "ShardsFile",
    "ThreadShards",
    "create_shards",
    "open_shards",
    "rebalance",
]
