"""Read the text of DOCX files with python-docx."""

from __future__ import annotations

import io

from e2graphrag_integrations.loaders.parsing import translate_errors
from e2graphrag_integrations.types import SourceDocument


def read_docx(document_id: str, data: bytes, origin: str) -> SourceDocument:
    """Return the paragraphs and tables in a DOCX file as a document, in file order.

    Each row of a table becomes one line, with tabs between the cells.

    Args:
        document_id: The document's id.
        data: Content of the file.
        origin: Name of the file in error messages.

    Raises:
        UnreadableFileError: If `data` is not a readable DOCX file.
        ImportError: If python-docx is not installed.
    """
    from docx import Document
    from docx.table import Table

    with translate_errors("DOCX file", origin):
        document = Document(io.BytesIO(data))
        blocks = []
        for item in document.iter_inner_content():
            if isinstance(item, Table):
                rows = ("\t".join(cell.text for cell in row.cells) for row in item.rows)
                blocks.append("\n".join(rows))
            else:
                blocks.append(item.text)
        title = document.core_properties.title
    return SourceDocument(document_id, "\n\n".join(blocks), title or None)
