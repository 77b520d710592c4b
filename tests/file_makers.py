"""Files for the tests of the loaders."""

from __future__ import annotations

import io
import zipfile
import zlib

from docx import Document
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject


def make_docx(replacements: dict[str, bytes], more: dict[str, bytes] | None = None) -> bytes:
    """Return a DOCX file with some of its parts replaced, and more parts added."""
    intact, out = io.BytesIO(), io.BytesIO()
    source = Document()
    source.add_paragraph("Alice met Bob.")
    source.save(intact)
    with zipfile.ZipFile(intact) as parts, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in parts.namelist():
            copy.writestr(name, replacements.get(name, parts.read(name)))
        for name, content in (more or {}).items():
            copy.writestr(name, content)
    return out.getvalue()


def make_pdf(pages: list[str], title: str = "") -> bytes:
    """Return a PDF with one line of text per page."""
    contents = [f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() for text in pages]
    return make_pdf_of(contents, list(range(len(pages))), title)


def make_bookmarked_pdf(pages: list[str], bookmarks: list[tuple[int, str, int]]) -> bytes:
    """Return a PDF with bookmarks, given as levels, titles and indices of pages."""
    contents = [
        "BT /F1 12 Tf 14 TL 72 720 Td "
        + " ".join(f"({line}) Tj T*" for line in page.split("\n"))
        + " ET"
        for page in pages
    ]
    intact = make_pdf_of([content.encode() for content in contents], list(range(len(pages))))
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(intact)))
    above = {}
    for level, title, page in bookmarks:
        above[level] = writer.add_outline_item(
            title=title, page_number=page, parent=above.get(level - 1)
        )
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def make_scanned_pdf(pages: list[str], scanned: int) -> bytes:
    """Return a PDF in which the first pages, `scanned` of them, contain an image."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(make_pdf(pages))))
    image = writer._add_object(DictionaryObject({NameObject("/Subtype"): NameObject("/Image")}))
    objects = DictionaryObject({NameObject("/I"): image})
    for page in writer.pages[:scanned]:
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/XObject"): objects})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def make_pdf_of(contents: list[bytes], pages: list[int], title: str = "") -> bytes:
    """Return a PDF with the given page contents; `pages` lists the pages as indices."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * page} 0 R" for page in pages)
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for i, content in enumerate(contents):
        stream = zlib.compress(content)
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
