"""DOCX: paragraphs, tables and broken files."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import zipfile
from pathlib import Path

import pytest
from docx import Document

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_documents, read_file


def make_docx(replacements: dict[str, bytes]) -> bytes:
    """Return a DOCX file with some of its parts replaced."""
    intact, out = io.BytesIO(), io.BytesIO()
    source = Document()
    source.add_paragraph("Alice met Bob.")
    source.save(intact)
    with zipfile.ZipFile(intact) as parts, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in parts.namelist():
            copy.writestr(name, replacements.get(name, parts.read(name)))
    return out.getvalue()


def set_zip_field(data: bytes, offset: int, value: int) -> bytes:
    """Return a ZIP file with one byte changed in every entry of its central directory."""
    changed, position = bytearray(data), 0
    while (position := changed.find(b"PK\1\2", position)) >= 0:
        changed[position + offset] = value
        position += 4
    return bytes(changed)


@functools.cache
def broken_docx() -> dict[str, bytes]:
    body = "word/document.xml"
    namespace = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    intact = make_docx({})
    damaged = bytearray(intact)
    data_start = damaged.find(b"[Content_Types].xml") + len(b"[Content_Types].xml")
    damaged[data_start : data_start + 60] = b"\xff" * 60
    huge = b"<w:body><w:p><w:r><w:t>" + b"Bob " * 2_600_000 + b"</w:t></w:r></w:p></w:body>"
    return {
        "malformed_body": make_docx({body: b"<not closed"}),
        "empty_body": make_docx({body: b""}),
        "other_root": make_docx({body: b"<a/>"}),
        "no_body": make_docx({body: b"<w:document " + namespace + b"/>"}),
        "huge_text": make_docx(
            {body: b"<w:document " + namespace + b">" + huge + b"</w:document>"}
        ),
        "bad_types": make_docx({"[Content_Types].xml": b"zz"}),
        "bad_properties": make_docx({"docProps/core.xml": b"<x"}),
        "encrypted": set_zip_field(intact, 8, 1),
        "unknown_compression": set_zip_field(intact, 10, 99),
        "damaged_stream": bytes(damaged),
        "truncated": intact[: len(intact) // 2],
    }


def test_docx_yields_paragraphs_and_tables_in_order(tmp_path: Path):
    source = Document()
    source.core_properties.title = "Report"
    source.add_paragraph("Before.")
    table = source.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    source.add_paragraph("After.")
    source.save(str(tmp_path / "a.docx"))
    [document] = read_documents([tmp_path])
    assert (document.title, document.text) == ("Report", "Before.\n\nleft\tright\n\nAfter.")


@pytest.mark.parametrize("kind", broken_docx())
def test_broken_docx_is_rejected_as_unreadable(tmp_path: Path, kind: str):
    (tmp_path / "a.docx").write_bytes(broken_docx()[kind])
    with pytest.raises(UnreadableFileError, match=r"a\.docx is not a readable DOCX file: ."):
        read_file(tmp_path / "a.docx")


def test_random_damage_to_a_docx_raises_only_unreadable_file(tmp_path: Path):
    rng = random.Random(7)  # noqa: S311 - reproducible damage, not cryptography
    intact = make_docx({})
    for _ in range(30):
        damaged = bytearray(intact)
        for _ in range(4):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "a.docx").write_bytes(damaged)
        with contextlib.suppress(UnreadableFileError):
            read_file(tmp_path / "a.docx")
