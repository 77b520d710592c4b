"""The documents of a large write, in a temporary file instead of in memory.

A write is checked completely before it changes anything, so it reads all documents several times.
Those of an iterator would all have to stay in memory until then.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import overload

from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.store.records import (
    canonical_json,
    document_fields,
    document_from_fields,
)
from e2graphrag_integrations.types import SourceDocument


@contextlib.contextmanager
def _temporary_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"many documents wait in a temporary file, which cannot be used ({error}): free space "
            "in the folder of temporary files, choose another with TMPDIR, or pass fewer at once"
        ) from error


class _LazyDocuments(Sequence[SourceDocument]):
    """Documents that are made when they are read, so that only few are in memory."""

    def _at(self, row: int) -> SourceDocument:
        raise NotImplementedError

    @overload
    def __getitem__(self, row: int) -> SourceDocument: ...
    @overload
    def __getitem__(self, row: slice) -> list[SourceDocument]: ...
    def __getitem__(self, row: int | slice) -> SourceDocument | list[SourceDocument]:
        rows = range(len(self))[row]
        return self._at(rows) if isinstance(rows, int) else [self._at(one) for one in rows]


class SpooledDocuments(_LazyDocuments):
    """Documents in a temporary file, which is deleted with this object.

    Args:
        documents: The first documents.

    Raises:
        StoreError: If the file cannot be written, for example because the disk is full.
    """

    def __init__(self, documents: Iterable[SourceDocument] = ()) -> None:
        with _temporary_errors():
            self._file = tempfile.TemporaryFile(prefix="e2graphrag-")  # noqa: SIM115 - closed below
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._starts = array("q")
        self._sizes = array("q")
        self._end = 0
        for document in documents:
            self.append(document)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._starts)

    def append(self, document: SourceDocument) -> None:
        """Add a document."""
        start, size = self._write(document)
        self._starts.append(start)
        self._sizes.append(size)

    def __setitem__(self, row: int, document: SourceDocument) -> None:
        """Replace a document. The file keeps the old one as well."""
        self._starts[row], self._sizes[row] = self._write(document)

    def _write(self, document: SourceDocument) -> tuple[int, int]:
        """Return where a document was written, and its length in bytes."""
        encoded = canonical_json([document.id, document_fields(document)]).encode()
        with self._lock, _temporary_errors():
            start = self._end
            self._file.seek(start)
            self._file.write(encoded)
            self._end += len(encoded)
        return start, len(encoded)

    def _at(self, row: int) -> SourceDocument:
        with self._lock, _temporary_errors():  # a seek writes what is in the buffer
            self._file.seek(self._starts[row])
            encoded = self._file.read(self._sizes[row])
        return document_from_fields(*json.loads(encoded))


class SelectedDocuments(_LazyDocuments):
    """Some of the documents of a sequence, with their languages.

    Args:
        documents: The sequence.
        rows: Their places in it; None means all.
        languages: The language of each; None leaves them as they are.
    """

    def __init__(
        self,
        documents: Sequence[SourceDocument],
        rows: Iterable[int] | None = None,
        languages: Sequence[str | None] | None = None,
    ) -> None:
        self._documents = documents
        self._rows = range(len(documents)) if rows is None else array("q", rows)
        self._languages = languages

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._rows)

    def _at(self, row: int) -> SourceDocument:
        document = self._documents[self._rows[row]]
        language = document.language if self._languages is None else self._languages[row]
        return document if language == document.language else replace(document, language=language)
