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

from e2graphrag_integrations import Segment
from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders import LoaderLimits, read_data, read_documents, read_file
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
        "property_as_root": make_docx({body: b"<vertAlign/>"}),
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


@pytest.mark.slow
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
    assert read_file(tmp_path / "a.docx").text == "a b | | c\nd g | e | f\n| h | i x | y"


def test_the_columns_of_rows_agree_although_cells_cover_several():
    rows = [
        cell("Region") + cell("2020", '<w:gridSpan w:val="2"/>') + cell("Total"),
        cell("North") + cell("1") + cell("2") + cell("3"),
        '<w:trPr><w:gridBefore w:val="2"/></w:trPr>' + cell("4") + cell("5"),
        cell("Sum") + cell("6", '<w:gridSpan w:val="3"/>'),
    ]
    data = table_docx("".join(f"<w:tr>{row}</w:tr>" for row in rows))
    assert read_data(data, "a.docx").text.split("\n") == [
        "Region | 2020 | | Total",
        "North | 1 | 2 | 3",
        "| | 4 | 5",
        "Sum | 6",
    ]


def test_covered_columns_count_as_cells():
    row = "<w:tr>" + cell("wide", '<w:gridSpan w:val="100"/>') + cell("end") + "</w:tr>"
    with pytest.raises(FileLimitError, match="cells"):
        read_data(table_docx(row), "a.docx", limits=LoaderLimits(cells=50))


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


WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx_of(paragraphs: str, more: dict[str, str] | None = None) -> bytes:
    """Return a DOCX file with some paragraphs and further parts."""
    body = f"<w:document {WORD}><w:body>{paragraphs}</w:body></w:document>"
    parts = {"word/document.xml": body, **(more or {})}
    intact = zipfile.ZipFile(io.BytesIO(make_docx({}))).namelist()
    return make_docx(
        {name: text.encode() for name, text in parts.items()},
        {name: text.encode() for name, text in parts.items() if name not in intact},
    )


def paragraph(text: str, properties: str = "", more: str = "") -> str:
    run = f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>' if text else ""
    return f"<w:p><w:pPr>{properties}</w:pPr>{run}{more}</w:p>"


def numbered(level: int, list_id: int = 1) -> str:
    return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>'


def numbering(*levels: tuple[str, str], more: str = "") -> dict[str, str]:
    """Return the part that defines the lists 1 and 2, which count together."""
    xml = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
        f'<w:lvlText w:val="{label}"/></w:lvl>'
        for n, (kind, label) in enumerate(levels)
    )
    lists = "".join(
        f'<w:num w:numId="{n}"><w:abstractNumId w:val="7"/>{more if n > 1 else ""}</w:num>'
        for n in (1, 2)
    )
    abstract = f'<w:abstractNum w:abstractNumId="7">{xml}</w:abstractNum>'
    return {"word/numbering.xml": f"<w:numbering {WORD}>{abstract}{lists}</w:numbering>"}


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


RAISED = '<w:vertAlign w:val="superscript"/>'
EARLIER = f"<w:rPrChange><w:rPr>{RAISED}</w:rPr></w:rPrChange>"


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (
            run("In 1990") + run("1", RAISED) + run(" and 10") + run("6", RAISED),
            "In 1990^1 and 10^6",
        ),
        (run("10") + run("1", RAISED) + run("2", RAISED) + run("3"), "10^123"),
        (run("the 4") + run("th", RAISED) + run(", m") + run("2", RAISED), "the 4th, m2"),
        (run("10") + run("6", '<w:vertAlign w:val="subscript"/>') + run("7", EARLIER), "1067"),
        (f"<w:pPr><w:rPr>{RAISED}</w:rPr></w:pPr>" + run("10") + run("6"), "106"),
    ],
    ids=["numbers", "runs", "letters", "others", "mark_of_the_paragraph"],
)
def test_a_raised_number_after_a_digit_does_not_make_another_number(runs: str, text: str):
    assert read_data(docx_of(f"<w:p>{runs}</w:p>"), "a.docx").text == text


def test_phonetic_guides_are_left_out():
    guide = f"<w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase>"
    runs = f"<w:r><w:ruby><w:rubyPr/>{guide}</w:ruby></w:r>{run('に行く')}"
    assert read_data(docx_of(f"<w:p>{runs}</w:p>"), "a.docx").text == "東京に行く"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<w:p/><w:p><w:r><w:drawing/></w:r></w:p>", "it has no text, only images: .*ocrmypdf"),
        ('<w:altChunk w:id="r1"/><w:p/>', "its text is in a file inside it: open it in Word"),
    ],
    ids=["images", "embedded_file"],
)
def test_a_file_with_images_or_another_file_instead_of_text_is_refused_with_the_reason(
    body: str, reason: str
):
    with pytest.raises(UnreadableFileError, match=f"a.docx is not a readable DOCX file: {reason}"):
        read_data(docx_of(body), "a.docx")


def test_numbered_paragraphs_begin_with_their_numbers():
    levels = ("decimal", "Article %1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)")
    given = [("Scope", 0), ("Parties", 1), ("Alice", 2), ("Bob", 2), ("Place", 1), ("Term", 0)]
    body = "".join(paragraph(text, numbered(level)) for text, level in [*given, ("Start", 1)])
    text = read_data(docx_of(body, numbering(*levels)), "a.docx").text
    assert text.split("\n\n") == [
        "Article 1. Scope",
        "1.1 Parties",
        "(a) Alice",
        "(b) Bob",
        "1.2 Place",
        "Article 2. Term",
        "2.1 Start",
    ]


def test_numbers_of_heading_styles_bullets_and_restarted_lists():
    levels = ("upperRoman", "%1."), ("bullet", "o")
    restart = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'
    styles = (
        f'<w:styles {WORD}><w:style w:styleId="H"><w:name w:val="heading 1"/><w:pPr>'
        '<w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style></w:styles>'
    )
    heading = '<w:pStyle w:val="H"/>'
    body = (
        paragraph("One", heading)
        + paragraph("Point", numbered(1))
        + paragraph("Two", heading)
        + paragraph("Plain", heading + numbered(0, 0))
        + paragraph("Again", numbered(0, 2))
        + paragraph("More", numbered(0, 2))
        + paragraph("No such list", numbered(0, 9))
    )
    parts = {**numbering(*levels, more=restart), "word/styles.xml": styles}
    document = read_data(docx_of(body, parts), "a.docx")
    assert document.text.split("\n\n") == [
        "I. One",
        "Point",
        "II. Two",
        "Plain",
        "I. Again",
        "II. More",
        "No such list",
    ]
    headings = [segment.metadata["headings"] for segment in map(Segment._make, document.segments)]
    assert headings == [["I. One"], ["II. Two"], ["Plain"]]


def test_a_crafted_list_does_not_make_long_numbers():
    levels = (("upperLetter", "%1)"), ("decimal", "x" * 1000))
    restart = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="999999"/></w:lvlOverride>'
    body = paragraph("Far", numbered(0, 2)) + paragraph("Long", numbered(1, 2))
    text = read_data(docx_of(body, numbering(*levels, more=restart)), "a.docx").text
    assert text == "999999) Far\n\nLong"


def test_notes_and_text_boxes_follow_their_paragraph():
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="x/footnotes" Target="footnotes.xml"/></Relationships>'
    )
    notes = (
        f'<w:footnotes {WORD}><w:footnote w:id="0"><w:p/></w:footnote><w:footnote w:id="2">'
        f"{paragraph('See the map.')}{paragraph('It is old.')}</w:footnote></w:footnotes>"
    )
    box = f"<w:txbxContent>{paragraph('In a box.')}{paragraph('Second line.')}</w:txbxContent>"
    body = (
        paragraph("Alice met Bob.", more='<w:r><w:footnoteReference w:id="2"/></w:r>')
        + paragraph("Beside a box.", more=f"<w:r><w:pict>{box}</w:pict></w:r>")
        + "<w:tbl><w:tr><w:tc>"
        + paragraph("Cell", more=f"<w:r><w:pict>{box}</w:pict></w:r>")
        + "</w:tc></w:tr></w:tbl>"
        + paragraph("End.")
    )
    parts = {"word/_rels/document.xml.rels": relations, "word/footnotes.xml": notes}
    text = read_data(docx_of(body, parts), "a.docx").text
    assert text.split("\n\n") == [
        "Alice met Bob.",
        "See the map. It is old.",
        "Beside a box.",
        "In a box.",
        "Second line.",
        "Cell In a box. Second line.",
        "End.",
    ]
