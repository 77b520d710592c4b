"""Index files that a command opens, creates, or removes after a failure."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.files import discard_folder
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations.cli.where import parse_object
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.languages.language import AUTO
from e2graphrag_integrations.loaders import path_exists, source_files
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.location import (
    SHARDS_ENDING,
    drop_index,
    index_exists,
    shown_path,
)

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.engine.scoped_reader import ScopedReader
    from e2graphrag_integrations.enrichment import Enricher
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer


def index_files(index: str) -> list[Path]:
    """Return the paths of an index file, its WAL, lock and snapshots; none for a database."""
    if is_postgres_url(index):
        return []
    endings = ("", "-wal", "-shm", "-journal", ".lock", ".snapshot")
    return [Path(f"{index}{ending}") for ending in endings]


@contextlib.contextmanager
def remove_if_failed(index: str, *, uses_llm: bool) -> Iterator[None]:
    """Remove a new index file if the first run fails before it has stored anything of value.

    Documents and the answers of a language model are of value. The documents in the queue are not:
    the next run reads them again, and may use other settings. Ctrl+C keeps the file.

    Args:
        index: The index file.
        uses_llm: Whether a language model writes the summaries.
    """
    if index_exists(index):
        yield
        return

    def remove(_: BaseException) -> None:
        if index_exists(index):
            _remove_if_empty(index, uses_llm=uses_llm)

    with on_error(remove, Exception):
        yield


def _remove_if_empty(index: str, *, uses_llm: bool) -> None:
    from e2graphrag_integrations.store.store import Store

    # The lock fails if another process has begun to write the same file: then it is kept.
    with (
        contextlib.suppress(StoreError, OSError),
        contextlib.closing(Store(index, timeout=0)) as store,
        store.index_lock.acquire(),
    ):
        if store.content_hashes() or (uses_llm and store.has_cached("summary")):
            return
        store.close()
        if is_postgres_url(index):
            drop_index(index)
        lock, snapshots = Path(f"{index}.lock"), Path(f"{index}.snapshot")
        for path in index_files(index):
            if path == snapshots:
                discard_folder(path)
            elif path != lock:  # which is open
                path.unlink(missing_ok=True)


def check_new_index(path: str, sources: Sequence[str] = ()) -> None:
    """Check the `--out` path.

    Args:
        path: The index file to create or to extend.
        sources: Files and folders to index.

    Raises:
        InvalidInputError: If the path is invalid, is `:memory:`, a folder, or one of the source
            files.
    """
    if is_postgres_url(path):
        shown_path(path)  # raises if it is invalid
        return
    if path == MEMORY:
        raise InvalidInputError(f"--out {path}: the index would be lost at exit; name a file")
    if path_exists(path) and Path(path).is_dir():
        is_source = any(path_exists(one) and Path(path).samefile(one) for one in sources)
        what = "one of the folders to index" if is_source else "a folder"
        raise InvalidInputError(
            f"--out {path} is {what}: name a file, such as {Path(path).resolve().name}.e2g"
        )
    if path_exists(path) and any(Path(path).samefile(source) for source in source_files(sources)):
        raise InvalidInputError(f"--out {path} is one of the files to index: choose another path")


def check_index(path: str) -> None:
    """Check that an index file exists.

    Raises:
        InvalidInputError: If the index does not exist, is empty or is a folder.
    """
    if is_postgres_url(path):
        if not index_exists(path):
            raise InvalidInputError(
                f"index {shown_path(path)} does not exist: create it with `e2graphrag index`"
            )
        return
    if path_exists(path) and Path(path).is_dir():
        raise InvalidInputError(f"{path} is a folder: {_instead_of_folder(path)}")
    if not path_exists(path) or not Path(path).is_file():
        raise InvalidInputError(f"index {path} does not exist: create it with `e2graphrag index`")
    if Path(path).stat().st_size == 0:
        raise InvalidInputError(f"{path} is an empty file: create an index with `e2graphrag index`")


def _instead_of_folder(folder: str) -> str:
    """Return which index file to name instead of a folder."""
    found = sorted(str(file) for file in Path(folder).glob("*.e2g") if file.is_file())
    if found:
        return f"name the index file, such as {found[0]}"
    name = Path(folder).resolve().name
    if name.endswith(".snapshot"):
        return f"name the index file beside it, {name.removesuffix('.snapshot')}"
    name += ".e2g"
    return (
        f"name an index file, such as {name}, which "
        f"`e2graphrag index {shlex.quote(folder)} --out {shlex.quote(name)}` creates"
    )


def is_new_file(path: str) -> bool:
    """Return whether nothing is at a path, so that an index file can be created there.

    An index in a database is never created in passing.

    Raises:
        InvalidInputError: If the path is not valid.
    """
    return not is_postgres_url(path) and path != MEMORY and not path_exists(path)


def create_index(
    path: str,
    *,
    summarizer: OpenAISummarizer | None = None,
    concurrency: int = 4,
    lock_timeout: float = 30.0,
    vectors: str | None = None,
) -> E2GraphRAG:
    """Create an index file without documents, with the default models; see `open_index`.

    Raises:
        InvalidInputError: If the folder does not exist.
    """
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.options import WriteOptions

    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise InvalidInputError(f"index {path} cannot be created: there is no folder {folder}")
    writes = WriteOptions(concurrency=concurrency, lock_timeout=lock_timeout)
    return E2GraphRAG.open(path, summarizer=summarizer, writes=writes, vectors=vectors)


def open_index(
    path: str,
    *,
    summarizer: OpenAISummarizer | None = None,
    embedder: str | None = None,
    extractor: str | Mapping[str, str] | None = None,
    language: str = AUTO,
    concurrency: int = 4,
    lock_timeout: float = 30.0,
    vectors: str | None = None,
    enricher: Enricher | None = None,
) -> E2GraphRAG:
    """Open an existing index.

    Args:
        path: The index file, or the file that lists the shards of an index.
        summarizer: Writes the summaries; None means that sentences are extracted instead.
        embedder: Name or path of a model; None means the embedder of the file.
        extractor: Name or path of a spaCy pipeline, or those of languages; None means the extractor
            of the file.
        language: Language of the documents to add; "auto" detects it.
        concurrency: Maximum number of concurrent calls to the summarizer.
        lock_timeout: Seconds to wait while another process is writing.
        vectors: The vector index to use; None means the vectors of the index.
        enricher: Enriches the chunks; None enriches none.

    Raises:
        InvalidInputError: If the file does not exist or is empty.
        StoreError: If the file is not a valid index.
    """
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.options import Models, WriteOptions

    check_index(path)
    models = Models(extractor=extractor, language=language)
    writes = WriteOptions(concurrency=concurrency, lock_timeout=lock_timeout, enricher=enricher)
    if path.endswith(SHARDS_ENDING):
        from e2graphrag_integrations.shards import open_shards

        if vectors is not None:
            raise InvalidInputError(f"--vectors does not work across shards, which {path} lists")
        return open_shards(
            path, summarizer=summarizer, embedder=embedder, models=models, writes=writes
        )
    return E2GraphRAG.open(
        path,
        summarizer=summarizer,
        embedder=embedder,
        models=models,
        writes=writes,
        vectors=vectors,
    )


def scoped(rag: E2GraphRAG, scope: str | None) -> E2GraphRAG | ScopedReader:
    """Return the reader of a scope, given as a JSON object; None means the index itself.

    Raises:
        InvalidInputError: If the scope is not a JSON object, or not a valid filter.
    """
    return rag if scope is None else rag.scoped(parse_object("--scope", scope))
