"""Export to a folder and import are exact and atomic; invalid folders are rejected."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    SchemaVersionError,
    StoreError,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.portability.export_import import FORMAT
from e2graphrag_integrations.store.queue import enqueue
from fakes import STORY, CountingExtractor, CountingLLM, NameExtractor, numbered
from strategies import examples, texts

CUT = {"chunk_size": 8, "chunk_overlap": 2, "group_size": 3}
DOCUMENTS = [
    SourceDocument("story", STORY, "A Map", {"kind": "tale", "year": 1895}),
    SourceDocument(
        "pages / 文", "Anna sat. Bert sat.", segments=[(0, 9, {"page": 1}), (9, 19, {"page": 2})]
    ),
    numbered(9),
    SourceDocument("empty", " \n", "Nothing"),
]
QUESTIONS = ("Where did Anna meet Bert?", "Item 7", "the harbour at night")


def opened(path, **options):
    defaults = {
        "embedder": HashingEmbedder(16),
        "extractor": NameExtractor(),
        "summarizer": CountingLLM(),
        "llm_id": "counting",
    }
    return E2GraphRAG.open(path, **grouped(defaults | options))


class SmallEmbedder(HashingEmbedder):
    """Records the texts that it embeds."""

    def __init__(self):
        super().__init__(16)
        self.texts = []

    def embed(self, texts):
        self.texts.extend(texts)
        return super().embed(texts)


def contents(path):
    """Return the export, the answers and the documents of an index."""
    with opened(path) as rag:
        assert rag.verify().ok
        answers = [rag.retrieve(q, k=5).nodes for q in QUESTIONS]
        return list(rag.export()), answers, [rag.document(id_) for id_ in rag.document_ids]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Create an index and its exported folder, which no test may change."""
    folder = tmp_path_factory.mktemp("exported")
    with opened(folder / "i.e2g", **CUT) as rag:
        rag.add(DOCUMENTS)
        rag.export_to(folder / "out")
    return folder


@pytest.fixture
def folder(exported, tmp_path):
    """Copy the exported folder."""
    return Path(shutil.copytree(exported / "out", tmp_path / "out"))


def nothing_left(tmp_path):
    return sorted(file.name for file in tmp_path.iterdir()) == ["out"]


# Round trips


def test_an_imported_index_equals_the_original(exported, tmp_path):
    E2GraphRAG.import_from(exported / "out", tmp_path / "back.e2g")
    assert [file.name for file in tmp_path.iterdir()] == ["back.e2g"]
    assert contents(tmp_path / "back.e2g") == contents(exported / "i.e2g")
    with opened(tmp_path / "back.e2g") as rag:
        assert [rag.document(d.id) for d in DOCUMENTS] == DOCUMENTS
        assert rag.settings.group_size == 3
        assert rag.add(DOCUMENTS).skipped == tuple(d.id for d in DOCUMENTS)


def test_the_export_of_an_imported_index_has_the_same_bytes(exported, tmp_path):
    E2GraphRAG.import_from(exported / "out", tmp_path / "back.e2g")
    with opened(tmp_path / "back.e2g") as rag:
        rag.export_to(tmp_path / "again")
    for name in ("index.jsonl", "vectors.npz"):
        assert (tmp_path / "again" / name).read_bytes() == (exported / "out" / name).read_bytes()
    assert sorted(file.name for file in (tmp_path / "again").iterdir()) == [
        "index.jsonl",
        "vectors.npz",
    ]


def test_an_update_after_an_import_costs_the_same_as_before(exported, tmp_path):
    shutil.copy(exported / "i.e2g", tmp_path / "original.e2g")
    E2GraphRAG.import_from(exported / "out", tmp_path / "back.e2g")
    changed = SourceDocument("story", STORY + " Zoe came.", "A Map", {"kind": "tale"})
    paid, exports = [], []
    for name in ("original.e2g", "back.e2g"):
        llm, extractor, embedder = CountingLLM(), CountingExtractor(), SmallEmbedder()
        parts = {"summarizer": llm, "extractor": extractor, "embedder": embedder}
        with opened(tmp_path / name, **parts) as rag:
            estimate = rag.estimate(update=changed).llm_calls
            report = rag.update(changed)
            assert report.llm_calls + report.saved_calls == estimate
            paid.append((llm.calls, len(extractor.texts), len(embedder.texts)))
            exports.append(list(rag.export()))
    assert paid[0] == paid[1]
    assert 0 < paid[0][1] < 4  # only the end of the text
    assert exports[0] == exports[1]


def test_an_empty_index_round_trips(tmp_path):
    with opened(tmp_path / "i.e2g", **CUT) as rag:
        rag.export_to(tmp_path / "out")
    E2GraphRAG.import_from(tmp_path / "out", tmp_path / "back.e2g")
    with opened(
        tmp_path / "back.e2g", chunk_size=5, chunk_overlap=1
    ) as rag:  # accepts other settings
        assert rag.document_ids == []
        assert rag.add(numbered(3)).documents == 1


def test_an_index_in_memory_can_be_exported(tmp_path, exported):
    with opened(":memory:", **CUT) as rag:
        rag.add(DOCUMENTS)
        rag.export_to(tmp_path / "out")
    for name in ("index.jsonl", "vectors.npz"):
        assert (tmp_path / "out" / name).read_bytes() == (exported / "out" / name).read_bytes()


def test_a_copy_or_an_import_into_memory_is_refused(tmp_path, exported, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened(":memory:", **CUT) as rag, pytest.raises(InvalidInputError, match="in memory"):
        rag.copy_to(":memory:")
    with pytest.raises(InvalidInputError, match="into memory"):
        E2GraphRAG.import_from(exported / "out", ":memory:")
    assert not [*tmp_path.iterdir()]


def test_waiting_documents_are_not_exported(tmp_path):
    with opened(tmp_path / "i.e2g", **CUT) as rag:
        rag.add(DOCUMENTS[0])
        enqueue(rag.store, [numbered(3)], {})
        rag.export_to(tmp_path / "out")
    E2GraphRAG.import_from(tmp_path / "out", tmp_path / "back.e2g")
    with opened(tmp_path / "back.e2g") as rag:
        assert [(state.id, state.status) for state in rag.status()] == [("story", "done")]


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
keys = st.text(max_size=3)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=3,
)
records = st.dictionaries(keys, plain, max_size=2)


@st.composite
def documents(draw):
    found = []
    for number in range(draw(st.integers(0, 3))):
        text = draw(texts(8))
        places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        borders = list(zip(places[::2], places[1::2], strict=False))
        found.append(
            SourceDocument(
                f"{number}{draw(st.text(max_size=3))}",
                text,
                draw(st.none() | st.text(max_size=8)),
                draw(records),
                [(start, end, draw(records)) for start, end in borders],
            )
        )
    return found


@pytest.mark.slow
@settings(examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_documents=documents())
def test_any_documents_round_trip(tmp_path, given_documents):
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    (tmp_path / "back.e2g").unlink(missing_ok=True)
    with opened(":memory:", **CUT) as rag:
        rag.add(given_documents)
        expected = list(rag.export())
        rag.export_to(tmp_path / "out")
    E2GraphRAG.import_from(tmp_path / "out", tmp_path / "back.e2g")
    with opened(tmp_path / "back.e2g") as rag:
        assert rag.verify().ok
        assert [rag.document(d.id) for d in given_documents] == given_documents
        assert list(rag.export()) == expected


def test_real_vectors_and_entities_round_trip(tmp_path, real_embedder, real_extractor):
    parts = {"embedder": real_embedder, "extractor": real_extractor}
    question = "Who sold something?"
    with E2GraphRAG.open(
        tmp_path / "i.e2g", **grouped({**parts, "chunk_size": 20, "chunk_overlap": 0})
    ) as rag:
        rag.add(DOCUMENTS[:2])
        expected = list(rag.export()), rag.retrieve(question).nodes
        rag.export_to(tmp_path / "out")
    E2GraphRAG.import_from(tmp_path / "out", tmp_path / "back.e2g")
    with E2GraphRAG.open(tmp_path / "back.e2g", **grouped(parts)) as rag:
        assert (list(rag.export()), rag.retrieve(question).nodes) == expected


# Existing and failing targets


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file"])
def test_an_export_to_an_existing_path_is_rejected(exported, tmp_path, kind):
    target = tmp_path / "there"
    if kind == "file":
        target.write_text("mine")
    else:
        target.mkdir()
    if kind == "folder":
        (target / "index.jsonl").write_text("mine")
    before = {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")}
    with (
        opened(exported / "i.e2g") as rag,
        pytest.raises(InvalidInputError, match="already exists"),
    ):
        rag.export_to(target)
    assert {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("target", ["there", "there.e2g"])
def test_an_import_to_an_existing_path_is_rejected(exported, tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("there.e2g").write_text("mine")
    with pytest.raises(InvalidInputError, match="already exists"):
        E2GraphRAG.import_from(exported / "out", target)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["there", "there.e2g"]
    assert Path("there.e2g").read_text() == "mine"


def test_an_export_into_a_missing_folder_raises_store_error(exported, tmp_path):
    with opened(exported / "i.e2g") as rag, pytest.raises(StoreError, match="could not be written"):
        rag.export_to(tmp_path / "no" / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_import_into_a_missing_folder_raises_invalid_input_error(folder, tmp_path):
    with pytest.raises(InvalidInputError, match="does not exist"):
        E2GraphRAG.import_from(folder, tmp_path / "no" / "back.e2g")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("call", ["savez", "rename"])
def test_an_export_that_fails_midway_leaves_nothing(exported, tmp_path, monkeypatch, call):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with opened(exported / "i.e2g") as rag:
        monkeypatch.setattr(*((np, "savez") if call == "savez" else (Path, "rename")), full)
        with pytest.raises(StoreError, match="No space left"):
            rag.export_to(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "  ", None, 5, b"out", "x\0y", "n" * 300])
def test_an_invalid_path_is_rejected(exported, tmp_path, value):
    with opened(exported / "i.e2g") as rag, pytest.raises(InvalidInputError, match="path="):
        rag.export_to(value)
    for arguments in ((value, tmp_path / "i.e2g"), (exported / "out", value)):
        with pytest.raises(InvalidInputError, match="path="):
            E2GraphRAG.import_from(*arguments)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE nodes SET text = text || '!' WHERE level = 0",
        "UPDATE documents SET title = 'Another' WHERE id = 'story'",
        "UPDATE content SET value = zeroblob(length(value)) WHERE kind = 'vector'",
        "UPDATE content SET value = x'00' WHERE kind = 'extraction'",
        "UPDATE manifest SET value = '{}' WHERE key = 'made_with'",
        "UPDATE windows SET number = number + 1",
        "DELETE FROM content WHERE kind = 'vector'",
        "DELETE FROM content WHERE kind = 'extraction'",
        "DELETE FROM nodes WHERE level = 1",
        "DELETE FROM windows WHERE number = 0",
    ],
)
def test_a_damaged_index_is_not_exported(exported, tmp_path, damage):
    path = tmp_path / "i.e2g"
    shutil.copy(exported / "i.e2g", path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(damage).rowcount
        db.commit()
    with pytest.raises(CorruptStoreError), opened(path) as rag:
        rag.export_to(tmp_path / "out")
    assert not any(file.name.startswith("out") for file in tmp_path.iterdir())


# Invalid exports


def assert_rejected(folder, tmp_path, match=None):
    """Check that the import of a folder fails and leaves no file."""
    with pytest.raises(InvalidInputError, match=match):
        E2GraphRAG.import_from(folder, tmp_path / "back.e2g")
    assert nothing_left(tmp_path)


@pytest.mark.parametrize(
    "missing", [["index.jsonl"], ["vectors.npz"], ["index.jsonl", "vectors.npz"]]
)
def test_the_error_names_a_missing_file(folder, tmp_path, missing):
    for name in missing:
        (folder / name).unlink()
    assert_rejected(folder, tmp_path, f"cannot be read as an export.*{missing[0]}")


def test_a_path_that_is_not_a_folder_is_rejected(tmp_path):
    (tmp_path / "out").write_text("not a folder")
    assert_rejected(tmp_path / "out", tmp_path, "cannot be read as an export")
    assert_rejected(tmp_path / "ghost", tmp_path, "cannot be read as an export")


def test_a_folder_in_place_of_a_file_is_rejected(folder, tmp_path):
    (folder / "vectors.npz").unlink()
    (folder / "vectors.npz").mkdir()
    assert_rejected(folder, tmp_path, "cannot be read as an export")


def test_a_truncated_file_is_rejected(folder, tmp_path):
    for name in ("index.jsonl", "vectors.npz"):
        file = folder / name
        original = file.read_bytes()
        for size in (
            0,
            1,
            len(original) // 3,
            len(original) - 100,
            len(original) - 2,
            len(original) - 1,
        ):
            file.write_bytes(original[:size])
            assert_rejected(folder, tmp_path, "cut short or changed")
        file.write_bytes(original)


def test_changed_deleted_repeated_or_moved_lines_are_rejected(folder, tmp_path):
    file = folder / "index.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for at, line in enumerate(lines):
        others = [
            [*lines[:at], *lines[at + 1 :]],
            [*lines[:at], line, *lines[at:]],
            [*lines[:at], line.replace(b'"', b"'", 1), *lines[at + 1 :]],
            [*lines[:at], line.rstrip(), b" \n", *lines[at + 1 :]],
            [*lines[:at], b"\n", *lines[at:]],
        ]
        if 0 < at < len(lines) - 1:
            others.append([*lines[:at], lines[at + 1], line, *lines[at + 2 :]])
        for changed in others[:: 1 if at in (0, 1, 5, len(lines) - 1) else 2]:
            if changed != lines:
                file.write_bytes(b"".join(changed))
                assert_rejected(folder, tmp_path)


def test_files_of_two_exports_cannot_be_mixed(folder, tmp_path):
    with opened(":memory:", **CUT) as rag:
        rag.add(numbered(9, "other"))
        rag.export_to(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "vectors.npz", folder / "vectors.npz")
    shutil.rmtree(tmp_path / "other")
    assert_rejected(folder, tmp_path, "cut short or changed")


def test_random_bit_flips_are_detected(folder, tmp_path):
    random_numbers = random.Random(7)  # noqa: S311 - the same flips each time
    for name in ("index.jsonl", "vectors.npz"):
        file = folder / name
        original = file.read_bytes()
        for _ in range(100):
            flipped = bytearray(original)
            for _ in range(random_numbers.choice((1, 1, 1, 5))):
                flipped[random_numbers.randrange(len(original))] ^= 1 << random_numbers.randrange(8)
            if flipped == original:
                continue
            file.write_bytes(flipped)
            assert_rejected(folder, tmp_path)
        file.write_bytes(original)


# Invalid exports with a correct hash


def sign(folder, lines=None):
    """Write lines (JSON values or bytes) with a correct hash."""
    file = folder / "index.jsonl"
    if lines is None:
        lines = file.read_bytes().splitlines()[:-1]
    lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    body = b"".join(line + b"\n" for line in lines)
    digest = hashlib.sha256(body + (folder / "vectors.npz").read_bytes()).hexdigest()
    file.write_bytes(body + b'{"end":%d,"sha256":"%s"}\n' % (len(lines), digest.encode()))


def records_of(folder):
    return [json.loads(line) for line in (folder / "index.jsonl").read_bytes().splitlines()[:-1]]


def place_of(records, kind):
    """Return the index of the first line of a kind."""
    is_kind = {
        "header": lambda r: "manifest" in r,
        "document": lambda r: "segments" in r and r["document"] == "story",
        "chunk": lambda r: r.get("level") == 0 and r["document"] == "story" and r["position"] == 2,
        "summary": lambda r: r.get("level") == 1 and r["document"] == "story",
    }[kind]
    return next(number for number, record in enumerate(records) if is_kind(record))


def test_signing_an_unchanged_export_keeps_it_valid(folder, tmp_path, exported):
    before = (folder / "index.jsonl").read_bytes()
    sign(folder)
    assert (folder / "index.jsonl").read_bytes() == before
    sign(folder, records_of(folder))  # other JSON of the same values
    E2GraphRAG.import_from(folder, tmp_path / "back.e2g")
    assert contents(tmp_path / "back.e2g") == contents(exported / "i.e2g")


def wrong(kind, key, *values):
    return [
        pytest.param(kind, key, value, id=f"{kind}-{key}-{str(value)[:20]}") for value in values
    ]


MISSING = object()


@pytest.mark.fast_cases(20)
@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        *wrong("header", "e2graphrag", MISSING, None, "1", [], {}),
        *wrong("header", "manifest", MISSING, None, 5, "x", [], [1]),
        *wrong("document", "document", MISSING, None, "", 5, " ", "\ud800", []),
        *wrong("document", "title", MISSING, 5, [], "\ud800"),
        *wrong("document", "text", MISSING, None, 5, "", "Another text altogether.", STORY[:-1]),
        *wrong("document", "metadata", MISSING, None, 5, [1], {"document_id": "x"}, "x"),
        *wrong("document", "metadata", {"a": float("nan")}, {"a": float("inf")}),
        *wrong(
            "document", "segments", MISSING, None, 5, [5], [[]], [[0]], [[0, 9, 9]], [[9, 0, {}]]
        ),
        *wrong("document", "segments", [[0, 10_000, {}]], [[0, "x", {}]], [[0.5, 1, {}]]),
        *wrong("chunk", "node", MISSING, 5, "another", [], {}),
        *wrong("chunk", "document", MISSING, None, 5, "pages / 文", "ghost", []),
        *wrong("chunk", "level", MISSING, None, "x", [], -1, 7, float("nan")),
        *wrong("chunk", "position", MISSING, None, "x", [], -1, 99),
        *wrong("chunk", "span", MISSING, None, [], [1], [0, 1, 2], ["a", "b"], [0, 10_000], [5, 3]),
        *wrong("chunk", "parent", MISSING, None, 5, "ghost", []),
        *wrong("chunk", "text", MISSING, None, "", "x", 5, []),
        *wrong("chunk", "key", MISSING, None, 5, "x", "zz", "abc"),
        *wrong(
            "chunk", "windows", MISSING, None, [], [[]], [[0, 5]], [[0, 5, 99]], [[0, 5, "x"]], 5
        ),
        *wrong(
            "chunk", "mentions", MISSING, None, 5, [5], [[[]]], [[5]], [[["a", 1]]], [["abcdef"]]
        ),
        *wrong("summary", "level", 0, 2, -1),
        *wrong("summary", "parent", "ghost", 5),
        *wrong("summary", "span", [0, 1], [0, 10_000]),
        *wrong("summary", "text", MISSING, None, 5, []),
        *wrong("chunk", "level", 10**30, float("inf")),
        *wrong("chunk", "position", 10**30, float("inf")),
        *wrong("chunk", "span", [0, 10**30], [0, float("inf")]),
        *wrong("chunk", "windows", [[0, 10**30, 0]], [[0, 1, float("inf")]]),
        *wrong("chunk", "node", None),
        *wrong("chunk", "level", 1),
        *wrong("chunk", "position", 1),
        *wrong("chunk", "mentions", [[[5, 0, 1, "X"]]], [[[None, 0, 1, "X"]]]),
        *wrong("chunk", "mentions", [[["Anna", 0, 10_000, "X"]]]),
        *wrong("chunk", "mentions", [[["Anna", "a", "b", "X"]]]),
        *wrong("chunk", "windows", [[0, 10_000, 0]], [[5, 3, 0]], [[0, 5, -1]]),
        *wrong("summary", "text", ""),
    ],
)
def test_an_invalid_value_is_rejected(folder, tmp_path, kind, key, value):
    records = records_of(folder)
    record = records[place_of(records, kind)]
    if value is MISSING:
        del record[key]
    else:
        record[key] = value
    sign(folder, records)
    assert_rejected(folder, tmp_path)


@pytest.mark.parametrize("version", [1, FORMAT + 1])
def test_an_export_of_another_format_version_is_refused(folder, tmp_path, version):
    records = records_of(folder)
    records[0]["e2graphrag"] = version
    sign(folder, records)
    expected = f"format version {version}, .* only version {FORMAT}: index the documents again"
    with pytest.raises(SchemaVersionError, match=expected):
        E2GraphRAG.import_from(folder, tmp_path / "new.e2g")
    assert not (tmp_path / "new.e2g").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group_size", "4"),  # gives trees of another shape
        ("grouping", "content"),
        ("chunk_size", "0"),
        ("chunk_size", "x"),
        ("chunk_overlap", "99"),
        ("group_size", "1"),
        ("chunking", "odd"),
        ("dimension", "17"),
    ],
)
def test_invalid_settings_are_rejected(folder, tmp_path, name, value):
    records = records_of(folder)
    records[0]["manifest"][name] = value
    sign(folder, records)
    assert_rejected(folder, tmp_path)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("kind", ["header", "document", "chunk", "summary"])
def test_a_missing_or_invalid_line_is_rejected(folder, tmp_path, kind):
    records = records_of(folder)
    at = place_of(records, kind)
    sign(folder, [*records[:at], *records[at + 1 :]])
    assert_rejected(folder, tmp_path)
    for line in (b"", b"[]", b"null", b'"x"', b"{", b"\xff", b"[" * 100_000, b"{}"):
        sign(folder, [*records[:at], line, *records[at + 1 :]])
        assert_rejected(folder, tmp_path)


@pytest.mark.parametrize("kind", ["header", "chunk", "summary"])
def test_a_repeated_line_is_rejected(folder, tmp_path, exported, kind):
    records = records_of(folder)
    at = place_of(records, kind)
    sign(folder, [*records[: at + 1], *records[at:]])
    if kind == "header":  # a second header is ignored
        E2GraphRAG.import_from(folder, tmp_path / "back.e2g")
        assert contents(tmp_path / "back.e2g") == contents(exported / "i.e2g")
    else:
        assert_rejected(folder, tmp_path)


def test_the_order_of_documents_does_not_matter(folder, tmp_path, exported):
    header, *records = records_of(folder)
    heads = [record for record in records if "segments" in record]
    nodes = [record for record in records if "node" in record]
    sign(folder, [header, *reversed(heads), *nodes])
    E2GraphRAG.import_from(folder, tmp_path / "back.e2g")
    assert contents(tmp_path / "back.e2g") == contents(exported / "i.e2g")


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_pickle_is_ever_loaded(folder, tmp_path):
    trace = folder / "trace"
    file = folder / "vectors.npz"
    with np.load(file) as arrays:
        keys, vectors = arrays["keys"], arrays["vectors"]
    trap = np.array([[Trap(trace)]], dtype=object)
    for parts in ({"vectors": trap, "keys": keys}, {"vectors": vectors, "keys": trap}):
        np.savez(file, **parts)
        sign(folder)
        assert_rejected(folder, tmp_path)
    file.write_bytes(pickle.dumps(Trap(trace)))
    sign(folder)
    assert_rejected(folder, tmp_path)
    with file.open("wb") as opened_file:
        np.save(opened_file, trap)
    sign(folder)
    assert_rejected(folder, tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda v, _: {"vectors": v},
        lambda _, k: {"keys": k},
        lambda v, k: {"vectors": v[:-1], "keys": k},
        lambda v, k: {"vectors": v[:-1], "keys": k[:-1]},
        lambda v, k: {"vectors": v.astype("f8"), "keys": k},
        lambda v, k: {"vectors": v.astype("c8"), "keys": k},
        lambda v, k: {"vectors": v.ravel(), "keys": k},
        lambda v, k: {"vectors": v, "keys": k[:, :-1]},
        lambda v, k: {"vectors": v, "keys": k.astype("u2")},
        lambda v, k: {"vectors": np.full_like(v, np.nan), "keys": k},
        lambda v, k: {"vectors": np.full_like(v, np.inf), "keys": k},
        lambda _, k: {"vectors": np.array(5, dtype="f4"), "keys": k},
    ],
)
def test_invalid_vectors_are_rejected(folder, tmp_path, change):
    file = folder / "vectors.npz"
    with np.load(file) as arrays:
        parts = change(arrays["vectors"], arrays["keys"])
    np.savez(file, **parts)
    sign(folder)
    assert_rejected(folder, tmp_path)


def test_zero_vectors_are_rejected(folder, tmp_path):
    file = folder / "vectors.npz"
    with np.load(file) as arrays:
        keys, vectors = arrays["keys"], arrays["vectors"]
    np.savez(file, keys=keys, vectors=vectors * 0)
    sign(folder)
    assert_rejected(folder, tmp_path)


def test_the_other_byte_order_is_rejected_or_read_correctly(folder, tmp_path, exported):
    file = folder / "vectors.npz"
    with np.load(file) as arrays:
        keys, vectors = arrays["keys"], arrays["vectors"]
    np.savez(file, keys=keys, vectors=vectors.astype(">f4"))
    sign(folder)
    try:
        E2GraphRAG.import_from(folder, tmp_path / "back.e2g")
    except InvalidInputError:
        return
    assert contents(tmp_path / "back.e2g") == contents(exported / "i.e2g")


@pytest.mark.slow
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_bit_flips_of_a_signed_npz_are_rejected_or_harmless(folder, tmp_path, exported, save):
    file, target = folder / "vectors.npz", tmp_path / "back.e2g"
    with np.load(file) as arrays:
        parts = dict(arrays)
    save(file, **parts)
    original = file.read_bytes()
    random_numbers = random.Random(11)  # noqa: S311 - the same flips each time
    expected = contents(exported / "i.e2g")[0]
    for _ in range(60):
        flipped = bytearray(original)
        flipped[random_numbers.randrange(len(original))] ^= 1 << random_numbers.randrange(8)
        file.write_bytes(flipped)
        sign(folder)
        try:
            E2GraphRAG.import_from(folder, target)
        except InvalidInputError:
            assert nothing_left(tmp_path)
            continue
        with opened(target) as rag:
            assert list(rag.export()) == expected
        shutil.rmtree(f"{target}.snapshot")
        target.unlink()
