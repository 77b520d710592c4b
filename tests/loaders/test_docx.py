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
        (run("10") + run("-6", RAISED) + run("/l"), "10^-6/l"),
        (run("2024") + run("3", '<w:position w:val="8"/>') + run("4"), "2024^34"),
        (run("20") + run("24", '<w:position w:val="1"/>'), "2024"),
        (
            run("10") + run("6", '<w:rStyle w:val="Up"/>') + run("7", '<w:rStyle w:val="X"/>'),
            "10^67",
        ),
        (f"<w:pPr><w:rPr>{RAISED}</w:rPr></w:pPr>" + run("10") + run("6"), "106"),
    ],
    ids=[
        *("numbers", "runs", "letters", "others", "negative", "position", "small_shift", "style"),
        "mark_of_the_paragraph",
    ],
)
def test_a_raised_number_after_a_digit_does_not_make_another_number(runs: str, text: str):
    style = f'<w:style w:styleId="Up"><w:rPr>{RAISED}</w:rPr></w:style>'
    parts = {"word/styles.xml": f"<w:styles {WORD}>{style}</w:styles>"}
    assert read_data(docx_of(f"<w:p>{runs}</w:p>", parts), "a.docx").text == text


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


@pytest.mark.parametrize("kind", ["page", "column"])
def test_a_page_or_column_that_begins_in_a_paragraph_does_not_join_words(kind: str):
    new = f'<w:r><w:br w:type="{kind}"/></w:r>'
    body = f"<w:p>{new}{run('It holds 12')}{new}{run('5 pallets ')}{new}{run('remain.')}{new}</w:p>"
    text = read_data(docx_of(f"{body}<w:p>{new}</w:p>"), "a.docx").text
    assert text == "It holds 12\n5 pallets remain.\n\n"


def math(name: str, *operands: tuple[str, str], before: str = "") -> str:
    """Return a part of an equation with operands, given as names and contents."""
    inner = "".join(f"<m:{own}>{content}</m:{own}>" for own, content in operands)
    return f"<m:{name}>{before}{inner}</m:{name}>"


def term(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def fraction(above: str, below: str) -> str:
    return math("f", ("num", above), ("den", below))


def power(base: str, raised: str) -> str:
    return math("sSup", ("e", base), ("sup", raised))


BRACKETS = '<m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr>'
SUM = '<m:naryPr><m:chr m:val="∑"/></m:naryPr>'


EQUATIONS = (
    (run("Take 2") + fraction(term("1"), term("2")) + run("cup"), "Take 2 1/2 cup"),
    (power(term("1") + term("0"), term("-") + term("6")) + term("5"), "10^-6 5"),
    (math("sSub", ("e", term("x")), ("sub", term("2"))) + term("+y"), "x_2+y"),
    (math("sSubSup", ("e", term("x")), ("sub", term("1")), ("sup", term("2"))), "x_1^2"),
    (fraction(term("a+b"), fraction(term("2"), term("3.5"))), "(a+b)/(2/3.5)"),
    (power(math("d", ("e", term("a+b"))), term("2")), "(a+b)^2"),
    (math("d", ("e", term("a")), ("e", term("b")), before=BRACKETS), "[a|b]"),
    (math("rad", ("deg", ""), ("e", term("a+b"))), "√(a+b)"),
    (math("rad", ("deg", term("3")), ("e", term("27"))), "3√27"),
    (
        math("nary", ("sub", term("i=1")), ("sup", term("n")), ("e", term("i")), before=SUM),
        "∑_(i=1)^n i",
    ),
    (math("func", ("fName", term("sin")), ("e", term("x"))), "sin x"),
    (
        math("m", *(("mr", math("e", ("r", f"<m:t>{n}</m:t>"))) for n in "12")),
        "1; 2",
    ),
    ("<v:f>1</v:f>" + fraction("", ""), ""),
)


def test_equations_keep_their_structure_in_one_line():
    names = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:vml"'
    body = "".join(f"<w:p {names}>{equation}</w:p>" for equation, _ in EQUATIONS)
    texts = read_data(docx_of(body), "a.docx").text.split("\n\n")
    assert texts == [text for _, text in EQUATIONS]


def form(field: str, result: str = "") -> str:
    parts = (f'begin"><w:ffData>{field}</w:ffData>', 'separate">', 'end">')
    begin, middle, end = (
        f'<w:r><w:fldChar w:fldCharType="{one}</w:fldChar></w:r>' for one in parts
    )
    return begin + middle + result + end


ENTRIES = "".join(f'<w:listEntry w:val="{one}"/>' for one in ("single", "divorced", "married"))


FORMS = (
    (form(f'<w:ddList><w:result w:val="1"/>{ENTRIES}</w:ddList>'), "divorced"),
    (form(f'<w:ddList><w:default w:val="2"/>{ENTRIES}</w:ddList>'), "married"),
    (form(f"<w:ddList>{ENTRIES}</w:ddList>") + run(", two"), "single, two"),
    (form(f"<w:ddList>{ENTRIES}</w:ddList>", run("single")), "single"),
    (form(f'<w:ddList><w:result w:val="9"/>{ENTRIES}</w:ddList>'), ""),
    (form('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>') + run(" a"), "☒ a"),
    (form('<w:checkBox><w:default w:val="1"/></w:checkBox>'), "☒"),
    (form('<w:checkBox><w:checked w:val="0"/></w:checkBox>'), "☐"),
    (form('<w:textInput><w:default w:val="x"/></w:textInput>', run("y")), "y"),
)


def test_forms_have_the_chosen_entry_and_the_state_of_boxes():
    body = "".join(f"<w:p>{runs}</w:p>" for runs, _ in FORMS)
    texts = read_data(docx_of(body), "a.docx").text.split("\n\n")
    assert texts == [text for _, text in FORMS]


SYMBOLS = (
    ("Symbol", "F0B3", "≥"),
    ("Symbol", "F061", "α"),
    ("Symbol", "B1", "±"),
    ("Wingdings", "F0FE", "☑"),
    ("Wingdings", "F0A8", "☐"),
    ("Wingdings 2", "F052", "☑"),
    ("MS Gothic", "2610", "☐"),
    ("Wingdings", "F021", ""),
    ("Own Font", "F041", ""),
    ("Symbol", "zz", ""),
)


def test_usual_characters_of_fonts_of_symbols_are_read():
    body = "".join(
        f'<w:p><w:r><w:t>a</w:t><w:sym w:font="{font}" w:char="{char}"/></w:r></w:p>'
        for font, char, _ in SYMBOLS
    )
    texts = read_data(docx_of(body), "a.docx").text.split("\n\n")
    assert texts == [f"a{text}" for _, _, text in SYMBOLS]


def test_a_list_can_take_its_levels_from_a_style_and_have_levels_of_its_own():
    def level(kind: str, label: str, first: int = 1) -> str:
        return (
            f'<w:lvl w:ilvl="0"><w:start w:val="{first}"/><w:numFmt w:val="{kind}"/>'
            f'<w:lvlText w:val="{label}"/></w:lvl>'
        )

    def abstract(number: int, inner: str) -> str:
        return f'<w:abstractNum w:abstractNumId="{number}">{inner}</w:abstractNum>'

    def list_of(number: int, kind: int, more: str = "") -> str:
        inner = f'<w:abstractNumId w:val="{kind}"/>{more}'
        return f'<w:num w:numId="{number}">{inner}</w:num>'

    own = f'<w:lvlOverride w:ilvl="0">{level("decimal", "§ %1", 5)}</w:lvlOverride>'
    xml = (
        abstract(7, f'<w:styleLink w:val="Clauses"/>{level("upperRoman", "%1.")}')
        + abstract(8, '<w:numStyleLink w:val="Clauses"/>')
        + abstract(9, level("decimal", "%1."))
        + list_of(1, 8)
        + list_of(2, 9, own)
        + list_of(3, 9)
    )
    body = "".join(
        paragraph(text, numbered(0, list_id))
        for text, list_id in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3)]
    )
    parts = {"word/numbering.xml": f"<w:numbering {WORD}>{xml}</w:numbering>"}
    text = read_data(docx_of(body, parts), "a.docx").text
    assert text.split("\n\n") == ["I. a", "II. b", "§ 5 c", "§ 6 d", "7. e"]


def test_paragraphs_and_styles_with_a_level_of_the_outline_are_headings():
    styles = (
        f'<w:styles {WORD}><w:style w:styleId="C"><w:name w:val="Chapter"/><w:pPr>'
        '<w:outlineLvl w:val="0"/></w:pPr></w:style></w:styles>'
    )
    body = (
        paragraph("One", '<w:pStyle w:val="C"/>')
        + paragraph("Two", '<w:outlineLvl w:val="1"/>')
        + paragraph("Plain", '<w:outlineLvl w:val="9"/>')
    )
    document = read_data(docx_of(body, {"word/styles.xml": styles}), "a.docx")
    headings = [segment.metadata["headings"] for segment in map(Segment._make, document.segments)]
    assert headings == [["One"], ["One", "Two"]]


def test_hidden_text_is_left_out():
    style = '<w:style w:styleId="Hid"><w:rPr><w:vanish/></w:rPr></w:style>'
    parts = {"word/styles.xml": f"<w:styles {WORD}>{style}</w:styles>"}
    body = "<w:p>" + "".join(
        [
            *("<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>", run("secret", "<w:vanish/>")),
            *(run("visible"), run(" note", '<w:rStyle w:val="Hid"/>')),
            run(".", '<w:vanish w:val="0"/>'),
        ]
    )
    assert read_data(docx_of(f"{body}</w:p>", parts), "a.docx").text == "visible."


def test_notes_keep_raised_numbers_hyphens_and_breaks():
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="x/endnotes" Target="endnotes.xml"/></Relationships>'
    )
    hyphen = '<w:r><w:t>p. 5</w:t><w:noBreakHyphen/><w:t>10</w:t><w:br w:type="page"/></w:r>'
    note = f"<w:p>{hyphen}{run('and 10')}{run('6', RAISED)}</w:p><w:p>{run('7')}</w:p>"
    notes = f'<w:endnotes {WORD}><w:endnote w:id="2">{note}</w:endnote></w:endnotes>'
    parts = {"word/_rels/document.xml.rels": relations, "word/endnotes.xml": notes}
    body = paragraph("Alice.", more='<w:r><w:endnoteReference w:id="2"/></w:r>')
    assert read_data(docx_of(body, parts), "a.docx").text == "Alice.\n\np. 5-10 and 10^6 7"
