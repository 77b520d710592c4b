"""Read the text of PDF files with pypdf."""

from __future__ import annotations

import io

from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors
from e2graphrag_integrations.types import Segment, SourceDocument


def read_pdf(document_id: str, data: bytes, origin: str) -> SourceDocument:
    """Return the text of a PDF file as a document with one segment per page.

    Args:
        document_id: The document's id.
        data: Content of the file.
        origin: Name of the file in error messages.

    Returns:
        The document. The metadata of each segment is `{"page": number}`; pages are numbered from 1.

    Raises:
        UnreadableFileError: If `data` is not a readable PDF file.
        ImportError: If pypdf is not installed.
    """
    from pypdf import PdfReader

    with translate_errors("PDF", origin):
        reader = PdfReader(io.BytesIO(data))
        pages = [page.extract_text() for page in reader.pages]
        title = reader.metadata.title if reader.metadata else None
    text, segments = "", []
    for number, page in enumerate(pages, 1):
        page_text = replace_surrogates(page) + "\n\n"
        segments.append(Segment(len(text), len(text) + len(page_text), {"page": number}))
        text += page_text
    return SourceDocument(document_id, text, replace_surrogates(title or "") or None, {}, segments)
