"""An index as a folder of plain files and back: JSON lines and an npz of vectors, no pickle.

`index.jsonl` has a header with the manifest, one line a document, one a node, and a last one with
the number of those before it and the hash of both files: what is cut short or changed is refused.
`vectors.npz` has the distinct vectors and the keys of what they were made from. Content keys come
along, so that an update after the import pays for nothing that was paid for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from e2graphrag_integrations._utils.validation import check_int, check_name
from e2graphrag_integrations.entities.normalize import count_words
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    IndexingError,
    InvalidInputError,
    StoreError,
)
from e2graphrag_integrations.portability.canonical import document_record, node_record
from e2graphrag_integrations.portability.verify import verify_store
from e2graphrag_integrations.settings import resolve_settings
from e2graphrag_integrations.snapshot.snapshot import check_counts
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.records import (
    DocumentHead,
    StoredNode,
    canonical_json,
    encode_sentences,
)
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.types import Mention, Node, SourceDocument, Span

FORMAT = 1
_LINES, _VECTORS = "index.jsonl", "vectors.npz"
_KEY_BYTES = 32

_MALFORMED = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError),
    IndexingError,
)
"""What reading lines of another making raises; the last of rows that contradict each other."""


def export_folder(store: Store, folder: str | Path) -> None:
    """Write the index into a new folder, there whole or not at all.

    Raises:
        InvalidInputError: If something is there already.
        StoreError: If it cannot be written.
        CorruptStoreError: If a row does not match its checksum.
    """
    target = Path(folder)
    if target.exists():
        raise InvalidInputError(f"{target} is there already: name a new folder")
    aside = target.with_name(f"{target.name}.new-{uuid.uuid4().hex}")
    try:
        aside.mkdir()
        with store.consistent():
            heads, nodes = store.heads(), list(store.all_nodes())
            check_counts(store.path, heads, nodes)
            rows = _write_vectors(store, nodes, aside / _VECTORS)
            _write_lines(aside, _lines(store, heads, nodes, rows))
        aside.rename(target)
    except KeyError as error:
        raise CorruptStoreError(
            f"{store.path}: a row points to content that is not there; run verify()"
        ) from error
    except OSError as error:
        raise StoreError(f"{target} could not be written: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_vectors(store: Store, nodes: Sequence[StoredNode], path: Path) -> dict[bytes, int]:
    """Write the distinct vectors; return the row of each by its key."""
    rows: dict[bytes, int] = {}
    for stored in nodes:
        for _, key in stored.windows:
            rows.setdefault(key, len(rows))
    contents = store.cached(rows)
    width = len(next(iter(contents.values()))) // 4 if contents else 0
    vectors = np.empty((len(rows), width), dtype=np.float32)
    for key, row in rows.items():
        vectors[row] = np.frombuffer(contents[key], dtype="<f4")
    keys = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, _KEY_BYTES)
    np.savez(path, vectors=vectors, keys=keys)
    return rows


def _lines(
    store: Store,
    heads: Sequence[DocumentHead],
    nodes: Sequence[StoredNode],
    rows: Mapping[bytes, int],
) -> Iterator[str]:
    yield canonical_json({"e2graphrag": FORMAT, "manifest": store.manifest()})
    for head in heads:
        yield canonical_json(document_record(store.document(head.id)))
    for stored in nodes:
        keys = {
            "key": stored.content_key.hex(),
            "windows": [[*span, rows[key]] for span, key in stored.windows],
        }
        yield canonical_json(node_record(store, stored) | keys)


def _write_lines(folder: Path, lines: Iterable[str]) -> None:
    digest, count = hashlib.sha256(), 0
    with (folder / _LINES).open("wb") as file:
        for line in lines:
            encoded = line.encode() + b"\n"
            digest.update(encoded)
            file.write(encoded)
            count += 1
        _add_file(digest, folder / _VECTORS)
        file.write(canonical_json({"end": count, "sha256": digest.hexdigest()}).encode() + b"\n")


def _add_file(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)


def import_folder(folder: str | Path, path: str | Path) -> None:
    """Make an index file of an exported folder; it is there whole and checked, or not at all.

    Raises:
        InvalidInputError: If the folder is no export, was cut short or changed, or the file exists.
        StoreError: If the file cannot be written.
    """
    source, target = Path(folder), Path(path)
    if str(path) == MEMORY or target.exists():
        raise InvalidInputError(f"{path} is there already: name a new file")
    aside = f"{target}.new-{uuid.uuid4().hex}"
    try:
        with (source / _LINES).open("rb") as file:
            _check_whole(file, source)
            file.seek(0)
            store = Store(aside)
            try:
                _fill(store, source, file)
                problems = verify_store(store).problems
                if problems:
                    raise InvalidInputError(f"{source} holds no sound index: {problems[0]}")
            finally:
                store.close()
        _put(Path(aside), target)
    except OSError as error:
        raise InvalidInputError(f"{source} cannot be read as an export: {error}") from error
    finally:
        for rest in (aside, f"{aside}-wal", f"{aside}-shm"):
            Path(rest).unlink(missing_ok=True)


def _put(aside: Path, target: Path) -> None:
    try:
        os.link(aside, target)  # unlike a rename, refuses what came there meanwhile
    except FileExistsError as error:
        raise InvalidInputError(f"{target} is there already: name a new file") from error
    except OSError:
        _rename(aside, target)  # a file system without links


def _rename(aside: Path, target: Path) -> None:
    try:
        aside.rename(target)
    except OSError as error:
        raise StoreError(f"{target} could not be written: {error}") from error


def _check_whole(file: BinaryIO, source: Path) -> None:
    digest, count, last = hashlib.sha256(), 0, b""
    for line in file:
        if last:
            digest.update(last)
            count += 1
        last = line
    _add_file(digest, source / _VECTORS)
    end = canonical_json({"end": count, "sha256": digest.hexdigest()}).encode() + b"\n"
    if last != end:
        raise InvalidInputError(
            f"{source} is no whole export of an index: it was cut short or changed; export again"
        )


def _fill(store: Store, source: Path, file: BinaryIO) -> None:
    number = 0
    try:
        vectors, keys = _read_vectors(source / _VECTORS)
        store.put_cached("vector", {key: v.tobytes() for key, v in zip(keys, vectors, strict=True)})
        manifest = _manifest(json.loads(file.readline()), str(source), vectors)
        documents: dict[str, SourceDocument] = {}
        nodes: dict[str, list[StoredNode]] = {}
        for number, line in enumerate(file, 2):  # noqa: B007 - told if it fails
            record = json.loads(line)
            if "node" in record:
                stored = _node(record, keys, documents[record["document"]])
                nodes[stored.node.document_id].append(stored)
                store.put_cached(*_content(record, stored))
            elif "document" in record:
                document = _document(record)
                documents[document.id] = document
                nodes[document.id] = []
        for id_, document in documents.items():
            store.write_document(document, nodes[id_], manifest)
    except (InvalidInputError, StoreError, *_MALFORMED) as error:
        if isinstance(error, StoreError) and not isinstance(error, CorruptStoreError):
            raise  # the disk is full, say
        raise InvalidInputError(
            f"{source}, line {number}: no line of an export "
            f"({type(error).__name__}: {error}); export again"
        ) from error


def _manifest(header: Mapping[str, Any], source: str, vectors: Any) -> dict[str, str]:
    if header["e2graphrag"] != FORMAT:
        raise ValueError(f"format {header['e2graphrag']}, not {FORMAT}")
    manifest = {check_name("key", key): str(value) for key, value in header["manifest"].items()}
    resolve_settings({}, manifest, source)
    if len(vectors) and manifest["dimension"] != str(vectors.shape[1]):
        raise ValueError(f"vectors of dimension {vectors.shape[1]}, not {manifest['dimension']}")
    return manifest


def _read_vectors(path: Path) -> tuple[Any, list[bytes]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            vectors, keys = arrays["vectors"], arrays["keys"]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{path.name}: {error}") from error
    fits = vectors.dtype == np.float32 and vectors.ndim == 2 and keys.dtype == np.uint8  # noqa: PLR2004 - a matrix
    lengths = np.linalg.norm(vectors, axis=1) if fits else np.empty(0)
    if (
        not fits
        or keys.shape != (len(vectors), _KEY_BYTES)
        or not np.allclose(lengths, 1, atol=0.01)
    ):
        raise ValueError(f"{path.name} does not hold vectors with their keys")
    return vectors.astype("<f4"), [key.tobytes() for key in keys]


def _document(record: Mapping[str, Any]) -> SourceDocument:
    return SourceDocument(
        record["document"],
        record["text"],
        record["title"],
        record["metadata"],
        [tuple(segment) for segment in record["segments"]],
    )


def _node(record: Mapping[str, Any], keys: list[bytes], document: SourceDocument) -> StoredNode:
    start, end = _span(record["span"], len(document.text))
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
        (_span([first, last], len(node.text)), keys[check_int("row", row, 0, None)])
        for first, last, row in record["windows"]
    )
    return StoredNode(node, count_words(node.text), bytes.fromhex(record["key"]), windows)


def _content(record: Mapping[str, Any], stored: StoredNode) -> tuple[str, dict[bytes, bytes]]:
    """Return the kind of what a node links to, and it by its key."""
    text = stored.node.text
    if stored.node.level:
        return "summary", {stored.content_key: text.encode()}
    mentions = [[_mention(fields, len(text)) for fields in s] for s in record["mentions"]]
    return "extraction", {stored.content_key: encode_sentences(mentions)}


def _mention(fields: Sequence[Any], length: int) -> Mention:
    name, start, end, label = fields
    span = _span([start, end], length)
    return Mention(check_name("entity", name), *span, check_name("label", label))


def _span(value: Any, length: int) -> Span:
    start, end = value
    last = check_int("end", end, 0, length)
    return Span(check_int("start", start, 0, last), last)
