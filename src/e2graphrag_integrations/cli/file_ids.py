"""The ids of the files that a command reads: two files never share one.

The id of a file is its path relative to the given folder, or its name. If the index has read
another file under this id, the folders above are put before it, as in `b/readme.md`. A file that is
read again keeps its id, however it is given.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from e2graphrag_integrations._utils.files import KnownFiles
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.loaders.files import shown_name
from e2graphrag_integrations.store.location import index_exists

if TYPE_CHECKING:
    from e2graphrag_integrations.store.store import Store


@dataclass
class FileIds:
    """Chooses the ids of files, and remembers the files.

    Attributes:
        folder: The folder of the index file, from which paths are counted, so that both can be
            moved together. None for a database, which knows complete paths.
        paths: The path of the file of each document, by id; empty if it is not known.
    """

    folder: str | None = None
    paths: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    """The id of each known file, by path."""
    _known_files: KnownFiles = field(default_factory=KnownFiles)

    @classmethod
    def of(cls, index: str) -> Self:
        """Return the ids of an index, which need not exist."""
        from e2graphrag_integrations.store.store import Store
        from e2graphrag_integrations.store.tables.source_files import read_source_files

        is_url = is_postgres_url(index)
        folder = None if is_url else os.path.realpath(Path(index).absolute().parent)
        files = cls(folder)
        # An empty file must not become an index before something is written.
        if index_exists(index) and (is_url or Path(index).stat().st_size):
            with contextlib.closing(Store(index)) as store, store.read_transaction():
                known = read_source_files(store)
                for id_ in _document_ids(store):
                    files._add(id_, files._known(known.get(id_, "")))
        return files

    def id_of(self, path: Path, default: str) -> str:
        """Return the id of a file.

        Args:
            path: The file.
            default: Its id, unless that of another file is the same.
        """
        complete = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - of text
        place = shown_name(self._from_folder(self._known_files.first_spelling(complete)))
        if place in self._ids:
            return self._ids[place]
        names = (default, *_longer(complete, default))
        possible = [name for name in names if not self._is_of_other_file(name)]
        # A longer id can only be that of this file, copied or moved together with the others.
        indexed = [name for name in possible if name in self.paths]
        id_ = (indexed[-1:] or possible or names)[0]
        self._add(id_, place)
        return id_

    def place_of(self, id_: str) -> str:
        """Return the complete path of the file of a document; empty if it is not known."""
        path = self.paths.get(id_)
        return os.path.normpath(os.path.join(self.folder or "", path)) if path else ""  # noqa: PTH118 - of text

    @contextlib.contextmanager
    def remembered(self, store: Store) -> Iterator[None]:
        """Store the files of the documents that the block adds to the index or its queue."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(StoreError):  # the first error says more
                self._write(store)
            raise
        self._write(store)

    def _write(self, store: Store) -> None:
        from e2graphrag_integrations.store.tables.source_files import write_source_files

        ids = _document_ids(store)
        paths = {id_: path for id_, path in self.paths.items() if path and id_ in ids}
        write_source_files(store, paths)

    def _add(self, id_: str, path: str) -> None:
        self.paths[id_] = path
        if path:
            self._ids[path] = id_
            complete = os.path.join(self.folder or "", path)  # noqa: PTH118 - of text
            self._known_files.first_spelling(os.path.normpath(complete))

    def _known(self, path: str) -> str:
        """Return a stored path as this index counts it; empty if it was counted by another one."""
        is_complete = Path(path).is_absolute()
        if self.folder is None:
            return path if is_complete else ""
        return self._from_folder(path) if is_complete else path

    def _from_folder(self, path: str) -> str:
        if self.folder is None:
            return path
        try:
            return Path(os.path.relpath(path, self.folder)).as_posix()
        except ValueError:  # on another drive
            return path

    def _is_of_other_file(self, id_: str) -> bool:
        """Return whether a document was read from another file, which still exists."""
        path = self.paths.get(id_)
        return bool(path) and os.path.lexists(os.path.join(self.folder or "", path or ""))  # noqa: PTH118 - of text


def _document_ids(store: Store) -> set[str]:
    """Return the ids of all documents, also of those in the queue."""
    from e2graphrag_integrations.store.queue import queued_ids

    return {*store.content_hashes(), *queued_ids(store)}


def _longer(path: str, name: str) -> Iterator[str]:
    """Yield the name with more and more of the folders above it, then the complete path."""
    parts = Path(path).parts
    for count in range(len(Path(name).parts) + 1, len(parts)):
        yield shown_name("/".join(parts[-count:]))
    yield shown_name(Path(path).as_posix())
