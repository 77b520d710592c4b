"""Exporting an index to a folder of plain files, and importing such a folder.

`index.jsonl` contains a header with the manifest and the tag set, and one line per document, per
node and per entity edit. Its last line contains the number of lines and a hash of both files, which
reveals truncation and changes. `vectors.npz` contains the distinct vectors and their content keys,
and no pickles. The content keys of nodes are also exported, so that an update after the import can
reuse the cached content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from e2graphrag_integrations._utils.arrays import check_array_size
from e2graphrag_integrations._utils.decoding import check_format_version
from e2graphrag_integrations._utils.new_path import new_path
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations._utils.validation import check_int, check_name
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    IndexingError,
    InvalidInputError,
    StoreError,
)
from e2graphrag_integrations.portability.canonical import (
    document_record,
    edit_record,
    exported_manifest,
    node_record,
)
from e2graphrag_integrations.portability.copying import copy_store, new_index
from e2graphrag_integrations.portability.graph_formats import FILE_FORMATS
from e2graphrag_integrations.portability.verify import verify_store
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.snapshot.build import check_row_counts
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.location import index_exists, shown_path
from e2graphrag_integrations.store.records import (
    DocumentHeader,
    StoredNode,
    canonical_json,
    document_from_fields,
    encode_sentences,
)
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.entity_edits import read_edits, write_edits
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.text.words import count_words
from e2graphrag_integrations.types import Mention, Node, SourceDocument, Span

FORMAT = 2
"""Version of the export format. Other versions are refused."""

_LINES, _VECTORS = "index.jsonl", "vectors.npz"

_KEY_BYTES = 32
"""Length of a content key, which is a SHA-256 hash."""

_INVALID_LINE = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError),
    IndexingError,
)
"""Errors that an invalid line can cause. `write_document` raises `IndexingError` if lines
contradict each other."""

_FILE_SUFFIXES = frozenset(
    {*FILE_FORMATS, ".csv", ".gml", ".jsonl", ".npz", ".parquet", ".xml", ".zip"}
)
"""Suffixes of files that a user may expect instead of a folder."""


def export_folder(store: Store, folder: str | Path) -> None:
    """Write the index to a new folder, atomically.

    Args:
        store: The store.
        folder: The folder to create.

    Raises:
        InvalidInputError: If the path already exists, or is named like a file.
        StoreError: If the folder cannot be written.
        CorruptStoreError: If a row does not match its checksum or references a missing row.
    """
    target = Path(folder)
    if target.suffix.lower() in _FILE_SUFFIXES:
        raise InvalidInputError(
            f"{target.name} is named like a file, but an export is a folder: leave out the suffix, "
            "or write a graph with export_graph (e2graphrag export graph), which knows "
            f"{', '.join(FILE_FORMATS)}"
        )
    try:
        with new_path(target) as temporary, store.read_transaction():
            temporary.mkdir()
            headers, nodes = store.document_headers(), list(store.all_nodes())
            check_row_counts(store.path, headers, nodes)
            rows = _write_vectors(store, nodes, temporary / _VECTORS)
            _write_lines(temporary, _lines(store, headers, nodes, rows))
    except KeyError as error:
        raise CorruptStoreError(
            f"{store.path}: a row references missing content; run verify()"
        ) from error


def _write_vectors(store: Store, nodes: Sequence[StoredNode], path: Path) -> dict[bytes, int]:
    """Write the distinct vectors, and return a mapping from content keys to rows."""
    rows: dict[bytes, int] = {}
    for stored in nodes:
        for _, key in stored.windows:
            rows.setdefault(key, len(rows))
    contents = store.cached(rows)
    dimension = len(next(iter(contents.values()))) // 4 if contents else 0
    vectors = np.empty((len(rows), dimension), dtype=np.float32)
    for key, row in rows.items():
        vectors[row] = np.frombuffer(contents[key], dtype="<f4")
    keys = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, _KEY_BYTES)
    np.savez(path, vectors=vectors, keys=keys)
    return rows


def _lines(
    store: Store,
    headers: Sequence[DocumentHeader],
    nodes: Sequence[StoredNode],
    rows: Mapping[bytes, int],
) -> Iterator[str]:
    tag_set = store.tag_set()
    tags = {} if tag_set is None else {"tags": tag_set.to_json()}
    manifest = exported_manifest(store, (header.language for header in headers))
    yield canonical_json({"e2graphrag": FORMAT, "manifest": manifest, **tags})
    for header in headers:
        yield canonical_json(document_record(store.document(header.id)))
    for stored in nodes:
        keys = {
            "key": stored.content_key.hex(),
            "windows": [[*span, rows[key]] for span, key in stored.windows],
        }
        yield canonical_json(node_record(store, stored) | keys)
    for edit in read_edits(store):
        yield canonical_json(edit_record(edit))


def _write_lines(folder: Path, lines: Iterable[str]) -> None:
    digest, count = hashlib.sha256(), 0
    with (folder / _LINES).open("wb") as file:
        for line in lines:
            encoded = line.encode() + b"\n"
            digest.update(encoded)
            file.write(encoded)
            count += 1
        _update_digest(digest, folder / _VECTORS)
        file.write(canonical_json({"end": count, "sha256": digest.hexdigest()}).encode() + b"\n")


def _update_digest(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)


def import_folder(folder: str | Path, path: str | Path, *, lock_timeout: float = 30.0) -> None:
    """Create an index from an exported folder, atomically, and verify it.

    Args:
        folder: A folder written by `export_folder`.
        path: The index file, or the URL of the index in Postgres, to create.
        lock_timeout: Seconds to wait while another process is writing.

    Raises:
        InvalidInputError: If the folder is not a complete, unmodified export, or if the index
            already exists.
        SchemaVersionError: If the export has another format version.
        StoreLockedError: If another process is writing for longer than `lock_timeout`.
        StoreError: If the file cannot be written.
    """
    source, target = Path(folder), str(path)
    if target == MEMORY:
        raise InvalidInputError("an export cannot be imported into memory: pass a file or a URL")
    if index_exists(target):
        raise InvalidInputError(f"{shown_path(target)} already exists: choose a new file")
    in_database = is_postgres_url(target)
    try:
        with (source / _LINES).open("rb") as file:
            _check_digest(file, source)
            file.seek(0)
            with contextlib.closing(Store(MEMORY)) if in_database else new_index(target) as store:
                _import_lines(store, source, file)
                problems = verify_store(store).problems
                if problems:
                    raise InvalidInputError(f"{source} is not a valid export: {problems[0]}")
                if in_database:
                    copy_store(store, target, timeout=lock_timeout)
    except OSError as error:
        raise InvalidInputError(f"{source} cannot be read as an export: {error}") from error


def _check_digest(file: BinaryIO, source: Path) -> None:
    digest, count, last = hashlib.sha256(), 0, b""
    for line in file:
        if last:
            digest.update(last)
            count += 1
        last = line
    _update_digest(digest, source / _VECTORS)
    end = canonical_json({"end": count, "sha256": digest.hexdigest()}).encode() + b"\n"
    if last != end:
        raise InvalidInputError(
            f"{source} is not a complete export: it was cut short or changed; export again"
        )


def _import_lines(store: Store, source: Path, file: BinaryIO) -> None:
    number = 0
    try:
        vectors, keys = _read_vectors(source / _VECTORS)
        store.put_cached("vector", {key: v.tobytes() for key, v in zip(keys, vectors, strict=True)})
        header = json.loads(file.readline())
        manifest = _parse_manifest(header, str(source), vectors)
        tag_set = TagSet.from_json(header.get("tags", ""))
        documents: dict[str, SourceDocument] = {}
        nodes: dict[str, list[StoredNode]] = {}
        edits: list[list[Any]] = []
        for number, line in enumerate(file, 2):  # noqa: B007 - the error message names the line
            record = json.loads(line)
            if "node" in record:
                stored = _parse_node(record, keys, documents[record["document"]])
                nodes[stored.node.document_id].append(stored)
                store.put_cached(*_parse_content(record, stored))
            elif "document" in record:
                document = document_from_fields(record["document"], record)
                documents[document.id] = document
                nodes[document.id] = []
            elif "edit" in record:
                edits.append([record["edit"], *record["names"]])
        for id_, document in documents.items():
            store.write_document(document, nodes[id_], manifest)
        if edits:
            write_edits(store, EntityEdits.from_json(edits))
        if tag_set.tags:
            store.put_tag_set(tag_set)
    except (InvalidInputError, StoreError, *_INVALID_LINE) as error:
        if isinstance(error, StoreError) and not isinstance(error, CorruptStoreError):
            raise  # a problem with the target, such as a full disk
        raise InvalidInputError(
            f"{source}, line {number} is invalid ({type(error).__name__}: {error}): export again"
        ) from error


def _parse_manifest(header: Mapping[str, Any], source: str, vectors: Any) -> dict[str, str]:
    if type(header["e2graphrag"]) is not int:
        raise TypeError("the format version is not a number")
    check_format_version(source, header["e2graphrag"], FORMAT)
    manifest = {check_name("key", key): str(value) for key, value in header["manifest"].items()}
    Settings.from_manifest(manifest, source)
    if len(vectors) and manifest["dimension"] != str(vectors.shape[1]):
        raise ValueError(f"vectors of dimension {vectors.shape[1]}, not {manifest['dimension']}")
    return manifest


def _read_vectors(path: Path) -> tuple[Any, list[bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_arrays(archive)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            vectors, keys = arrays["vectors"], arrays["keys"]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{path.name}: {error}") from error
    valid = vectors.dtype == np.float32 and vectors.ndim == 2 and keys.dtype == np.uint8  # noqa: PLR2004 - a matrix
    norms = np.linalg.norm(vectors, axis=1) if valid else np.empty(0)
    if (
        not valid
        or keys.shape != (len(vectors), _KEY_BYTES)
        or not np.allclose(norms, 1, atol=0.01)
    ):
        raise ValueError(f"{path.name} does not contain unit vectors with their keys")
    return vectors.astype("<f4"), [key.tobytes() for key in keys]


def _check_arrays(archive: zipfile.ZipFile) -> None:
    """Check the sizes of the arrays before NumPy allocates memory for them.

    Raises:
        ValueError: If a size is wrong, or an array is compressed, which an export never does.
    """
    for name in ("vectors.npy", "keys.npy"):
        member = archive.getinfo(name)
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ValueError(f"{name} is compressed")
        with archive.open(member) as file:
            check_array_size(cast("BinaryIO", file), member.file_size)


def _parse_node(
    record: Mapping[str, Any], keys: list[bytes], document: SourceDocument
) -> StoredNode:
    start, end = _parse_span(record["span"], len(document.text))
    node = Node(
        check_name("node", record["node"]),
        document.id,
        check_int("level", record["level"], 0, None),
        check_int("position", record["position"], 0, None),
        start,
        end,
        check_name("text", record["text"]),
        None if record["parent"] is None else check_name("parent", record["parent"]),
    )
    windows = tuple(
        (_parse_span([first, last], len(node.text)), keys[check_int("row", row, 0, None)])
        for first, last, row in record["windows"]
    )
    return StoredNode(node, count_words(node.text), bytes.fromhex(record["key"]), windows)


def _parse_content(record: Mapping[str, Any], stored: StoredNode) -> tuple[str, dict[bytes, bytes]]:
    """Return the kind of content that a node references, and the content by its key."""
    text = stored.node.text
    if stored.node.level:
        return "summary", {stored.content_key: text.encode()}
    mentions = [[_parse_mention(m, len(text)) for m in sentence] for sentence in record["mentions"]]
    return "extraction", {stored.content_key: encode_sentences(mentions)}


def _parse_mention(fields: Sequence[Any], text_length: int) -> Mention:
    name, start, end, label = fields
    span = _parse_span([start, end], text_length)
    return Mention(check_name("entity", name), *span, check_name("label", label))


def _parse_span(value: Any, text_length: int) -> Span:
    start, end = value
    last = check_int("end", end, 0, text_length)
    return Span(check_int("start", start, 0, last), last)
