"""DOCX: paragraphs, tables and broken files."""

from __future__ import annotations

import contextlib
import functools
import random
from pathlib import Path

import pytest
from docx import Document

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import LoaderLimits, read_documents, read_file
from file_makers import make_docx


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
    data_start = damaged.find(b"word/document.xml") + len(b"word/document.xml")
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
        "bad_relations": make_docx({"_rels/.rels": b"zz"}),
        "no_main_part": make_docx({"_rels/.rels": b"<Relationships/>"}),
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
    assert (document.title, document.text) == ("Report", "Before.\n\nleft | right\n\nAfter.")


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


def table_docx(rows: str) -> bytes:
    """Return a DOCX file with one table."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{namespace}"><w:body><w:tbl>{rows}</w:tbl></w:body></w:document>'
    return make_docx({"word/document.xml": body.encode()})


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


def test_merged_cells_appear_once_and_rows_stay_lines(tmp_path: Path):
    source = Document()
    table = source.add_table(rows=3, cols=3)
    for row, texts in zip(table.rows, ["abc", "def", "ghi"], strict=True):
        for table_cell, text in zip(row.cells, texts, strict=True):
            table_cell.text = text
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 0).merge(table.cell(2, 0))
    inner = table.cell(2, 2).add_table(rows=1, cols=2)
    inner.cell(0, 0).text, inner.cell(0, 1).text = "x", "y"
    source.save(str(tmp_path / "a.docx"))
    assert read_file(tmp_path / "a.docx").text == "a b | c\nd g | e | f\n| h | i x | y"


def test_a_cell_that_was_merged_before_a_tracked_change_keeps_its_text(tmp_path: Path):
    path = tmp_path / "changed.docx"
    earlier = "<w:tcPrChange><w:tcPr><w:vMerge/></w:tcPr></w:tcPrChange>"
    path.write_bytes(table_docx(f"<w:tr>{cell('Alice', earlier)}{cell('Oslo')}</w:tr>"))

    assert read_file(path).text == "Alice | Oslo"


def test_a_cell_that_claims_to_span_two_billion_columns_is_read_once(tmp_path: Path):
    row = "<w:tr>" + cell("wide", '<w:gridSpan w:val="2000000000"/>') + cell("end") + "</w:tr>"
    (tmp_path / "a.docx").write_bytes(table_docx(row * 2))
    assert read_file(tmp_path / "a.docx").text == "wide | end\nwide | end"


def test_text_has_inserted_but_no_deleted_words_and_no_copies_for_old_programs(tmp_path: Path):
    row = cell(
        "a</w:t></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:t>old</w:t></w:r>"
        "</w:del><w:r><w:br/><w:t>b</w:t><w:br w:type='page'/><w:tab/><w:t>c"
    )
    (tmp_path / "a.docx").write_bytes(table_docx(f"<w:tr>{row}</w:tr>"))
    assert read_file(tmp_path / "a.docx").text == "anew b c"


def test_images_are_not_unpacked(tmp_path: Path):
    limits = LoaderLimits(unpacked_bytes=500_000)
    (tmp_path / "a.docx").write_bytes(make_docx({}, {"word/media/image1.png": bytes(10**6)}))
    assert "Alice" in read_file(tmp_path / "a.docx", limits=limits).text
