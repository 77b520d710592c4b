"""PDF files, and a reader that returns one LlamaIndex document per page."""

from __future__ import annotations

from pathlib import Path

import pypdf
from llama_index.core import Document, SimpleDirectoryReader
from llama_index.core.readers.base import BaseReader

from loaders.test_pdf import make_pdf

NAMES = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hal")


class PdfReader(BaseReader):
    """LlamaIndex's own `PDFReader`, whose package does not accept the newest pypdf."""

    def load_data(self, file, extra_info=None, fs=None):
        pdf = pypdf.PdfReader(file)
        return [
            Document(
                text=page.extract_text(),
                metadata={"page_label": label, "file_name": file.name} | (extra_info or {}),
            )
            for page, label in zip(pdf.pages, pdf.page_labels, strict=True)
        ]


def page_text(number: int, version: int = 0, sentences: int = 4) -> str:
    """Return a text that no other page has."""
    return " ".join(
        f"{NAMES[(number + n) % 8]} told {NAMES[(number * n + version) % 8]} of port "
        f"{number}-{version}-{n}."
        for n in range(sentences)
    )


def write_pdf(path: Path, texts: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(make_pdf(texts))
    return path


def read_pages(folder: Path) -> list[Document]:
    """Return the pages of the PDF files in a folder; the ids consist of path and page."""
    reader = SimpleDirectoryReader(
        folder, filename_as_id=True, recursive=True, file_extractor={".pdf": PdfReader()}
    )
    return reader.load_data()


def page(number: int, version: int = 0, file: str = "a.pdf", **metadata) -> Document:
    """Return a page as `SimpleDirectoryReader` does, without a file."""
    path = f"/docs/{file}"
    return Document(
        id_=f"{path}_part_{number}",
        text=page_text(number, version, 1 + (number + version) % 5),
        metadata={"page_label": str(number), "file_name": file, "file_path": path} | metadata,
        excluded_embed_metadata_keys=["file_name"],
        excluded_llm_metadata_keys=["file_name"],
    )
