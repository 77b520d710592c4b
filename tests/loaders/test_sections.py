"""The headings of HTML, DOCX and PDF files."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from docx import Document
from docx.enum.style import WD_STYLE_TYPE

from e2graphrag_integrations import Segment, SourceDocument
from e2graphrag_integrations.loaders import read_file
from fakes import CountingEmbedder
from file_makers import make_bookmarked_pdf, make_docx

NAMESPACE = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
PAGES = [
    "Guide\nPreface\nWeena\nWeena is a friend who swims in the river.",
    "Her home is small.\n2. Morlocks\nMorlocks are people who eat at night.",
]
BOOKMARKS = [(1, "Guide", 0), (2, "Weena", 0), (2, "Morlocks", 1), (3, "Not in the text", 1)]
HTML = """
<title>Guide</title><nav><ul><li>Weena</li><li>Morlocks</li></ul></nav>



<h1>Guide</h1><p>Preface</p>
<h2><a>Weena</a> <a class="headerlink">¶</a></h2><div><div><div><p>Weena is a friend who swims
 in the river.</div></div></div>
<table><tr><td><h3>Cell</h3></td><td>x</td></tr></table>
<h3></h3><h4>This heading is too long to be a name since it has thirteen words</h4>
<h2>Morlocks</h2><p>Morlocks are people who eat at night.
<script><h1>Invisible</h1></script><h1>Index</h1>
"""


def read(folder: Path, name: str, data: bytes) -> SourceDocument:
    (folder / name).write_bytes(data)
    return read_file(folder / name)


def sections(document: SourceDocument) -> list[tuple[str, list[str]]]:
    """Return the first line and the headings of each segment."""
    return [
        (document.text[start:end].split("\n")[0], metadata.get("headings", []))
        for start, end, metadata in document.segments
    ]


def test_html_headings_begin_sections(tmp_path: Path):
    document = read(tmp_path, "a.html", HTML.encode())
    assert document.text.startswith("Guide")  # the table of contents is left out
    assert sections(document) == [
        ("Guide", ["Guide"]),
        ("Weena ¶", ["Guide", "Weena"]),
        ("Morlocks", ["Guide", "Morlocks"]),
        ("Index", ["Index"]),
    ]


def test_html_sections_begin_after_blank_lines_in_the_markup(tmp_path: Path):
    markup = "\n\n<div><div>Preface</div></div><br><br><h1>\n\n<br><br>\nWeena</h1><br><br><h2>Eloi"
    document = read(tmp_path, "a.html", markup.encode())
    assert document.text.split() == ["Preface", "Weena", "Eloi"]
    assert sections(document) == [("Weena", ["Weena"]), ("Eloi", ["Weena", "Eloi"])]


def styled_docx() -> bytes:
    source, out = Document(), io.BytesIO()
    chapter = source.styles.add_style("My chapter", WD_STYLE_TYPE.PARAGRAPH)
    chapter.base_style = source.styles["Heading 2"]
    source.add_paragraph("Preface")
    source.add_paragraph("Guide", style="Title")
    source.add_paragraph("Friends", style="Heading 1")
    source.add_paragraph("Weena is a friend who swims in the river. She likes flowers. " * 2)
    cell = source.add_table(rows=1, cols=1).rows[0].cells[0]
    cell.text, cell.paragraphs[0].style = "Cell", source.styles["Heading 1"]
    source.add_paragraph("Weena", style="My chapter")
    source.add_paragraph("Plant", style="Heading 7")
    source.add_paragraph("Others", style="Heading 1")
    source.save(out)
    return out.getvalue()


def test_docx_styles_begin_sections(tmp_path: Path):
    assert sections(read(tmp_path, "a.docx", styled_docx())) == [
        ("Guide", ["Guide"]),
        ("Friends", ["Guide", "Friends"]),
        ("Weena", ["Guide", "Friends", "Weena"]),
        ("Others", ["Guide", "Others"]),
    ]


def test_docx_styles_are_recognized_in_any_language(tmp_path: Path):
    styles = (
        b"<w:styles " + NAMESPACE + b'><w:style w:styleId="berschrift1">'
        b'<w:name w:val="heading 1"/></w:style></w:styles>'
    )
    properties = b'<w:pPr><w:pStyle w:val="%s"/>%s</w:pPr>'
    earlier = b"<w:pPrChange><w:pPr><w:pStyle w:val='berschrift1'/></w:pPr></w:pPrChange>"
    body = b"".join(
        b"<w:p>" + properties % (style, change) + b"<w:r><w:t>" + text + b"</w:t></w:r></w:p>"
        for style, change, text in [
            (b"berschrift1", b"", b"Weena"),
            (b"Standard", earlier, b"No heading any more"),
        ]
    )
    data = b"<w:document " + NAMESPACE + b"><w:body>" + body + b"</w:body></w:document>"
    parts = {"word/document.xml": data, "word/styles.xml": styles}
    assert sections(read(tmp_path, "a.docx", make_docx(parts))) == [("Weena", ["Weena"])]
    broken = read(tmp_path, "b.docx", make_docx(parts | {"word/styles.xml": b"<w:styles"}))
    assert broken.segments == ()
    assert broken.text.startswith("Weena")


def test_pdf_bookmarks_divide_pages(tmp_path: Path):
    document = read(tmp_path, "a.pdf", make_bookmarked_pdf(PAGES, BOOKMARKS))
    first, weena, rest, morlocks = document.segments
    assert first.metadata == {"page": 1, "headings": ["Guide"]}
    assert weena.metadata == {"page": 1, "headings": ["Guide", "Weena"]}
    assert rest.metadata == {"page": 2, "headings": ["Guide", "Weena"]}
    assert morlocks.metadata == {
        "page": 2,
        "headings": ["Guide", "Morlocks", "Not in the text"],  # where the last bookmark was
    }
    assert sections(document)[1][0] == "Weena"
    assert sections(document)[3][0] == "2. Morlocks"
    assert "".join(document.text[start:end] for start, end, _ in document.segments) == document.text


def test_pdf_bookmark_without_a_line_begins_at_its_page(tmp_path: Path):
    data = make_bookmarked_pdf(PAGES, [(1, "Chapter I", 1), (1, "A MORLOCKS", 1)])
    segments = read(tmp_path, "a.pdf", data).segments
    assert [segment.metadata for segment in segments] == [
        {"page": 1},
        {"page": 2, "headings": ["A MORLOCKS"]},
    ]


def test_pdf_with_broken_bookmarks_has_pages_only(tmp_path: Path):
    intact = make_bookmarked_pdf(PAGES, BOOKMARKS)
    for broken in (b"/Nirst", b"/Title 7 /Nirst"):
        document = read(tmp_path, "a.pdf", intact.replace(b"/First", broken))
        assert [segment.metadata for segment in document.segments] == [{"page": 1}, {"page": 2}]


def without_headings(document: SourceDocument) -> SourceDocument:
    """Return a document as it was read before headings were recognized."""
    pages: dict[int, Segment] = {}
    for segment in document.segments:
        page = segment.metadata.get("page")
        if page is not None:
            start = pages[page].start if page in pages else segment.start
            pages[page] = Segment(start, segment.end, {"page": page})
    return replace(document, segments=list(pages.values()))


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("split_segments", [False, True])
@pytest.mark.parametrize("name", ["a.html", "a.docx", "a.pdf"])
def test_update_of_an_unchanged_file_computes_nothing_again(
    tmp_path: Path, open_index, name: str, split_segments: bool
):
    data = {
        "a.html": HTML.encode(),
        "a.docx": styled_docx(),
        "a.pdf": make_bookmarked_pdf(PAGES, BOOKMARKS),
    }
    document = read(tmp_path, name, data[name])
    before = without_headings(document)
    assert before != document
    embedder, summaries = CountingEmbedder(), []

    def summarize(prompt):
        summaries.append(prompt)
        return "A summary."

    rag = open_index(
        embedder=embedder,
        summarizer=summarize,
        llm_id="s",
        split_segments=split_segments,
        chunk_size=12,
        chunk_overlap=0,
    )
    rag.add(before)
    nodes = {node.node_id: node.text for node in rag.retrieve("Weena", k=50, mode="global").nodes}
    assert embedder.texts
    assert summaries
    embedder.texts.clear()
    summaries.clear()
    assert rag.update(document).documents == 1
    assert embedder.texts == summaries == []
    after = rag.retrieve("Weena", k=50, mode="global").nodes
    assert {node.node_id: node.text for node in after} == nodes
    assert any("headings" in node.metadata for node in after)
    assert rag.verify().ok


def test_filters_hold_over_sections_and_pages(tmp_path: Path, open_index):
    document = read(tmp_path, "a.pdf", make_bookmarked_pdf(PAGES, BOOKMARKS))
    rag = open_index(chunk_size=200)
    rag.add(replace(document, metadata={"tenant": "a"}))

    def found(**where):
        return [n.metadata for n in rag.retrieve("Weena", where=where).nodes]

    merged = {"tenant": "a", "page": 1, "pages": [1, 2]}  # the sections differ in `headings`
    assert found(tenant="a") == found(tenant="a", page=2) == found(page=1) == [merged]
    assert found(tenant="b") == found(page=3) == []


def glossary(*entries: str) -> bytes:
    return "".join(
        f"<h2>{name}</h2><p>{text}</p>"
        for name, _, text in (entry.partition(": ") for entry in entries)
    ).encode()


def test_headings_count_where_sections_begin_with_definitions(tmp_path: Path, open_index):
    entries = read(
        tmp_path, "entries.html", glossary("Weena: Weena is a friend who swims in the river.")
    )
    manual = read(
        tmp_path, "manual.html", glossary("Files: Put them all into one folder on your disk.")
    )
    for document, count in ((entries, 1), (manual, 0)):
        rag = open_index()
        rag.add(document)
        stats = rag.stats()
        assert stats.sections == count
        assert ("section" in stats.trusted_sources) == bool(count)
