"""Crafted files with valid checksums raise this package's errors or are rebuilt."""

from __future__ import annotations

import base64
import io
import json
import shutil
import sqlite3
import zipfile
import zlib
from contextlib import closing, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    E2GraphRAGError,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.portability.export_import import import_folder
from e2graphrag_integrations.snapshot.array_files import load_arrays
from e2graphrag_integrations.store.rows import checksum
from fakes import STORY, NameExtractor
from strategies import examples

needs_llama = pytest.mark.skipif(not find_spec("llama_index"), reason="needs llama-index-core")

numbers = st.sampled_from([-1, 0, 1, 7, 10**6, 2**31, 2**62, -(2**62)])
values = numbers | st.sampled_from(
    [None, "", "x", "[]", "{}", "[[]]", "[" * 5000, 1.5, b"", b"xyz"]
)


def open_index(path):
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(16),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=16, chunk_overlap=0, group_size=3),
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Create an index with a snapshot, its BM25 index, and an export."""
    path = tmp_path_factory.mktemp("original") / "i.e2g"
    with open_index(path) as rag:
        rag.add(SourceDocument("story", STORY, "A Map", {"a": 1}, [(0, 20, {"page": 1})]))
        rag.retrieve("Did Anna meet Bert?")
        rag.export_to(path.with_name("export"))
    return path


@pytest.fixture(scope="module")
def answer(original):
    with open_index(original) as rag:
        return rag.retrieve("Did Anna meet Bert?").nodes


def copied(original, folder):
    path = folder / "i.e2g"
    for target in (path, Path(f"{path}.snapshot")):
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
    shutil.copy(original, path)
    return path


def use(path):
    """Use an index in every way; return the errors, all of which must be this package's."""
    errors = []

    def attempt(action):
        try:
            action()
        except E2GraphRAGError as error:
            errors.append(error)

    def use_open(rag):
        attempt(lambda: rag.retrieve("Did Anna meet Bert?", where={"a": 1}, expand="leaves"))
        attempt(lambda: rag.retrieve("Anna", mode="global", token_budget=50).context())
        attempt(rag.verify)
        attempt(rag.status)
        attempt(lambda: list(rag.export()))
        attempt(lambda: rag.add(SourceDocument("new", "Cleo left for Rome.")))
        rag.close()

    attempt(lambda: use_open(open_index(path)))
    return errors


# Index files


@pytest.mark.slow
@examples(30)
@given(
    table=st.sampled_from(["manifest", "content", "documents", "nodes", "windows"]),
    column=st.integers(0, 9),
    row=st.integers(0, 9),
    value=values,
)
@example(table="nodes", column=3, row=0, value=1_000_000)
def test_crafted_values_with_valid_checksums_raise_typed_errors(
    original, tmp_path_factory, table, column, row, value
):
    path = copied(original, tmp_path_factory.getbasetemp())
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - constants
        names = [info[1] for info in db.execute(f"PRAGMA table_info({table})")]
        fields = list(rows[row % len(rows)][:-1])
        key, place = fields[:2], column % len(fields)
        fields[place] = value
        try:
            db.execute(
                f'UPDATE {table} SET "{names[place]}" = ?, checksum = ? '  # noqa: S608 - constants
                f'WHERE "{names[0]}" = ? AND "{names[1]}" = ?',
                (value, 0 if isinstance(value, float) else checksum(*fields), *key),
            )
        except sqlite3.IntegrityError:
            return  # the table does not accept the value
        db.commit()
    use(path)


_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "script",
    [
        f"ALTER TABLE documents RENAME TO d; CREATE VIEW documents AS {_ENDLESS}",
        f"ALTER TABLE nodes RENAME TO d; CREATE VIEW nodes AS {_ENDLESS}",
        f"ALTER TABLE manifest RENAME TO d; CREATE VIEW manifest AS {_ENDLESS}",
        f"DROP TABLE pending; CREATE VIEW pending AS {_ENDLESS}",
        f"CREATE TRIGGER t AFTER INSERT ON content BEGIN SELECT count(*) FROM ({_ENDLESS}); END",  # noqa: S608 - constants
        "ALTER TABLE nodes ADD COLUMN x AS (zeroblob(1000000000))",
        "ALTER TABLE nodes ADD COLUMN x DEFAULT 1",
        "DROP TABLE pending; CREATE VIRTUAL TABLE pending USING fts5(id, value, checksum)",
    ],
)
def test_views_triggers_and_computed_columns_are_rejected_at_once(original, tmp_path, script):
    path = copied(original, tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)
    with pytest.raises(CorruptStoreError, match="which this package never creates"):
        open_index(path)


def test_crafted_counts_do_not_decide_how_much_memory_is_allocated(original, tmp_path):
    path = copied(original, tmp_path)
    with closing(sqlite3.connect(path)) as db:
        [row] = db.execute("SELECT * FROM documents").fetchall()
        for nodes in (row[6], 10**12):
            fields = ["zzz", *row[1:6], nodes, 10**12, *row[8:10]]
            places = ",".join("?" * 11)
            db.execute(
                f"INSERT OR REPLACE INTO documents VALUES ({places})",  # noqa: S608 - placeholders
                (*fields, checksum(*fields)),
            )
        db.commit()
    with open_index(path) as rag, pytest.raises(CorruptStoreError):
        rag.retrieve("Anna")


# Snapshots


def resealed(folder, change):
    """Change the arrays and the metadata of a folder, and recompute all checksums."""
    wrapped = json.loads((folder / "meta.json").read_text())
    content = json.loads(wrapped["text"])
    change(folder, content)
    for name in content["arrays"]:
        content["arrays"][name] = zlib.crc32((folder / f"{name}.npy").read_bytes())
    text = json.dumps(content)
    wrapped |= {"text": text, "checksum": zlib.crc32(text.encode())}
    (folder / "meta.json").write_text(json.dumps(wrapped))


def header_of(shape, descr="<f4"):
    buffer = io.BytesIO()
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (2**62, 2), (0, 10**12), (10**15, 0)])
def test_an_array_header_that_asks_for_terabytes_is_rejected(original, tmp_path, shape):
    folder = next(Path(f"{original}.snapshot").iterdir())
    shutil.copytree(folder, tmp_path / "f")
    resealed(
        tmp_path / "f",
        lambda where, _: (where / "vectors.npy").write_bytes(header_of(shape) + bytes(64)),
    )
    assert load_arrays(tmp_path / "f") is None


def mutate(array, how, at):
    """Return a changed copy of an array."""
    flat = array.reshape(-1).copy()
    if how == "short":
        return array[:-1]
    if how == "long":
        return np.concatenate([array, array[-1:]])
    if how == "type":
        return array.astype(np.float64 if array.dtype.kind != "f" else np.int32)
    if how == "shape":
        return array.reshape(-1, 1)
    if how == "scalar":
        return np.asarray(7)
    if len(flat):
        low = 0 if array.dtype.kind in "ub" else -5
        flat[at % len(flat)] = {"low": low, "high": 120}[how]
    return flat.reshape(array.shape)


@pytest.mark.slow
@examples(40)
@given(
    file=st.integers(0, 99),
    how=st.sampled_from(["short", "long", "type", "shape", "scalar", "low", "high"]),
    at=st.integers(0, 10**6),
)
def test_a_broken_snapshot_with_valid_checksums_is_rebuilt_or_rejected(
    original, answer, tmp_path_factory, file, how, at
):
    path = copied(original, tmp_path_factory.getbasetemp())
    shutil.copytree(f"{original}.snapshot", f"{path}.snapshot")
    files = sorted(Path(f"{path}.snapshot").rglob("*.npy"))
    target = files[file % len(files)]

    def change(folder, content):
        array = np.load(target)
        np.save(target, mutate(array, how, at) if array.ndim else array)

    resealed(target.parent, change)
    with open_index(path) as rag, suppress(CorruptStoreError):  # a changed id or stamp
        rag.verify()
        rag.retrieve("Anna and Bert", mode="local")
        rag.retrieve("map", mode="global", where={"a": 1}, token_budget=40).context()
        nodes = rag.retrieve("Did Anna meet Bert?", expand="leaves").nodes
        assert {node.document_id for node in nodes} <= {node.document_id for node in answer}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("documents", []),
        ("documents", [7]),
        ("documents", None),
        ("titles", ["a", "b"]),
        ("titles", [["x"]]),
        ("stamps", "x"),
        ("records", [7]),
        ("records", []),
        ("records", {}),
        ("made_with", {}),
        ("made_with", []),
        ("made_with", {"dimension": 16}),
    ],
)
def test_broken_metadata_of_a_snapshot_with_a_valid_checksum_is_rebuilt(
    original, answer, tmp_path, name, value
):
    path = copied(original, tmp_path)
    shutil.copytree(f"{original}.snapshot", f"{path}.snapshot")
    [folder] = Path(f"{path}.snapshot").iterdir()
    resealed(folder, lambda _, content: content["meta"].update({name: value}))
    with open_index(path) as rag:
        assert rag.retrieve("Did Anna meet Bert?").nodes == answer


# Exports


def sign(folder):
    """Recompute the last line of an export."""
    lines = (folder / "index.jsonl").read_bytes().splitlines(keepends=True)[:-1]
    digest = sha256(b"".join(lines) + (folder / "vectors.npz").read_bytes()).hexdigest()
    end = json.dumps({"end": len(lines), "sha256": digest}, separators=(",", ":")).encode()
    (folder / "index.jsonl").write_bytes(b"".join(lines) + end + b"\n")


@pytest.mark.slow
@examples(30)
@given(line=st.integers(0, 99), field=st.integers(0, 99), value=values)
def test_crafted_lines_of_an_export_are_rejected_or_verified(
    original, tmp_path_factory, line, field, value
):
    folder = tmp_path_factory.getbasetemp() / "export"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original.with_name("export"), folder)
    lines = [json.loads(text) for text in (folder / "index.jsonl").read_text().splitlines()]
    record = lines[line % (len(lines) - 1)]
    name = sorted(record)[field % len(record)]
    record[name] = value.decode() if isinstance(value, bytes) else value
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / "index.jsonl").write_text(text)
    sign(folder)
    target = folder / "imported.e2g"
    try:
        import_folder(folder, target)
    except E2GraphRAGError:
        assert not target.exists()
    else:
        assert not use(target)


@pytest.mark.parametrize("shape", [(10**12, 16), (2**40, 2**20), (10**12, 0)])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_vectors_of_an_export_that_ask_for_terabytes_are_rejected(
    original, tmp_path, shape, compression
):
    shutil.copytree(original.with_name("export"), tmp_path / "export")
    with zipfile.ZipFile(tmp_path / "export" / "vectors.npz", "w", compression) as archive:
        archive.writestr("vectors.npy", header_of(shape) + bytes(64))
        archive.writestr("keys.npy", header_of((shape[0], 32), "|u1") + bytes(64))
    sign(tmp_path / "export")
    with pytest.raises(InvalidInputError, match="is invalid"):
        import_folder(tmp_path / "export", tmp_path / "imported.e2g")


# LlamaIndex


@pytest.fixture(scope="module")
def persisted():
    """Return the struct of a LlamaIndex index as plain JSON, and its decoded content."""
    from llama_index.core import Document

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    document = Document(text=STORY, id_="story", metadata={"a": 1})
    options = {"embed_model": HashingEmbedder(16), "extractor": NameExtractor()}
    index = E2GraphRAGIndex.from_documents(
        [document], **grouped({"chunk_size": 16, "chunk_overlap": 0, "group_size": 3, **options})
    )
    struct = json.loads(index.index_struct.to_json())
    return struct, zlib.decompress(base64.b64decode(struct["content"]))


def use_struct(struct):
    """Open an index from a crafted struct and query it."""
    from llama_index.core import StorageContext

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex
    from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct

    context = StorageContext.from_defaults()
    kvstore = context.index_store._kvstore
    entry = {"__type__": E2GraphRAGIndexStruct.get_type(), "__data__": json.dumps(struct)}
    kvstore.put("crafted", entry, "index_store/data")
    options = {"embed_model": HashingEmbedder(16), "extractor": NameExtractor()}
    with E2GraphRAGIndex.from_storage(context, "crafted", **grouped(options)) as index:
        return [n.node_id for n in index.as_retriever().retrieve("Did Anna meet Bert?")]


@needs_llama
@pytest.mark.slow
def test_crafted_structs_of_a_llama_index_raise_typed_errors(persisted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a location may be a relative path
    struct, _ = persisted
    wrong = [None, True, 0, -1, 2**40, 10**30, 1.5, "", "x", "[]", "{}", "[[]]", "[" * 5000, [], {}]
    for name in sorted(struct):
        for value in wrong:
            with suppress(E2GraphRAGError):
                use_struct(struct | {name: value})


@needs_llama
@pytest.mark.slow
@examples(40)
@given(st.data())
def test_crafted_content_of_a_llama_index_raises_typed_errors(persisted, data):
    struct, content = persisted
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 20))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    changed = changed[: data.draw(st.sampled_from([len(changed), 4096, 100, 1]))]
    encoded = base64.b64encode(zlib.compress(bytes(changed))).decode()
    with suppress(E2GraphRAGError):
        use_struct(struct | {"content": encoded})
