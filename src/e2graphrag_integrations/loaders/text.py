"""Read plain text and Markdown in UTF-8, or in UTF-16 or UTF-32 with a byte order mark."""

from __future__ import annotations

import codecs

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.types import SourceDocument

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # UTF-32 comes first: its little-endian mark starts with the UTF-16 mark.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return plain text as a document.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file, and its name in error messages.

    Raises:
        UnreadableFileError: If the content is not valid in the detected encoding.
    """
    return SourceDocument(document_id, _decode(data, budget.origin))


def read_markdown(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return Markdown as a document; a level-1 heading on the first line becomes the title.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file, and its name in error messages.

    Raises:
        UnreadableFileError: If the content is not valid in the detected encoding.
    """
    text = _decode(data, budget.origin)
    first_line = text.lstrip().partition("\n")[0]
    title = first_line[2:].strip() if first_line.startswith("# ") else None
    return SourceDocument(document_id, text, title or None)


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding that a byte order mark indicates, or None."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), None)


def _decode(data: bytes, origin: str) -> str:
    """Decode bytes as UTF-8, or in the encoding that a byte order mark indicates.

    Raises:
        UnreadableFileError: If the bytes are not valid in that encoding.
    """
    encoding = marked_encoding(data) or "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        # The codec counts bytes after the byte order mark that it has removed.
        offset = error.start + len(data) - len(error.object)
        raise UnreadableFileError(
            f"{origin} is not valid {encoding.upper().removesuffix('-SIG')}: byte {offset} is "
            f"0x{data[offset]:02x}; convert the file to UTF-8, for example with "
            "`iconv -f latin1 -t utf-8`. Common encodings are latin1 and windows-1252 for Western "
            "European languages, gb18030 and big5 for Chinese, shift_jis for Japanese, euc-kr for "
            "Korean, windows-1251 for Russian, and windows-1256 for Arabic"
        ) from error
