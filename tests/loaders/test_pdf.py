"""PDF: pages, titles and broken files."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, TextStringObject

from e2graphrag_integrations import Segment
from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_data, read_documents, read_file
from file_makers import make_pdf, make_pdf_of, make_scanned_pdf


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


def test_cells_of_table_rows_are_separated(tmp_path: Path):
    rows = [("Name", "Born", "City"), ("Alice Miller", "1890", "New York"), ("Bob", "1901", "Oslo")]
    content = b"".join(
        f"BT /F1 12 Tf {72 + 150 * column} {700 - 20 * row} Td ({cell}) Tj ET\n".encode()
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
    )
    content += b"BT /F1 12 Tf 72 600 Td (A line in ) Tj ET BT /F1 12 Tf 127 600 Td (two) Tj ET "
    content += b"BT /F1 12 Tf 151 600 Td (parts.) Tj ET"
    (tmp_path / "a.pdf").write_bytes(make_pdf_of([content], [0]))
    assert read_file(tmp_path / "a.pdf").text.splitlines()[:4] == [
        "Name | Born | City",
        "Alice Miller | 1890 | New York",
        "Bob | 1901 | Oslo",
        "A line in two parts.",
    ]


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_only_a_pdf_that_needs_a_password_is_refused(algorithm: str):
    def encrypted(password: str) -> bytes:
        writer = PdfWriter(clone_from=PdfReader(io.BytesIO(make_pdf(["Alice met Bob."]))))
        writer.encrypt(password, "owner", algorithm=algorithm)
        out = io.BytesIO()
        writer.write(out)
        return out.getvalue()

    assert read_data(encrypted(""), "a.pdf").text.strip() == "Alice met Bob."
    with pytest.raises(UnreadableFileError, match="it is protected with a password"):
        read_data(encrypted("secret"), "a.pdf")


def with_pages_changed(data: bytes, change: Callable[[PdfWriter], None]) -> bytes:
    """Return a PDF file after a change of its objects."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    change(writer)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def name_of(text: str) -> NameObject:
    return NameObject(f"/{text}")


def field(**values: str | NameObject | DictionaryObject) -> DictionaryObject:
    """Return a field of a form."""
    return DictionaryObject(
        {name_of("Subtype"): name_of("Widget")}
        | {
            name_of(key): TextStringObject(value) if type(value) is str else value
            for key, value in values.items()
        }
    )


def test_the_values_of_a_form_are_read_below_the_text_of_their_page():
    def fill(writer: PdfWriter) -> None:
        parent = field(T="City", V="Oslo")
        fields = [
            field(T="f1", TU="Full name", V="Alice\nMiller"),
            field(V="No name"),
            field(Parent=parent),
            field(T="Married", V=name_of("Yes")),
            field(T="Smoker", V=name_of("Off")),
            field(T="Empty", V=""),
            DictionaryObject({name_of("Subtype"): name_of("Link")}),
        ]
        references = [writer._add_object(one) for one in fields]
        writer.pages[1][name_of("Annots")] = writer._add_object(ArrayObject(references))
        writer.pages[2][name_of("Annots")] = name_of("Damaged")

    data = with_pages_changed(make_pdf(["First.", "Form.", "Last."]), fill)
    document = read_data(data, "a.pdf")
    pages = [document.text[one.start : one.end] for one in map(Segment._make, document.segments)]
    form = "Full name: Alice Miller\nNo name\nCity: Oslo\nMarried: Yes"
    assert [page.strip() for page in pages] == ["First.", f"Form.\n{form}", "Last."]


def test_text_that_is_added_to_a_page_is_read_unless_it_is_hidden():
    def add(writer: PdfWriter) -> None:
        texts = [("Ragnhild\nMoe", "FreeText", 4), ("Hidden", "FreeText", 2)]
        texts += [("No view", "FreeText", 36), ("A comment", "Text", 4), ("", "FreeText", 4)]
        notes = [
            DictionaryObject(
                {
                    name_of("Subtype"): name_of(kind),
                    name_of("Contents"): TextStringObject(text),
                    name_of("F"): NumberObject(flags),
                }
            )
            for text, kind, flags in texts
        ]
        notes.append(DictionaryObject({name_of("Subtype"): name_of("FreeText")}))
        writer.pages[0][name_of("Annots")] = ArrayObject(map(writer._add_object, notes))

    data = with_pages_changed(make_pdf(["Name:", "Last."]), add)
    assert read_data(data, "a.pdf").text == "Name:\nRagnhild Moe\n\nLast.\n\n"


def test_pages_that_are_images_among_others_are_named(caplog: pytest.LogCaptureFixture):
    data = make_scanned_pdf(["", "", "", "Text."], 2)
    assert read_data(data, "a.pdf").text.strip() == "Text."
    assert "a.pdf: 2 of 4 pages are images without text (1, 2)" in caplog.text
    caplog.clear()
    read_data(make_pdf(["", "Text."]), "a.pdf")
    assert caplog.text == ""


def test_texts_that_a_file_draws_from_right_to_left_do_not_run_together():
    def at(x: int, text: str) -> bytes:
        return b"BT /F1 12 Tf %d 700 Td (%s) Tj ET " % (x, text.encode())

    page = at(400, "Invoice 7") + at(72, "Alice Miller") + at(200, "Oslo") + at(195, "x")
    assert read_data(make_pdf_of([page], [0]), "a.pdf").text.strip() == (
        "Invoice 7 | Alice Miller | Oslox"
    )
