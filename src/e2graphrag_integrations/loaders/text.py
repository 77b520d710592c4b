"""Read plain text in UTF-8, or in UTF-16 and UTF-32 with a byte order mark."""

from __future__ import annotations

import codecs

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.types import SourceDocument

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # UTF-32 comes first: its little-endian mark starts with the UTF-16 mark.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(document_id: str, data: bytes, origin: str) -> SourceDocument:
    """Return plain text as a document.

    Args:
        document_id: Id of the document.
        data: Content of the file.
        origin: Name of the file in error messages.

    Raises:
        UnreadableFileError: If the bytes are not valid in their encoding.
    """
    return SourceDocument(document_id, decode(data, origin))


def decode(data: bytes, origin: str) -> str:
    """Decode bytes as UTF-8, or as the encoding that their byte order mark names.

    Raises:
        UnreadableFileError: If the bytes are not valid in that encoding.
    """
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        # The codec removes the UTF-8 mark before it counts.
        offset = error.start + len(data) - len(error.object)
        raise UnreadableFileError(
            f"{origin} is not valid {encoding.upper().removesuffix('-SIG')}: byte {offset} is "
            f"0x{data[offset]:02x}; convert the file to UTF-8, for example with "
            "`iconv -f latin1 -t utf-8`"
        ) from error
