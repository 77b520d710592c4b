"""Read Markdown."""

from __future__ import annotations

from e2graphrag_integrations.loaders.text import decode
from e2graphrag_integrations.types import SourceDocument


def read_markdown(document_id: str, data: bytes, origin: str) -> SourceDocument:
    """Return Markdown as a document; a level-1 heading on the first line becomes the title.

    Args:
        document_id: Id of the document.
        data: Content of the file.
        origin: Name of the file in error messages.

    Raises:
        UnreadableFileError: If the bytes are not valid in their encoding.
    """
    text = decode(data, origin)
    first_line = text.lstrip().partition("\n")[0]
    title = first_line[2:].strip() if first_line.startswith("# ") else None
    return SourceDocument(document_id, text, title or None)
