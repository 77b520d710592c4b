"""Files in every format become documents with exact text, ids and pages."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import time
import zipfile
import zlib
from pathlib import Path

import pytest
from docx import Document

from e2graphrag_integrations import Segment
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.loaders import loaders as readers
from e2graphrag_integrations.loaders.loaders import read_documents, read_file


def make_pdf(pages: list[str], title: str = "") -> bytes:
    """Write a PDF by hand: one line of Helvetica a page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for i, text in enumerate(pages):
        stream = zlib.compress(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode()
        objects += [page.encode(), head + stream + b"\nendstream"]
    objects.append(f"<< /Title ({title}) >>".encode())
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.write(b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets))
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n"
    out.write(trailer.encode() + f"startxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def test_a_text_file_is_read_as_it_is_with_its_name_as_id(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("Zeile eins\r\nüber 日本\x00".encode())
    [document] = read_documents([tmp_path / "a.txt"])
    assert (document.id, document.text) == ("a.txt", "Zeile eins\r\nüber 日本\x00")


def test_a_folder_gives_relative_posix_ids_in_sorted_order(tmp_path: Path):
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / "b" / "deep" / "z.md").write_text("# Title\n\nBody.")
    (tmp_path / "a.txt").write_text("A.")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.txt").write_text("C.")
    documents = read_documents([tmp_path])
    assert [d.id for d in documents] == ["a.txt", "b/deep/z.md"]
    assert documents[1].title == "Title"


def test_a_byte_order_mark_decides_the_encoding(tmp_path: Path):
    marks = {
        "utf-16-le": "\ufeff",
        "utf-16-be": "\ufeff",
        "utf-32-le": "\ufeff",
        "utf-32-be": "\ufeff",
    }
    for encoding, mark in {"utf-8-sig": "", **marks}.items():
        (tmp_path / f"{encoding}.txt").write_text(mark + "Grüße", encoding=encoding)
    assert [d.text for d in read_documents([tmp_path])] == ["Grüße"] * 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfeA\x00\x00\xd8", "is not UTF-16 text: byte 4 is 0x00"),
        (b"\xff\xfe\x00\x00A\x00\x00\x00\x01", "is not UTF-32 text: byte 8 is 0x01"),
        (b"\xef\xbb\xbfab\xff", "is not UTF-8 text: byte 5 is 0xff"),
    ],
)
def test_a_broken_encoding_is_named_as_it_was_read(tmp_path: Path, data: bytes, message: str):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(UnreadableFileError, match=message):
        read_file(tmp_path / "a.txt")


def test_bytes_that_are_not_utf8_are_refused_with_file_and_place(tmp_path: Path):
    (tmp_path / "latin.txt").write_bytes("abc é".encode("latin-1"))
    with pytest.raises(UnreadableFileError, match=r"latin\.txt is not UTF-8 text: byte 4 is 0xe9"):
        read_documents([tmp_path / "latin.txt"])


def test_standard_input_is_read_for_a_dash():
    [document] = read_documents(["-"], io.BytesIO(b"From a pipe."))
    assert (document.id, document.text) == ("stdin", "From a pipe.")


def test_standard_input_that_is_missing_or_fails_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInputError, match="no standard input"):
        read_documents(["-"])

    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(UnreadableFileError, match="standard input cannot be read: Input/output"):
        read_documents(["-"], Broken())


@pytest.mark.parametrize("path", ["", "x\0y", "n" * 300])
def test_what_can_be_no_path_is_refused(path: str):
    with pytest.raises(InvalidInputError):
        read_documents([path])


def test_links_in_circles_and_to_nothing_are_passed_over(tmp_path: Path):
    (tmp_path / "a.txt").write_text("A.")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nowhere")
    assert [d.id for d in read_documents([tmp_path])] == ["a.txt"]
    for name in ("self.txt", "dangling.txt"):
        with pytest.raises(InvalidInputError):
            read_documents([tmp_path / name])


def test_the_files_to_read_are_known_before_they_are_read(tmp_path: Path):
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/c.md", "b/d.jpg"):
        (tmp_path / name).touch()
    found = readers.source_files([tmp_path / "a.txt", "-", tmp_path / "b"])
    assert found == [tmp_path / "a.txt", tmp_path / "b" / "c.md"]


def test_a_missing_path_and_a_folder_without_text_are_refused(tmp_path: Path):
    with pytest.raises(InvalidInputError, match=r"nowhere does not exist"):
        read_documents([tmp_path / "nowhere"])
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(InvalidInputError, match="holds no file to read"):
        read_documents([tmp_path])


def test_two_files_with_one_id_are_refused_with_both_paths(tmp_path: Path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    with pytest.raises(DuplicateDocumentError, match=r"two.*one.*'a\.txt'"):
        read_documents([tmp_path / "one", tmp_path / "two"])


def test_a_file_of_unknown_kind_given_by_name_is_read_as_text(tmp_path: Path):
    (tmp_path / "notes.log").write_text("Line.")
    assert read_documents([tmp_path / "notes.log"])[0].text == "Line."


def test_the_pages_of_a_pdf_become_segments_that_slice_back(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(make_pdf(["First page.", "Second page."], title="Two pages"))
    [document] = read_documents([tmp_path])
    assert document.title == "Two pages"
    assert [dict(s.metadata) for s in map(Segment._make, document.segments)] == [
        {"page": 1},
        {"page": 2},
    ]
    assert [document.text[s[0] : s[1]].strip() for s in document.segments] == [
        "First page.",
        "Second page.",
    ]


def test_html_keeps_words_whole_and_blocks_apart(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<html><head><title>The page</title><style>p{}</style><script>x()</script></head><body>"
        "<h1>Head</h1><p>One <b>bo</b>ld word.</p><ul><li>first</li><li>second</li></ul></body>"
    )
    [document] = read_documents([tmp_path])
    assert document.title == "The page"
    assert document.text.split("\n\n")[0].strip() == "Head"
    assert "One bold word." in document.text
    assert "x()" not in document.text
    assert "first\n" in document.text


@pytest.mark.parametrize(
    "markup", ["<div>" * 60_000 + "Bob", "<p>Bob</p>" * 20_000 + "<br>" * 20_000]
)
def test_html_is_read_in_linear_time_however_deep_or_long(tmp_path: Path, markup: str):
    (tmp_path / "a.html").write_text(markup)
    started = time.perf_counter()
    assert read_file(tmp_path / "a.html").text.startswith("Bob")
    assert time.perf_counter() - started < 10  # a second; inserting into the tree took minutes


def test_html_leaves_out_what_no_reader_sees(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<!doctype html><p>one<!-- no --><template>no</template> two<table><tr><td>a<td>b</table>"
    )
    assert read_file(tmp_path / "a.html").text == "one two\n\na\nb"


def test_xhtml_and_a_page_like_a_file_name_are_read_without_warnings(tmp_path: Path):
    (tmp_path / "a.html").write_text('<?xml version="1.0"?><html><p>Bob</p></html>')
    (tmp_path / "b.html").write_text("b.html")
    assert [d.text for d in read_documents([tmp_path])] == ["Bob", "b.html"]


def test_broken_html_is_refused_with_the_reason(tmp_path: Path):
    (tmp_path / "a.html").write_text("<![foo <!-- <p <<>> ")
    with pytest.raises(UnreadableFileError, match="no readable HTML: AssertionError: unknown"):
        read_file(tmp_path / "a.html")


def test_docx_gives_paragraphs_and_tables_in_order(tmp_path: Path):
    source = Document()
    source.core_properties.title = "Report"
    source.add_paragraph("Before.")
    table = source.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    source.add_paragraph("After.")
    source.save(str(tmp_path / "a.docx"))
    [document] = read_documents([tmp_path])
    assert (document.title, document.text) == ("Report", "Before.\n\nleft\tright\n\nAfter.")


@pytest.mark.parametrize("name", ["broken.pdf", "broken.docx"])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"no such format")
    with pytest.raises(UnreadableFileError, match="is no readable"):
        read_file(tmp_path / name)


def make_docx(changes: dict[str, bytes]) -> bytes:
    """Write a DOCX with some of its parts replaced."""
    whole, out = io.BytesIO(), io.BytesIO()
    source = Document()
    source.add_paragraph("Alice met Bob.")
    source.save(whole)
    with zipfile.ZipFile(whole) as parts, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in parts.namelist():
            copy.writestr(name, changes.get(name, parts.read(name)))
    return out.getvalue()


def with_header_bytes(data: bytes, offset: int, value: int) -> bytes:
    """Change one field of every entry in a ZIP's directory."""
    changed, at = bytearray(data), 0
    while (at := changed.find(b"PK\1\2", at)) >= 0:
        changed[at + offset] = value
        at += 4
    return bytes(changed)


@functools.cache
def broken_docx() -> dict[str, bytes]:
    body = "word/document.xml"
    word = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    whole = make_docx({})
    damaged = bytearray(whole)
    data_at = damaged.find(b"[Content_Types].xml") + len(b"[Content_Types].xml")
    damaged[data_at : data_at + 60] = b"\xff" * 60
    huge = b"<w:body><w:p><w:r><w:t>" + b"Bob " * 2_600_000 + b"</w:t></w:r></w:p></w:body>"
    return {
        "malformed": make_docx({body: b"<not closed"}),
        "empty": make_docx({body: b""}),
        "other": make_docx({body: b"<a/>"}),
        "no body": make_docx({body: b"<w:document " + word + b"/>"}),
        "huge text": make_docx({body: b"<w:document " + word + b">" + huge + b"</w:document>"}),
        "bad types": make_docx({"[Content_Types].xml": b"zz"}),
        "bad properties": make_docx({"docProps/core.xml": b"<x"}),
        "encrypted": with_header_bytes(whole, 8, 1),
        "unknown compression": with_header_bytes(whole, 10, 99),
        "damaged stream": bytes(damaged),
        "cut": whole[: len(whole) // 2],
    }


@pytest.mark.parametrize("kind", broken_docx())
def test_every_broken_docx_is_refused_as_unreadable(tmp_path: Path, kind: str):
    (tmp_path / "a.docx").write_bytes(broken_docx()[kind])
    with pytest.raises(UnreadableFileError, match=r"a\.docx is no readable DOCX: ."):
        read_file(tmp_path / "a.docx")


def test_a_pdf_with_an_unknown_filter_is_refused_as_unreadable(tmp_path: Path):
    data = make_pdf(["Page."]).replace(b"/FlateDecode", b"/GuessDecode")
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(UnreadableFileError, match="no readable PDF: Unsupported filter"):
        read_file(tmp_path / "a.pdf")


def test_random_damage_raises_nothing_but_unreadable(tmp_path: Path):
    chance = random.Random(7)  # noqa: S311 - the same damage each time
    for name, whole in (("a.pdf", make_pdf(["Page."], "T")), ("a.docx", make_docx({}))):
        for _ in range(30):
            damaged = bytearray(whole)
            for _ in range(4):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            (tmp_path / name).write_bytes(damaged)
            with contextlib.suppress(UnreadableFileError):
                read_file(tmp_path / name)


def test_a_parser_that_recurses_too_deep_is_no_crash(tmp_path: Path, monkeypatch):
    def endless(*_: object, **__: object) -> None:
        endless()

    (tmp_path / "a.docx").write_bytes(b"")
    (tmp_path / "a.pdf").write_bytes(b"")
    (tmp_path / "a.html").write_bytes(b"")
    for target in ("docx.Document", "pypdf.PdfReader", "bs4.BeautifulSoup"):
        monkeypatch.setattr(target, endless)
    for name in ("a.docx", "a.pdf", "a.html"):
        with pytest.raises(UnreadableFileError, match="recursion"):
            read_file(tmp_path / name)


def test_a_missing_library_is_named_with_the_extra_to_install(tmp_path: Path, monkeypatch):
    def reader(*_: object) -> None:
        raise ImportError(name="pypdf")

    monkeypatch.setattr(readers, "_FORMATS", {".pdf": reader})
    (tmp_path / "a.pdf").write_bytes(b"")
    with pytest.raises(MissingDependencyError, match=r"pypdf.*e2graphrag-integrations\[files\]"):
        read_file(tmp_path / "a.pdf")
