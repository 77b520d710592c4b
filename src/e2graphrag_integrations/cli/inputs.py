"""The documents that a command is given, from files, folders and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.files import is_folder, is_same_file
from e2graphrag_integrations.cli.file_ids import FileIds
from e2graphrag_integrations.cli.index_files import index_files
from e2graphrag_integrations.cli.output.indexing import print_skipped
from e2graphrag_integrations.loaders import SkippedFile, read_documents

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.reports import IndexReport
    from e2graphrag_integrations.types import SourceDocument


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

    def without_file(self, document_ids: Iterable[str]) -> list[str]:
        """Return the ids, sorted, of which no file was found and every folder was read."""
        unread = [file for file in self.skipped if file.path and is_folder(file.path)]
        folders = tuple(f"{file.document_id}/" for file in unread)
        places = tuple(os.path.join(os.path.realpath(one.path or ""), "") for one in unread)  # noqa: PTH118 - of text

        def is_unread(id_: str) -> bool:
            # Both, because the index may have moved, and an id may have been given elsewhere.
            return id_.startswith(folders) or self.files.place_of(id_).startswith(places)

        return sorted(one for one in set(document_ids) - self.ids if not is_unread(one))

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
    own = [str(path.absolute()) for path in index_files(index)]

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
