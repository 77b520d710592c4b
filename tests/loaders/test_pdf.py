"""PDF: pages, titles and broken files."""

from __future__ import annotations

import contextlib
import io
import random
import zlib
from pathlib import Path

import pytest

from e2graphrag_integrations import Segment
from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_documents, read_file


def make_pdf(pages: list[str], title: str = "") -> bytes:
    """Return a PDF with one line of text per page."""
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


def test_pdf_pages_become_segments_with_page_numbers(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(make_pdf(["First page.", "Second page."], title="Two pages"))
    [document] = read_documents([tmp_path])
    assert document.title == "Two pages"
    segments = [Segment._make(segment) for segment in document.segments]
    assert [dict(segment.metadata) for segment in segments] == [{"page": 1}, {"page": 2}]
    assert [document.text[start:end].strip() for start, end, _ in segments] == [
        "First page.",
        "Second page.",
    ]


def test_pdf_with_an_unknown_filter_is_rejected(tmp_path: Path):
    data = make_pdf(["Page."]).replace(b"/FlateDecode", b"/GuessDecode")
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(UnreadableFileError, match="not a readable PDF: Unsupported filter"):
        read_file(tmp_path / "a.pdf")


def test_random_damage_to_a_pdf_raises_only_unreadable_file(tmp_path: Path):
    rng = random.Random(7)  # noqa: S311 - reproducible damage, not cryptography
    intact = make_pdf(["Page."], "T")
    for _ in range(30):
        damaged = bytearray(intact)
        for _ in range(4):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "a.pdf").write_bytes(damaged)
        with contextlib.suppress(UnreadableFileError):
            read_file(tmp_path / "a.pdf")
