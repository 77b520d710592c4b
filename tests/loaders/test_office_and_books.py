"""Spreadsheets, slides, books and RTF files."""

from __future__ import annotations

import datetime as dt
import io
import re
import sys
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import openpyxl
import pytest
from pptx import Presentation
from pptx.chart.data import BubbleChartData, CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from e2graphrag_integrations import Segment, SourceDocument
from e2graphrag_integrations.errors import (
    FileLimitError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.loaders import LoaderLimits, read_data, xlsx


def make_xlsx() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Prices"
    sheet.append(["Part", "Price", "Share", "Since", "Sold"])
    day = dt.datetime(2024, 5, 17)  # noqa: DTZ001 - spreadsheets have no time zones
    sheet.append(["Bolt", 3.2, 0.125, day, True])
    sheet.append([])
    sheet.append(["Nut", 0.1 + 0.2, 1, day + dt.timedelta(hours=9.5), None])
    sheet["C2"].number_format = sheet["C4"].number_format = "0.0%"
    book.create_sheet("Empty")
    book.create_sheet("Staff").append(["Anna Holm", "Köln"])
    hidden = book.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    book.properties.title = "Price list"
    return saved(book.save)


def make_pptx() -> bytes:
    slides = Presentation()
    slides.core_properties.title = "Harbor talk"
    first = slides.slides.add_slide(slides.slide_layouts[1])
    first.shapes.title.text = "The lighthouse"
    first.placeholders[1].text = "Built by Anna Holm.\nOpened in 1902."
    first.notes_slide.notes_text_frame.text = "Mention Köln."
    second = slides.slides.add_slide(slides.slide_layouts[5])
    second.shapes.title.text = "Costs"
    table = second.shapes.add_table(2, 2, *[Inches(1)] * 4).table
    for row, texts in enumerate([("Part", "Price"), ("Lamp", "120")]):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    order = slides.slides._sldIdLst
    order.insert(0, order[1])  # the order of the show is not that of the files
    return saved(slides.save)


ROWS = (
    "Part | Price | Share | Since | Sold",
    "Bolt | 3.2 | 12.5% | 2024-05-17 | True",
    "Nut | 0.3 | 100% | 2024-05-17 09:30:00",
)


def saved(save: Callable[[Any], None]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    '<rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
    "OPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf">'
    '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Harbor</dc:title>'
    "</metadata><manifest>"
    '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    '<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="a" href="text/a%20b.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="c" href="c.css" media-type="text/css"/></manifest>'
    '<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/></spine></package>',
    "OPS/nav.xhtml": "<html><body><ol><li>Contents</li></ol></body></html>",
    "OPS/text/a b.xhtml": "<body><p>Preface.</p><h1>Storm</h1><p>A storm came.</p></body>",
    "OPS/b.xhtml": "<html><body><h1>Calm</h1><p>Anna built.</p></body></html>",
}

RTF = (
    rb"{\rtf1\ansi\ansicpg1252\deff0"
    rb"{\fonttbl{\f0\fnil\fcharset0 Arial;}{\f1\fcharset204 Arial;}}"
    rb"{\info{\title The K\'f6ln report}}{\pict\pngblip 89504e47" + b"00" * 4000 + rb"}"
    rb"\pard M\'fcller met \u8222?Anna\u8220? \u-10179?\u-8704?.\par "
    rb"{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par "
    rb"\trowd Part\cell Price\cell\row Bolt\cell 3.20\cell\row "
    rb'{\field{\*\fldinst{HYPERLINK "http://x.org"}}{\fldrslt the page}} and HYPERLINK\par }'
)


def parts_of(document: SourceDocument) -> list[tuple[dict[str, Any], str]]:
    return [
        (dict(one.metadata), document.text[one.start : one.end].strip())
        for one in map(Segment._make, document.segments)
    ]


def test_the_sheets_of_a_spreadsheet_are_segments_with_rows_as_lines():
    document = read_data(make_xlsx(), "a.xlsx")
    assert document.title == "Price list"
    assert parts_of(document) == [
        (
            {"sheet": "Prices"},
            "Prices\n\n" + "\n".join(ROWS),
        ),
        ({"sheet": "Staff"}, "Staff\n\nAnna Holm | Köln"),
    ]


def test_the_slides_of_a_presentation_are_segments_in_the_order_of_the_show():
    document = read_data(make_pptx(), "a.pptx")
    assert document.title == "Harbor talk"
    assert parts_of(document) == [
        ({"slide": 1, "headings": ["Costs"]}, "Costs\n\nPart | Price\nLamp | 120"),
        (
            {"slide": 2, "headings": ["The lighthouse"]},
            "The lighthouse\n\nBuilt by Anna Holm.\nOpened in 1902.\n\nMention Köln.",
        ),
    ]


def test_hidden_slides_are_left_out_but_counted():
    slides = Presentation(io.BytesIO(make_pptx()))
    slides.slides[0]._element.set("show", "0")
    assert parts_of(read_data(saved(slides.save), "a.pptx")) == [
        (
            {"slide": 2, "headings": ["The lighthouse"]},
            "The lighthouse\n\nBuilt by Anna Holm.\nOpened in 1902.\n\nMention Köln.",
        ),
    ]


def test_the_chapters_of_a_book_are_segments_in_reading_order():
    document = read_data(zipped(BOOK), "a.epub")
    assert document.title == "The Harbor"
    assert parts_of(document) == [
        ({"chapter": 1}, "Preface."),
        ({"chapter": 1, "headings": ["Storm"]}, "Storm\n\nA storm came."),
        ({"chapter": 2, "headings": ["Calm"]}, "Calm\n\nAnna built."),
    ]


@pytest.mark.parametrize(
    "kind",
    ["text/x-oeb1-document", "text/xml", "application/xml", "Application/XHTML+XML; charset=utf-8"],
)
def test_chapters_with_other_names_of_their_media_type_are_read(kind: str):
    package = str(BOOK["OPS/book.opf"]).replace(
        'b.xhtml" media-type="application/xhtml+xml"', f'b.xhtml" media-type="{kind}"'
    )
    assert kind in package
    document = read_data(zipped(BOOK | {"OPS/book.opf": package}), "a.epub")
    assert document.text == "Preface.\n\nStorm\n\nA storm came.\n\nCalm\n\nAnna built.\n\n"


def test_a_chapter_without_headings_is_a_segment():
    title_page = {"OPS/text/a b.xhtml": "<body><p>For Bob.</p></body>"}
    assert parts_of(read_data(zipped(BOOK | title_page), "a.epub")) == [
        ({"chapter": 1}, "For Bob."),
        ({"chapter": 2, "headings": ["Calm"]}, "Calm\n\nAnna built."),
    ]


def test_cells_that_repeat_a_long_text_count_before_they_are_joined(monkeypatch):
    monkeypatch.setattr(xlsx, "format_row", lambda _: pytest.fail("a row was joined"))
    book = openpyxl.Workbook()
    book.active.append(["Bob " * 2_500] * 100)  # the file contains the text once
    limits = LoaderLimits(unpacked_bytes=500_000)
    with pytest.raises(FileLimitError, match="unpacked_bytes"):
        read_data(saved(book.save), "a.xlsx", limits=limits)


def test_an_rtf_file_keeps_letters_tables_and_the_text_of_links():
    document = read_data(RTF, "a.rtf")
    assert document.title == "The Köln report"
    assert document.text.splitlines() == [
        "Müller met „Anna“ 😀.",
        "Привет",
        "Part | Price",
        "Bolt | 3.20",
        "the page and HYPERLINK",
    ]


@pytest.mark.parametrize("start", [rb"{\footnote ", rb"{\*\footnote\ftnalt\pard\chftn "])
def test_the_notes_of_an_rtf_file_stand_where_their_marks_are(start: bytes):
    note = start + rb"Unless {\b both}\par agree \'e9\u8217}"
    data = (
        rb"{\rtf1\ansi It ends in May.{\super\chftn" + note + rb"} Next.\par "
        rb"\trowd A" + note + rb"\cell B\cell\row "
        rb"\{\\footnote is a word.{\footnote }{\header{\footnote Left out.}}"
        rb"{\shp{\*\shpinst{\shptxt In a box.\par}}}\par}"
    )
    assert read_data(data, "a.rtf").text.splitlines() == [
        "It ends in May. (Unless both agree é’) Next.",
        "A (Unless both agree é’) | B",
        "{\\footnote is a word.",
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (rb"It costs {\deleted 900}{\revised 950} euros", "It costs 950 euros"),
        (rb"A {\v\f1 hid\'e9\u8364?\tab{\b den} \{\v0 shown}.", "A shown."),
        (rb"{\b\v hidden\plain  shown}\viewkind4 {\vertalt B}", "shownB"),
        (rb"{\v {\xe hidden}}A\v1 B\v0 C \\v D", "AC \\v D"),
        (rb"\trowd {\v a}B\cell {\deleted c\cell}\row", "B |"),
        (rb"{\pntext\f0 1.\tab}{\*\pn\pnlvlbody\pndec}First", "1.\tFirst"),
        (rb"{\pntext\f0\'B7\tab}First{\pntext o\tab}", "First"),
        (rb"{\pntext (a)\tab}First", "(a)\tFirst"),
        (rb"10{\super 6}, 10{\super\b -6}, 10\super 6\nosupersub 5", "10^6, 10^-6, 10^65"),
        (rb"101{\sub 2} CO{\sub 2} m{\super 2} 21{\super st}", "101_2 CO2 m2 21st"),
        (
            rb"5{\super 1}/{\sub 2} in 1990{\super\chftn{\footnote N}} \\super",
            "5 1/2 in 1990 (N) \\super",
        ),
    ],
)
def test_an_rtf_file_is_read_as_it_is_shown(source: bytes, text: str):
    assert read_data(rb"{\rtf1\ansi " + source + b"}", "a.rtf").text == f"{text}\n"


def test_a_note_without_an_end_keeps_the_paragraphs_after_it():
    data = rb"{\rtf1 One.{\footnote Two.\par Three.{\footnote Four.\par"
    assert read_data(data, "a.rtf").text == "One.Two.\nThree.\n"


ENCRYPTED = BOOK | {
    "META-INF/encryption.xml": '<encryption><CipherReference URI="OPS/b.xhtml"/></encryption>'
}
EMPTY_BOOK = BOOK | {"OPS/b.xhtml": "<p/>", "OPS/text/a b.xhtml": "<p/>"}
REFUSED = {
    "encrypted.epub": (zipped(ENCRYPTED), "it is encrypted"),
    "empty.epub": (zipped(EMPTY_BOOK), "it has no text"),
    "empty.xlsx": (saved(openpyxl.Workbook().save), "it has no text"),
    "empty.pptx": (saved(Presentation().save), "it has no text"),
    "empty.rtf": (rb"{\rtf1\ansi }", "it has no text"),
    "fonts.rtf": (rb"{\rtf1{\fonttbl" + rb"\f1 " * 20_000, "its font table is damaged"),
    **{
        f"text.{kind}": (b"Anna met Bob.", "is not a readable")
        for kind in ("xlsx", "pptx", "epub", "rtf")
    },
    **{
        f"other.{kind}": (zipped({"a.txt": "Bob"}), "is not a readable")
        for kind in ("xlsx", "pptx", "epub")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_without_readable_text_is_refused_with_the_reason(name: str):
    data, reason = REFUSED[name]
    with pytest.raises(UnreadableFileError, match=f"{name} .*{reason}"):
        read_data(data, name)


def bomb(data: bytes, part: str) -> bytes:
    """Return an archive with one part that unpacks to 200 KB of white space."""
    parts = {name: zipfile.ZipFile(io.BytesIO(data)).read(name) for name in zipped_names(data)}
    return zipped(parts | {part: parts[part] + b" " * 200_000})


def zipped_names(data: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


SMALL = LoaderLimits(unpacked_bytes=2 * 10**5, cells=5, parts=100)
CRAFTED = {
    "bomb.xlsx": ("unpacked_bytes", bomb(make_xlsx(), "xl/styles.xml")),
    "cells.xlsx": ("cells", make_xlsx()),
    "bomb.pptx": ("unpacked_bytes", bomb(make_pptx(), "ppt/slides/slide1.xml")),
    "bomb.epub": ("unpacked_bytes", zipped(BOOK | {"OPS/b.xhtml": b"<p>" + b" " * 200_000})),
    "text.rtf": ("unpacked_bytes", rb"{\rtf1 " + b"Bob " * 60_000 + b"}"),
    "parts.epub": ("parts", zipped(BOOK | {f"{n}.png": b"" for n in range(101)})),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_the_limits_hold(name: str):
    limit, data = CRAFTED[name]
    with pytest.raises(FileLimitError, match=rf"{name} .*LoaderLimits\({limit}="):
        read_data(data, name, limits=SMALL)


@pytest.mark.slow
def test_links_in_a_crafted_rtf_file_take_no_time():
    links = rb'{\field{\*\fldinst{HYPERLINK "' * 5000
    assert read_data(rb"{\rtf1 Bob." + links, "a.rtf").text.strip() == "Bob."


@pytest.mark.parametrize(
    ("name", "package", "data"),
    [("a.xlsx", "openpyxl", make_xlsx()), ("a.rtf", "striprtf", RTF)],
)
def test_a_missing_package_is_named_with_the_extra(monkeypatch, name, package, data):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=r"needs the package .*integrations\[files\]"):
        read_data(data, name)


def changed(data: bytes, part: str, old: str, new: str) -> bytes:
    """Return an archive in which a pattern of one part is replaced."""
    parts = {name: zipfile.ZipFile(io.BytesIO(data)).read(name) for name in zipped_names(data)}
    text, count = re.subn(old, new, parts[part].decode(), flags=re.DOTALL)
    assert count
    return zipped(parts | {part: text.encode()})


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (1234.5, '#,##0.00\\ "€"', "1234.5 €"),
        (1234.5, "_-* #,##0.00\\ [$€-407]_-;-* #,##0.00\\ [$€-407]_-", "1234.5 €"),
        (-99, "[$$-409]#,##0.00", "$-99"),
        (7, '"CHF" #,##0', "CHF 7"),
        (12, '0 "kg"', "12 kg"),
        (12, '[Red]0;"minus" 0', "12"),
        (12, '(0) "a very long remark"', "12"),
        (42, "00000", "00042"),
        (42, '"RE-"0000', "RE-0042"),
        (12345, '"RE-"0000', "RE-12345"),
        (-42, '"RE-"0000', "RE- -42"),
        (42.5, '"RE-"0000', "RE-42.5"),
        (42, '"RE-"0', "RE-42"),
        (7, '"2024/"000"/B"', "2024/007/B"),
        (7, '"Art. Nr. "000', "Art. Nr. 007"),
        (3, '"S"0', "S3"),
        (3, '"CHF"0', "CHF 3"),
        (7, '"CHF "#,##0', "CHF 7"),
        (5, 'General" kg"', "5 kg"),
        (0, '_($* #,##0_);_($* (#,##0);_($* "-"??_);_(@_)', "$0"),
        (0, '[$CHF-807]* #,##0;[$CHF-807]* -#,##0;[$CHF-807]* "-"??', "CHF 0"),
        (-5, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "$-5"),
        (-5, '"£"#,##0;\\-"£"#,##0', "£-5"),
        (-5, '"¥"#,##0;"¥"\\-#,##0', "¥-5"),
        (-5, '"CHF"\\ #,##0.00;"CHF"\\ \\-#,##0.00', "CHF -5"),
        (-5, '#,##0.00\\ "€";\\(#,##0.00\\ "€"\\)', "-5 €"),
        (123456, '0!.0,"万"', "123456"),
        (123456, '0!.0000"万"', "12.3456 万"),
        (1250, "0\\.00", "12.50"),
        (42, '0000"kg"', "0042 kg"),
        (5, "00.00", "5"),
        (12345678, "000-00-0000", "012-34-5678"),
        (5551234, "[<=9999999]###-####;(###) ###-####", "555-1234"),
        (4155551234, "[<=9999999]###-####;(###) ###-####", "(415) 555-1234"),
        (1234, "###-####", "1234"),
        (7, '"' + "x" * 30 + '"00', "7"),
        (1, '[=1]"Ja";[=0]"Nein";0', "Ja"),
        (0, '[=1]"Ja";[=0]"Nein";0', "Nein"),
        (7, '[=1]"Ja";[=0]"Nein";0', "7"),
        (0, '"Yes";"Yes";"No"', "No"),
        (-500, '"Profit";"Loss"', "Loss -500"),
        (0, '0;-0;"none"', "none"),
        (1, '"' + "x" * 500 + '"', "1"),
        (0.125, "0.0%", "12.5%"),
        (2_500_000, '0.0,,"M"', "2.5 M"),
        (1_234_567, '$#,##0,"K"', "$1234.567 K"),
        (1_234_567, "#,##0,.0", "1234.567"),
        (1_234_567, "#,##0,,", "1.234567"),
        (1_234_567, '#,##0","', "1234567"),
        (2_500_000, '0.0,," million euros"', "2500000"),
        (1, "0" + "," * 500, "1"),
        (1_500, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "1.5 K"),
        (2_500_000, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "2.5 M"),
        (12, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "12"),
        (12, '[<5]0" few"', "12"),
        (5, '0.00" %"', "5 %"),
        (0.5, '0"%"', "0.5%"),
        (0.5, "0\\%", "0.5%"),
        (0.5, '0%" of all"', "50%"),
        (2, '"Profit "0;"Loss "0', "Profit 2"),
        (-2, '"Profit "0;"Loss "0', "Loss 2"),
        (-2, '[<0]"Loss "0;"Profit "0', "Loss -2"),
        (-2, '0 "€";[Red]-0 "€"', "-2 €"),
        (-2, "$0;($0)", "$-2"),
        (-0.5, '"up "0%;"down "0%', "-50%"),
        (0, '0,"K";-0,"K";"-"', "0"),
        (7, '0 "kg";@', "7 kg"),
        (1.25, "[h]:mm", "30:00:00"),
        (1.25, "[h]:mm;@", "30:00:00"),
        (1.25, '[hh]:mm" h"', "30:00:00"),
        (1.25, "h:mm", "30:00:00"),
        (45000.25, "h:mm", "2023-03-15 06:00:00"),
        (0.5, "h:mm", "12:00:00"),
        (45000, "d. mmmm yyyy", "2023-03-15"),
        (45000.25, "d/m/yy h:mm", "2023-03-15 06:00:00"),
        (-3, "d/m/yy", "-3"),
        (10**10, "d/m/yy", "10000000000"),
        (True, "General", "True"),
        ("=SUM(B1:B9)", "0", "=SUM(B1:B9)"),
        ("#N/A", "General", "#N/A"),
    ],
)
def test_cells_are_read_about_as_a_spreadsheet_shows_them(
    value: object, number_format: str, text: str
):
    book = openpyxl.Workbook()
    cell = book.active["B2"]
    cell.value, cell.number_format = value, number_format
    assert read_data(saved(book.save), "a.xlsx").text == f"Sheet\n\n| {text}\n\n"


CELLS = {
    "days_from_1904": ("xl/workbook.xml", "<workbookPr ?/>", '<workbookPr date1904="1"/>'),
    "font": ("xl/styles.xml", "<font>.*?</font>", '<font><family val="99"/></font>'),
    "fill": ("xl/styles.xml", "<fill>.*?</fill>", "<fill/>"),
    "styles": ("xl/styles.xml", ".*", ""),
    "chart": ("xl/chartsheets/sheet1.xml", ".*", "<chartsheet/>"),
}


@pytest.mark.parametrize("kind", CELLS)
def test_what_is_not_text_cannot_stop_the_reading_of_a_spreadsheet(kind: str):
    book = openpyxl.load_workbook(io.BytesIO(make_xlsx()))
    book.create_chartsheet("Chart")
    text = read_data(changed(saved(book.save), *CELLS[kind]), "a.xlsx").text
    assert text.startswith("Prices\n\nPart | Price | Share | Since | Sold\nBolt | 3.2 | ")
    assert ("2028-05-18" in text) == (kind == "days_from_1904")


def test_cells_written_by_other_programs_are_read():
    rows = (
        '<row><c t="inlineStr"><is><r><t>Al</t></r><r><t>ice</t></r><rPh><t>x</t></rPh></is></c>'
        '<c t="str"><f>A1</f><v></v></c><c t="d"><v>2024-05-06T00:00:00</v></c></row>'
        '<row><c r="B9"><v>2</v></c><c r="ZZZ9"><v>3</v></c><c t="s"><v>99999</v></c>'
        '<c s="999"><v>x</v></c></row>'
    )
    data = changed(make_xlsx(), "xl/worksheets/sheet1.xml", "<row .*</row>", rows)
    text = read_data(data, "a.xlsx").text
    assert text.startswith("Prices\n\nAlice | | 2024-05-06\n| 2 | 3 | | x\n\nStaff")


def test_charts_diagrams_and_untitled_slides_of_a_presentation():
    slides = Presentation()
    first = slides.slides.add_slide(slides.slide_layouts[5])
    first.shapes.title.text = "Sales"
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("2023", (1.5, 2))
    data.add_series("2024", (3, None))
    place = [Inches(1)] * 4
    chart = first.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sales by region"
    chart.value_axis.axis_title.text_frame.text = "Million"
    slides.slides.add_slide(slides.slide_layouts[6])
    content = saved(slides.save)
    relation = '<Relationship Id="rId9" Type="x/diagramData" Target="../diagrams/data1.xml"/>'
    content = changed(
        content,
        "ppt/slides/_rels/slide2.xml.rels",
        "</Relationships>",
        f"{relation}</Relationships>",
    )
    points = "".join(
        f"<dgm:pt><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>"
        for text in ("Plan", "Build")
    )
    parts = {
        name: zipfile.ZipFile(io.BytesIO(content)).read(name) for name in zipped_names(content)
    }
    diagram = f'<dgm:dataModel xmlns:dgm="d" xmlns:a="a">{points}</dgm:dataModel>'
    document = read_data(zipped(parts | {"ppt/diagrams/data1.xml": diagram}), "a.pptx")
    table = "| 2023 | 2024\nEast | 1.5 | 3\nWest | 2 |"
    assert parts_of(document) == [
        (
            {"slide": 1, "headings": ["Sales"]},
            f"Sales\n\nSales by region Million\n{table}",
        ),
        ({"slide": 2}, "Plan\nBuild"),
    ]


def test_characters_that_are_escaped_in_a_sheet_are_read_as_such():
    book = openpyxl.Workbook()
    book.active.append(["Husum_x000D_\nDeich 9", "_x005F_x0041_", "file_x2024_v1", "a_x0001_b"])
    text = read_data(saved(book.save), "a.xlsx").text
    assert text == "Sheet\n\nHusum Deich 9 | _x0041_ | file_x2024_v1 | a_x0001_b\n\n"


def test_raised_numbers_in_cells_do_not_make_another_number():
    runs = '<r><t>10</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>6</t></r>'
    after = "<r><t> per ml</t></r>"
    cell = f'<c t="inlineStr"><is>{runs}{after}</is></c>'
    rows = f'<row>{cell * 2}<c t="s"><v>0</v></c></row>'
    relation = '<Relationship Id="rId99" Type="x/sharedStrings" Target="strings.xml"/>'
    data = changed(make_xlsx(), "xl/worksheets/sheet1.xml", "<row .*</row>", rows)
    end = "</Relationships>"
    data = changed(data, "xl/_rels/workbook.xml.rels", end, relation + end)
    parts = {name: zipfile.ZipFile(io.BytesIO(data)).read(name) for name in zipped_names(data)}
    shared = zipped(parts | {"xl/strings.xml": f"<sst><si>{runs}</si></sst>"})
    text = read_data(shared, "a.xlsx").text
    assert text.startswith("Prices\n\n10^6 per ml | 10^6 per ml | 10^6\n\nStaff")


def chart_pptx(kind: Any, data: Any) -> bytes:
    slides = Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    slide.shapes.add_chart(kind, *[Inches(1)] * 4, data)
    return saved(slides.save)


def test_series_of_a_chart_with_other_x_values_are_tables_of_their_own():
    data = XyChartData()
    for name, points in {"A": [(1, 10), (2, 20)], "B": [(1, 30)], "C": [(5, 50)]}.items():
        series = data.add_series(name)
        for x, y in points:
            series.add_data_point(x, y)
    text = read_data(chart_pptx(XL_CHART_TYPE.XY_SCATTER, data), "a.pptx").text
    assert text.strip() == "| A | B\n1 | 10 | 30\n2 | 20 |\n| C\n5 | 50"


def test_the_sizes_of_bubbles_are_a_column():
    data = BubbleChartData()
    data.add_series("A").add_data_point(1, 10, 3)
    text = read_data(chart_pptx(XL_CHART_TYPE.BUBBLE, data), "a.pptx").text
    assert text.strip() == "| A |\n1 | 10 | 3"


def test_charts_show_numbers_in_their_formats():
    data = CategoryChartData(number_format="0%")
    data.categories = [dt.date(2024, 1, 1), dt.date(2024, 2, 1)]
    data.add_series("Share", (0.25, 0.1 + 0.2))
    text = read_data(chart_pptx(XL_CHART_TYPE.LINE, data), "a.pptx").text
    assert text.strip() == "| Share\n2024-01-01 | 25%\n2024-02-01 | 30%"


def test_the_data_of_a_chart_do_not_contain_labels_from_cells_and_hidden_series():
    data = CategoryChartData()
    data.categories = ["North", "South"]
    data.add_series("Sales", (10, 20))
    raw = chart_pptx(XL_CHART_TYPE.COLUMN_CLUSTERED, data)
    name = next(one for one in zipped_names(raw) if "/charts/chart" in one)
    points = '<c:pt idx="0"><c:v>Anna</c:v></c:pt><c:pt idx="1"><c:v>Bert</c:v></c:pt>'
    label = f"<c:extLst><c:ext><c:datalabelsRange>{points}</c:datalabelsRange></c:ext></c:extLst>"
    raw = changed(raw, name, "</c:ser>", f"{label}</c:ser>")
    hidden = f"<c:ser><c:tx>{points}</c:tx><c:val>{points}</c:val></c:ser>"
    hidden = f"<c:extLst><c:ext>{hidden}</c:ext></c:extLst></c:barChart>"
    raw = changed(raw, name, "</c:barChart>", hidden)
    assert read_data(raw, "a.pptx").text.strip() == "| Sales\nNorth | 10\nSouth | 20"


def test_the_title_of_a_chart_may_be_in_a_cell():
    data = CategoryChartData()
    data.categories = ["North"]
    data.add_series("Sales", (10,))
    raw = chart_pptx(XL_CHART_TYPE.COLUMN_CLUSTERED, data)
    name = next(one for one in zipped_names(raw) if "/charts/chart" in one)
    cell = '<c:strCache><c:pt idx="0"><c:v>Revenue 2024</c:v></c:pt></c:strCache>'
    title = f"<c:title><c:tx><c:strRef>{cell}</c:strRef></c:tx></c:title><c:autoTitleDeleted"
    raw = changed(raw, name, "<c:autoTitleDeleted", title)
    assert read_data(raw, "a.pptx").text.strip() == "Revenue 2024\n| Sales\nNorth | 10"


def leveled_chart() -> CategoryChartData:
    data = CategoryChartData()
    for name, cities in {"Europe": ["Oslo", "Bern"], "Asia": ["Kyoto"]}.items():
        category = data.add_category(name)
        for city in cities:
            category.add_sub_category(city)
    data.add_series("Sales", (1, 2, 3))
    return data


def test_categories_of_charts_have_the_names_of_the_levels_above():
    data = chart_pptx(XL_CHART_TYPE.COLUMN_CLUSTERED, leveled_chart())
    text = read_data(data, "a.pptx").text
    assert text.strip() == "| Sales\nEurope Oslo | 1\nEurope Bern | 2\nAsia Kyoto | 3"


def test_a_long_name_above_many_categories_counts_for_each_of_them():
    data = chart_pptx(XL_CHART_TYPE.COLUMN_CLUSTERED, leveled_chart())
    name = next(one for one in zipped_names(data) if "/charts/chart" in one)
    data = changed(data, name, "Europe", "E" * 60_000)
    assert "E" * 60_000 in read_data(data, "a.pptx", limits=LoaderLimits(unpacked_bytes=10**6)).text
    parts = zipfile.ZipFile(io.BytesIO(data))
    size = sum(
        one.file_size for one in parts.infolist() if one.filename.endswith((".xml", ".rels"))
    )
    read = LoaderLimits(unpacked_bytes=size)
    points = "".join(f'<c:pt idx="{at}"><c:v>x</c:v></c:pt>' for at in range(100))
    data = changed(data, name, '<c:pt idx="1"><c:v>Bern</c:v></c:pt>', points)
    with pytest.raises(FileLimitError, match="unpacked_bytes"):
        read_data(data, "a.pptx", limits=read)


DRAWING = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)


def slide_text(*paragraphs: str, styles: str = "") -> str:
    """Return the text of a slide with one shape, given as the XML of its paragraphs."""
    slides = Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    slide.shapes.add_textbox(*[Inches(1)] * 4)
    xml = "".join(f"<a:p {DRAWING}>{one}</a:p>" for one in paragraphs)
    lists = f"<a:lstStyle {DRAWING}>{styles}</a:lstStyle>"
    data = changed(saved(slides.save), "ppt/slides/slide1.xml", "<a:p>.*</a:p>|<a:p/>", xml)
    data = changed(data, "ppt/slides/slide1.xml", "<a:lstStyle/>", lists)
    return read_data(data, "a.pptx").text.strip()


def slide_run(text: str, properties: str = "") -> str:
    return f"<a:r><a:rPr {properties}/><a:t>{text}</a:t></a:r>"


def item(text: str, kind: str, level: int = 0) -> str:
    bullet = f"<a:buAutoNum {kind}/>" if kind else "<a:buNone/>"
    return f'<a:pPr lvl="{level}">{bullet}</a:pPr>' + (slide_run(text) if text else "")


def test_items_of_numbered_lists_on_slides_begin_with_their_numbers():
    period, letter = 'type="arabicPeriod"', 'type="alphaLcParenR"'
    items = [
        *(item("One", period), item("", period), item("Two", period), item("in", letter, 1)),
        *(item("out", letter, 1), item("Three", period), item("in", letter, 1), item("Plain", "")),
        *(item("Again", period), item("Five", 'type="romanUcParenBoth" startAt="5"')),
        slide_run("Usual"),
    ]
    usual = '<a:lvl1pPr><a:buAutoNum type="arabicPlain" startAt="8"/></a:lvl1pPr>'
    assert slide_text(*items, styles=usual).split("\n") == [
        *("1. One", "2. Two", "a) in", "b) out", "3. Three", "a) in", "Plain", "1. Again"),
        *("(V) Five", "8 Usual"),
    ]


def test_raised_numbers_and_equations_of_slides_do_not_make_other_numbers():
    half = "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    paragraphs = (
        slide_run("10") + slide_run("6", 'baseline="30000"') + slide_run(" cells"),
        slide_run("10") + slide_run("6", 'baseline="-25000"') + slide_run("7", 'baseline="0"'),
        slide_run("Take ") + half,
    )
    assert slide_text(*paragraphs) == "10^6 cells\n1067\nTake 1/2"


def test_a_date_in_a_text_of_a_slide_is_read_but_no_field_alone():
    date = '<a:fld type="datetime1"><a:rPr/><a:t>3/5/2024</a:t></a:fld>'
    number = '<a:fld type="slidenum"><a:rPr/><a:t>7</a:t></a:fld>'
    paragraphs = slide_run("Approved on ") + date, date, slide_run("Slide ") + number
    assert slide_text(*paragraphs) == "Approved on 3/5/2024\nSlide"


def test_a_vertical_tab_that_is_escaped_in_a_slide_is_a_line_break():
    assert slide_text(slide_run("Line_x000B_break")) == "Line\nbreak"
