"""Read plain text and Markdown."""

from __future__ import annotations

from e2graphrag_integrations.loaders.encodings import decode
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.types import SourceDocument


def read_text(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return plain text as a document.

    Args:
        document_id: The document's id.
        data: Content of the file; see `decode` for its encoding.
        budget: Limits of the file, and its name in error messages.

    Raises:
        UnreadableFileError: If the content is not text.
    """
    return SourceDocument(document_id, _decode(data, budget))


def read_markdown(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return Markdown as a document; a level-1 heading on the first line becomes the title.

    Args:
        document_id: The document's id.
        data: Content of the file; see `decode` for its encoding.
        budget: Limits of the file, and its name in error messages.

    Raises:
        UnreadableFileError: If the content is not text.
    """
    text = _decode(data, budget)
    first_line = text.lstrip().partition("\n")[0]
    title = first_line[2:].strip() if first_line.startswith("# ") else None
    return SourceDocument(document_id, text, title or None)


def _decode(data: bytes, budget: Budget) -> str:
    decoded = decode(data, budget.origin)
    budget.guess = decoded.guess
    return decoded.text
