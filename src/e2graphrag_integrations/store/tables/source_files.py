"""The file that each document of the command line was read from, as rows of the manifest.

A file that is read again is found by its path, so that two files never share an id. The paths are
not part of the documents: no answer and no export contains them.
"""

from __future__ import annotations

from collections.abc import Mapping

from e2graphrag_integrations.store.rows import SOURCE_FILE, checked_row, put_manifest
from e2graphrag_integrations.store.store import Store

_AFTER = SOURCE_FILE[:-1] + chr(ord(SOURCE_FILE[-1]) + 1)
"""The first key after those with the prefix."""


def read_source_files(store: Store) -> dict[str, str]:
    """Return the path of the file of each document, by id, if it is known.

    Raises:
        CorruptStoreError: If a row is damaged.
    """
    rows = store.read("SELECT * FROM manifest WHERE key >= ? AND key < ?", (SOURCE_FILE, _AFTER))
    checked = (checked_row(row, store.path, "a file in the manifest") for row in rows)
    return {str(key).removeprefix(SOURCE_FILE): str(path) for key, path in checked}


def write_source_files(store: Store, paths: Mapping[str, str]) -> None:
    """Store the path of the file of each document, by id."""
    known = read_source_files(store)
    changed = {id_: path for id_, path in paths.items() if known.get(id_) != path}
    if changed:
        with store.transaction() as db:
            for id_, path in changed.items():
                put_manifest(db, SOURCE_FILE + id_, path)
