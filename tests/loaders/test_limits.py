"""Files that are crafted to take all time or memory."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from e2graphrag_integrations.errors import FileLimitError, InvalidInputError, UnreadableFileError
from e2graphrag_integrations.loaders import LoaderLimits, SkippedFile, read_documents, read_file
from e2graphrag_integrations.loaders import limits as limits_module
from file_makers import make_bookmarked_pdf, make_docx, make_pdf, make_pdf_of

NAMESPACE = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'

STYLES = (
    b"<w:styles " + NAMESPACE + b'><w:style w:styleId="H"><w:name w:val="heading 1"/></w:style>'
    b"</w:styles>"
)


def docx_of(body: bytes) -> bytes:
    document = b"<w:document " + NAMESPACE + b"><w:body>" + body + b"</w:body></w:document>"
    return make_docx({"word/document.xml": document, "word/styles.xml": STYLES})


CELLS = b"<w:tbl>" + b"<w:tr>" + b"<w:tc><w:p/></w:tc>" * 101 + b"</w:tr></w:tbl>"
HEADING = b'<w:p><w:pPr><w:pStyle w:val="H"/></w:pPr><w:r><w:t>Bob</w:t></w:r></w:p>'
CRAFTED = {
    "big.txt": ("file_bytes", b"Bob " * 300_000),
    "bomb.docx": ("unpacked_bytes", docx_of(b"<w:p/>" * 40_000)),
    "parts.docx": ("parts", make_docx({}, {f"word/media/{n}.png": b"" for n in range(101)})),
    "cells.docx": ("cells", docx_of(CELLS)),
    "cells.html": ("cells", b"<table><tr>" + b"<td>" * 101),
    "headings.docx": ("headings", docx_of(HEADING * 101)),
    "headings.html": ("headings", b"<h1>Bob</h1>" * 101),
    "bookmarks.pdf": ("bookmarks", make_bookmarked_pdf(["Bob"], [(1, "Bob", 0)] * 101)),
    "pages.pdf": ("pages", make_pdf_of([b"BT /F1 12 Tf (Bob) Tj ET"], [0] * 101)),
    "text.pdf": ("unpacked_bytes", make_pdf(["Bob " * 15_000] * 20)),
}
SMALL = LoaderLimits(
    file_bytes=10**6, unpacked_bytes=2 * 10**5, parts=100, cells=100, pages=100, headings=100
)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", CRAFTED)
def test_each_limit_raises_an_error_that_names_the_file_and_the_limit(tmp_path: Path, name: str):
    limit, data = CRAFTED[name]
    (tmp_path / name).write_bytes(data)
    message = rf"LoaderLimits\({limit}="
    if limit in {"pages", "bookmarks"}:
        message = "exceeds a limit for PDF files"
    with pytest.raises(FileLimitError, match=rf"{name} .*{message}"):
        read_file(tmp_path / name, limits=SMALL)
    assert read_file(tmp_path / name).id == name  # within the defaults


def test_a_stream_without_a_size_is_read_only_up_to_the_limit():
    stream = io.BytesIO(b"Bob " * 300_000)
    with pytest.raises(FileLimitError, match=r"standard input .*LoaderLimits\(file_bytes="):
        read_documents(["-"], stream, limits=SMALL)
    assert stream.tell() == SMALL.file_bytes + 1
    if Path("/dev/zero").exists():
        with pytest.raises(FileLimitError, match=r"/dev/zero .*LoaderLimits\(file_bytes="):
            read_file("/dev/zero", limits=SMALL)


def test_other_files_are_read_if_a_reader_has_a_mistake(tmp_path: Path, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise LookupError("our mistake")

    monkeypatch.setattr("e2graphrag_integrations.loaders.html._Page", fail)
    (tmp_path / "a.html").write_text("<p>Bob.")
    (tmp_path / "b.txt").write_text("Bob.")
    skipped: list[SkippedFile] = []
    [document] = read_documents([tmp_path], on_skip=skipped.append)
    assert document.id == "b.txt"
    assert "internal error (LookupError: our mistake): please report it" in str(skipped[0].error)
    assert "our mistake" in caplog.text
    with pytest.raises(LookupError):
        read_documents([tmp_path])


def test_other_files_are_read_if_one_exceeds_a_limit(tmp_path: Path):
    for name, (_, data) in CRAFTED.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "good.txt").write_text("Bob.")
    skipped: list[SkippedFile] = []
    [document] = read_documents([tmp_path], limits=SMALL, on_skip=skipped.append)
    assert document.id == "good.txt"
    assert {file.document_id for file in skipped} == set(CRAFTED)
    assert all(isinstance(file.error, FileLimitError) for file in skipped)


@pytest.mark.parametrize("name", ["a.docx", "a.html", "a.pdf"])
def test_reading_stops_when_the_time_is_up(tmp_path: Path, monkeypatch, name: str):
    data = {
        "a.docx": docx_of(b"<w:p/>" * 5000),
        "a.html": b"<p>Bob" * 30_000,
        "a.pdf": make_pdf_of([b"BT ET " * 5000], [0] * 10),
    }
    (tmp_path / name).write_bytes(data[name])
    ticks = iter(range(10**6))
    monkeypatch.setattr(limits_module.time, "monotonic", lambda: next(ticks))
    with pytest.raises(FileLimitError, match=rf"{name} takes longer than 1 seconds to read"):
        read_file(tmp_path / name, limits=LoaderLimits(seconds=1))


def test_a_page_that_is_listed_30_000_times_is_refused(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(make_pdf_of([b"BT ET"], [0] * 30_000))
    with pytest.raises(FileLimitError, match=r"a\.pdf exceeds a limit for PDF files: .*page"):
        read_file(tmp_path / "a.pdf")


def test_entities_and_external_files_are_not_expanded(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("secret")
    bomb = "".join(f'<!ENTITY e{n + 1} "' + f"&e{n};" * 10 + '">' for n in range(9))
    external = f'<!ENTITY f SYSTEM "{tmp_path}/secret.txt">'
    for name, entities, text in (
        ("bomb.docx", f'<!ENTITY e0 "Bob">{bomb}', b"a&e9;b"),
        ("external.docx", external, b"a&f;b"),
    ):
        body = b"<w:body><w:p><w:r><w:t>" + text + b"</w:t></w:r></w:p></w:body></w:document>"
        document = f"<!DOCTYPE x [{entities}]><w:document ".encode() + NAMESPACE + b">" + body
        (tmp_path / name).write_bytes(make_docx({"word/document.xml": document}))
    with pytest.raises(UnreadableFileError, match=r"bomb\.docx is not a readable DOCX file: "):
        read_file(tmp_path / "bomb.docx")
    assert "secret" not in read_file(tmp_path / "external.docx").text


def test_deep_nesting_is_refused_or_read(tmp_path: Path):
    (tmp_path / "a.docx").write_bytes(docx_of(b"<w:tbl><w:tr><w:tc>" * 20_000))
    with pytest.raises(UnreadableFileError, match=r"a\.docx is not a readable DOCX file: "):
        read_file(tmp_path / "a.docx")


def test_sizes_in_an_archive_are_not_trusted(tmp_path: Path):
    data = bytearray(docx_of(b"<w:p/>" * 40_000))
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:  # the true sizes
        archive.writestr("x", b"")
    position = data.rfind(b"PK\1\2", 0, data.find(b"word/document.xml", data.find(b"PK\1\2")))
    data[position + 24 : position + 28] = (10).to_bytes(4, "little")
    (tmp_path / "a.docx").write_bytes(data)
    with pytest.raises(UnreadableFileError):
        read_file(tmp_path / "a.docx", limits=SMALL)


@pytest.mark.parametrize("limits", [{"pages": 0}, {"cells": -1}, {"seconds": float("nan")}])
def test_invalid_limits_are_rejected(limits):
    with pytest.raises(InvalidInputError, match=next(iter(limits))):
        LoaderLimits(**limits)
