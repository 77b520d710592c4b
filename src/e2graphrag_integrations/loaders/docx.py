"""Read the text of DOCX files with python-docx."""

from __future__ import annotations

import io

from e2graphrag_integrations.loaders.parsing import translate_errors
from e2graphrag_integrations.types import SourceDocument


def read_docx(document_id: str, data: bytes, origin: str) -> SourceDocument:
    """Return the paragraphs and tables of a DOCX file as a document, in their order.

    A table becomes one line per row with tabs between its cells.

    Args:
        document_id: Id of the document.
        data: Content of the file.
        origin: Name of the file in error messages.

    Raises:
        UnreadableFileError: If the bytes are not a readable DOCX file.
        ImportError: If python-docx is not installed.
    """
    from docx import Document
    from docx.opc.exceptions import OpcError
    from docx.oxml.exceptions import XmlchemyError
    from docx.table import Table

    with translate_errors("DOCX file", origin, OpcError, XmlchemyError):
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
