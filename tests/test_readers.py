"""Files in every format become documents with exact text, ids and pages."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import pytest
from docx import Document

from e2graphrag_integrations import Segment, readers
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.readers import read_documents, read_file


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
    for name, encoding in (("a.txt", "utf-8-sig"), ("b.txt", "utf-16")):
        (tmp_path / name).write_text("Grüße", encoding=encoding)
    assert [d.text for d in read_documents([tmp_path])] == ["Grüße", "Grüße"]


def test_bytes_that_are_not_utf8_are_refused_with_file_and_place(tmp_path: Path):
    (tmp_path / "latin.txt").write_bytes("abc é".encode("latin-1"))
    with pytest.raises(UnreadableFileError, match=r"latin\.txt is not UTF-8 text: byte 4 is 0xe9"):
        read_documents([tmp_path / "latin.txt"])


def test_standard_input_is_read_for_a_dash():
    [document] = read_documents(["-"], io.BytesIO(b"From a pipe."))
    assert (document.id, document.text) == ("stdin", "From a pipe.")


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


def test_a_missing_library_is_named_with_the_extra_to_install(tmp_path: Path, monkeypatch):
    def reader(*_: object) -> None:
        raise ImportError(name="pypdf")

    monkeypatch.setattr(readers, "_FORMATS", {".pdf": reader})
    (tmp_path / "a.pdf").write_bytes(b"")
    with pytest.raises(MissingDependencyError, match=r"pypdf.*e2graphrag-integrations\[files\]"):
        read_file(tmp_path / "a.pdf")
