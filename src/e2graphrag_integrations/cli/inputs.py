"""Turn command-line arguments into documents and indexes."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.files import discard_folder, is_same_file
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations.cli.file_ids import FileIds
from e2graphrag_integrations.cli.output.indexing import print_skipped
from e2graphrag_integrations.cli.where import parse_object, parse_value
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.indexing.stages.work import IndexingEngine, LocalEngine
from e2graphrag_integrations.languages.language import AUTO
from e2graphrag_integrations.loaders import (
    SkippedFile,
    path_exists,
    read_documents,
    source_files,
)
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.location import drop_index, index_exists, shown_path

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.engine.scoped_reader import ScopedReader
    from e2graphrag_integrations.enrichment import Enricher
    from e2graphrag_integrations.entities.extractor_choice import Extractors
    from e2graphrag_integrations.reports import IndexReport
    from e2graphrag_integrations.retrieval.entities.homonyms import HomonymProposal
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer
    from e2graphrag_integrations.types import SourceDocument

_STOP_AGAIN = 0.2
"""Seconds after which work that has begun since a signal is stopped, too."""

_SHARDS = ".shards.json"
"""Ending of the name of a file that lists the shards of an index."""


@dataclass(frozen=True)
class Sources:
    """The documents that were read, the files that were not, and the ids of both."""

    documents: Sequence[SourceDocument]
    skipped: Sequence[SkippedFile]
    files: FileIds

    @property
    def has_failures(self) -> bool:
        """Whether a file of a known kind could not be read."""
        return any(file.error is not None for file in self.skipped)

    @property
    def ids(self) -> set[str]:
        """The ids of all files, including those that could not be read."""
        return {document.id for document in self.documents} | {f.document_id for f in self.skipped}


def read_sources(paths: Sequence[str], index: str, encoding: str | None = None) -> Sources:
    """Read files, folders and standard input; files that cannot be read are reported and skipped.

    Args:
        paths: Files and folders to read.
        index: The index file, which is ignored in folders, with its lock and snapshots.
        encoding: Encoding of text and HTML files; None finds the encoding of each.

    Raises:
        InvalidInputError: If a path does not exist, or the encoding is unknown; see
            `read_documents`.
        UnreadableFileError: If no file could be read.
        MissingDependencyError: If no file could be read.
    """
    skipped: list[SkippedFile] = []
    files = FileIds.of(index)
    own = [str(path.absolute()) for path in _index_files(index)]

    def is_own(path: Path) -> bool:
        parts = [str(part.absolute()) for part in (path, *path.parents)]
        return any(is_same_file(part, one) for part in parts for one in own)

    stdin = getattr(sys.stdin, "buffer", None)
    documents = read_documents(
        paths,
        stdin,
        encoding=encoding,
        on_skip=skipped.append,
        exclude=is_own,
        name=files.id_of,
    )
    if not documents:
        for file in skipped:
            if file.error is not None:
                raise file.error
    print_skipped(skipped)
    return Sources(documents, skipped, files)


def _index_files(index: str) -> list[Path]:
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
        for path in _index_files(index):
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
    if path.endswith(_SHARDS) and vectors is None:
        from e2graphrag_integrations.shards import open_shards

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


def read_token(token_env: str | None, default: str) -> str | None:
    """Return the token of a server from the environment; None if there is none.

    Args:
        token_env: The variable of `--token-env`, which must contain a token.
        default: The variable that is read without `--token-env`.

    Raises:
        InvalidInputError: If `token_env` contains no token.
    """
    token = os.environ.get(token_env or default)
    if token_env and not token:  # it may be the token, so do not print it
        raise InvalidInputError(
            "--token-env names no environment variable with a token: pass the name of the variable"
        )
    return token or None


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at the first SIGINT or SIGTERM; a second one has its usual effect.

    It is called again until the block ends, because work that begins after a call is not stopped.
    """
    ended = threading.Event()
    stopping: list[threading.Thread] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop_until_the_end() -> None:
        while not ended.is_set():
            stop()
            ended.wait(_STOP_AGAIN)

    def handle(number: int, frame: object) -> None:
        del number, frame
        restore()
        # The interrupted thread may hold a lock that `stop` needs.
        thread = threading.Thread(target=stop_until_the_end, name="e2graphrag-stop")
        stopping.append(thread)
        thread.start()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
        ended.set()
        for thread in stopping:
            thread.join()


def parse_metadata(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse `--metadata KEY=VALUE`; a value that is valid JSON is parsed.

    Raises:
        InvalidInputError: If an argument has a different form, or a key is given twice.
    """
    pairs = _pairs("--metadata", "KEY=VALUE", arguments)
    return {key: parse_value(f"--metadata {key}", text) for key, text in pairs.items()}


def described(
    rag: E2GraphRAG, documents: Sequence[SourceDocument], metadata: Mapping[str, Any]
) -> list[SourceDocument]:
    """Return documents with the given metadata; known ones keep what is not given again."""
    from e2graphrag_integrations.indexing.descriptions import keep_descriptions

    given = [replace(one, metadata={**one.metadata, **metadata}) for one in documents]
    return keep_descriptions(rag.store, given)


def changed_ids(documents: Sequence[SourceDocument], report: IndexReport) -> set[str]:
    """Return the ids of the given documents that a run has written."""
    given = {document.id for document in documents}
    return given.difference(report.skipped, report.failed, report.queued)


def parse_extractors(arguments: Sequence[str] | None) -> str | dict[str, str] | None:
    """Parse `--spacy-model NAME` or `--spacy-model LANGUAGE=NAME`; None means the defaults.

    Raises:
        InvalidInputError: If there are several for the same documents.
    """
    given = arguments or ()
    if given and all(re.match("[a-z]{2,3}=", one) for one in given):
        return _pairs("--spacy-model", "LANGUAGE=NAME", given)
    if len(given) > 1:
        raise InvalidInputError("--spacy-model: give one pipeline, or one for each LANGUAGE=NAME")
    return given[0] if given else None


def with_entity_rules(
    extractors: str | Mapping[str, str] | None, path: str | None
) -> Extractors | None:
    """Return extractors that also find the names in the file of `--entity-rules`.

    Args:
        extractors: The pipelines of `--spacy-model`. Those for some languages restrict the rules to
            these languages.
        path: The file; None means that there are no rules.

    Raises:
        UnreadableFileError: If the file cannot be read, or a line is not JSON.
        InvalidInputError: If a rule is invalid.
    """
    if path is None:
        return extractors
    from e2graphrag_integrations.entities.entity_rules import EntityRules
    from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor

    rules = EntityRules.read(path)
    if isinstance(extractors, str):
        return rules.applied_to(SpacyEntityExtractor(extractors))
    if extractors:
        return {
            code: rules.applied_to(SpacyEntityExtractor(name)) for code, name in extractors.items()
        }
    return rules


def chosen_proposals(
    names: Sequence[str], proposals: Sequence[HomonymProposal]
) -> list[HomonymProposal]:
    """Return the proposals with the names after `--accept`.

    Raises:
        InvalidInputError: If there is no proposal for a name.
    """
    by_name = {one.name: one for one in proposals}
    forms = {name: normal_form(name) for name in names}
    for name, form in forms.items():
        if form not in by_name:
            raise InvalidInputError(
                f"--accept {name!r}: there is no proposal for this name; omit --accept to list them"
            )
    return [by_name[form] for form in forms.values()]


def parse_aliases(arguments: Sequence[str]) -> dict[str, str]:
    """Parse `--alias NAME=ENTITY`.

    Raises:
        InvalidInputError: If an argument has a different form, or a name is given twice.
    """
    return _pairs("--alias", 'NAME="ENTITY"', arguments)


def _pairs(option: str, form: str, arguments: Sequence[str]) -> dict[str, str]:
    """Return the parts of each argument before and after its first equals sign."""
    pairs: dict[str, str] = {}
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if not separator or not name:
            raise InvalidInputError(f"{option} {argument!r} must be {form}")
        if name in pairs:
            raise InvalidInputError(f"{option} {argument!r}: {name!r} is given twice")
        pairs[name] = value
    return pairs


def make_engine(name: str, address: str | None) -> IndexingEngine:
    """Return the engine for the options `--engine` and `--address`.

    Raises:
        InvalidInputError: If the address is invalid, or is given without `--engine ray`.
    """
    if name != "ray":
        if address is not None:
            raise InvalidInputError("--address requires --engine ray")
        return LocalEngine()
    from e2graphrag_integrations.indexing.ray.engine import RayEngine

    return RayEngine(address)
