"""Shards in actors of a Ray cluster, which die during questions and changes."""

from __future__ import annotations

import os
import time

import pytest

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.errors import (
    ClosedError,
    InvalidInputError,
    NotPicklableError,
    ShardUnavailableError,
)
from e2graphrag_integrations.shards.calls import Request
from e2graphrag_integrations.shards.index import open_shards
from e2graphrag_integrations.shards.ray import RayShards
from e2graphrag_integrations.shards.shards_file import create_shards
from e2graphrag_integrations.testing import CapitalizedWordExtractor

# Before Ray is imported: all processes listen on the loopback interface only.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

# Ray leaves processes and files to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

QUESTION = "Where did Carl3 meet Dora2?"


def documents(first, last):
    return [
        SourceDocument(f"note{n}", f"Carl{n % 7} met Dora{n % 5} in City{n}. The weather was cold.")
        for n in range(first, last)
    ]


@pytest.mark.parametrize("options", [{"replicas": 0}, {"threads": 0}, {"timeout": -1}])
def test_wrong_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        RayShards(**options)


@pytest.mark.slow
def test_actors_that_die_return_and_nothing_is_lost(tmp_path):
    ray = pytest.importorskip("ray")
    ray.shutdown()  # another test of this process may have left its cluster
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    path, models = tmp_path / "x.shards.json", Models(extractor=CapitalizedWordExtractor())
    create_shards(path, 2, embedder="hashing")
    with E2GraphRAG.open(tmp_path / "one.e2g", embedder="hashing", models=models) as one:
        one.add(documents(0, 20))
        with open_shards(path, engine=RayShards(replicas=2, timeout=300), models=models) as shards:
            shards.add(documents(0, 20))
            assert shards.retrieve(QUESTION).nodes == one.retrieve(QUESTION).nodes
            replicas = shards._shards._actors.replicas
            shards.update(SourceDocument("note4", "Carl4 met Dora4 in City4. It rained."))
            one.update(SourceDocument("note4", "Carl4 met Dora4 in City4. It rained."))
            until = time.monotonic() + 120
            while not all(len(each._holders[each._last]) == 2 for each in replicas):
                assert shards.retrieve(QUESTION).nodes == one.retrieve(QUESTION).nodes
                assert time.monotonic() < until, "a replica did not prepare the last generation"
            ray.kill(replicas[0].actors[0], no_restart=False)  # Ray starts it again
            assert shards.retrieve(QUESTION).nodes == one.retrieve(QUESTION).nodes
            for actor in [*replicas[0].actors, *replicas[1].actors]:
                ray.kill(actor, no_restart=True)
            for each in (shards, one):
                each.add(documents(20, 24))
                each.delete("note3")
            assert shards.retrieve(QUESTION).nodes == one.retrieve(QUESTION).nodes
            assert shards.document_ids == one.document_ids
            assert shards.verify().problems == ()
            actors = shards._shards._actors
        with pytest.raises(ClosedError, match="closed"):  # a question that met the end
            actors.ask({0: Request("directory")})

        (tmp_path / "x.1.e2g").rename(tmp_path / "hidden")
        with pytest.raises(ShardUnavailableError, match=r"x\.1\.e2g"):
            open_shards(path, engine=RayShards(timeout=15))
        (tmp_path / "hidden").rename(tmp_path / "x.1.e2g")

        with pytest.raises(NotPicklableError, match="pass models by name"):
            open_shards(path, engine=RayShards(), summarizer=(one for one in "x").__next__)
        ray.shutdown()
