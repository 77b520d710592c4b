"""Decode text files: find their encoding, and refuse what is not text.

charset-normalizer proposes the encodings in which a text is not a mess. Of a short text, it often
proposes several, and names a rare one first. Therefore, this module chooses among them by how usual
the letters are: Chinese text that is read as Korean, for example, is full of rare syllables.

Web pages and e-mails declare an encoding, and many are in a larger one of the same family: a page
that names ISO 8859-1 has the quotation marks of windows-1252. The WHATWG Encoding Standard lists
which one is meant.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError, UnreadableFileError
from e2graphrag_integrations.loaders.letter_costs import ENCODINGS, WIDE, text_cost
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import OLD_FORMAT

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # UTF-32 comes first: its little-endian mark starts with the UTF-16 mark.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_SHOWN = MappingProxyType({"cp932": "shift_jis", "cp949": "euc_kr", "utf_16_le": "utf-16-le"})

_SAMPLE_BYTES = 64 * 1024
"""The part of a file by which its encoding is found."""

_CONTEXT_BYTES = 2000
"""The part of a line that is read before its first letter beyond ASCII."""

_NON_ASCII = re.compile(rb"[\x80-\xff]")

_UNKNOWN_MESS = 0.1
"""How messy a text counts, from 0 to 1, if charset-normalizer rejects its encoding."""

_MAX_COST = 0.4
"""Maximum cost of a text per byte that is not ASCII; random bytes cost more than 0.6."""

_MAX_CONTROLS = 0.1
"""Maximum share of control characters in a text. A binary file has more."""

_TEXT_CONTROLS = "\t\n\r\f\x1b"
_CONTROL = re.compile(f"[^{_TEXT_CONTROLS}\\x20-\\x7e\\x80-\\U0010ffff]")

_MAX_INVALID = 0.1
"""Maximum share of the sequences of bytes above ASCII that are invalid in a damaged UTF-8 file."""

_UTF_8_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)

_LABELS: Mapping[str, str] = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "x-gbk": "gb18030",
    "gb_2312-80": "gb18030",
    "x-x-big5": "cp950",
    "x-euc-jp": "euc_jp",
    "windows-949": "cp949",
    "windows-874": "cp874",
    "iso88591": "cp1252",
    "iso-8859-8-i": "iso8859_8",
    **{f"x-cp{number}": f"cp{number}" for number in range(1250, 1259)},
}
"""Labels that browsers know and Python does not."""

_MEANT: Mapping[str, str] = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "cp950",
    "euc_kr": "cp949",
}
"""The larger encoding that is meant by each of Python's codecs."""

_WINDOWS_1252: Mapping[int, str] = {
    byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(0x80, 0xA0)
}
"""The letters in which windows-1252 differs from ISO 8859-1. Five bytes have none."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "it is a PDF file: give it the suffix .pdf"),
    (
        b"PK\x03\x04",
        "it is a ZIP archive: unpack it, or save or name it as .docx, .xlsx, .pptx or .epub",
    ),
    (
        OLD_FORMAT,
        "it is in an old format, such as .doc or .xls: save it as .docx, .xlsx or .pptx",
    ),
    (b"{\\rtf", "it is an RTF file: give it the suffix .rtf"),
    (b"SQLite format 3\x00", "it is a database"),
    (b"\x89PNG\r\n", "it is an image"),
    (b"\xff\xd8\xff", "it is an image"),
    (b"GIF8", "it is an image"),
    (b"\x1f\x8b", "it is compressed: unpack it"),
    (b"BZh", "it is compressed: unpack it"),
    (b"\xfd7zXZ\x00", "it is compressed: unpack it"),
    (b"7z\xbc\xaf", "it is compressed: unpack it"),
    (b"\x7fELF", "it is a program"),
)
"""First bytes of files that are not text, and what to do about them."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a file.

    Attributes:
        text: The text.
        guess: The encoding, if it was found by the letters of the text; None if it is certain.
    """

    text: str
    guess: str | None = None


def decode(data: bytes, budget: Budget) -> Decoded:
    """Decode the content of a text file.

    A byte order mark gives the encoding; otherwise it is UTF-8 if that is possible, or else one
    that fits the letters. A UTF-8 file with a few damaged places remains one.

    Args:
        data: The content.
        budget: Names the file in messages, and notes damaged places.

    Raises:
        UnreadableFileError: If the content is not text, or not valid in the encoding of its byte
            order mark.
    """
    origin = budget.origin
    for first, reason in _SIGNATURES:
        # A text can begin with letters such as "BZh", but contains no NUL.
        if data.startswith(first) and (not first.isalnum() or b"\0" in data[:_SAMPLE_BYTES]):
            text = "{file} is not a text file: {reason}"
            raise UnreadableFileError(CodedText("no_text_file", text, file=origin, reason=reason))
    marked = marked_encoding(data)
    if marked is not None:
        return Decoded(decode_as(data, marked, origin))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"
        return _damaged_utf_8(data, budget, is_cut=is_cut) or _guess(data, origin)
    if _is_mostly_text(text):
        # UTF-16 and UTF-32 with letters of ASCII only are valid UTF-8, in which half are NUL.
        return Decoded(text)
    return _guess(data, origin)


def decode_as(data: bytes, encoding: str, origin: str) -> str:
    """Decode the content of a text file in a given encoding.

    Raises:
        UnreadableFileError: If the content is not valid in it.
    """
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # The codec counts bytes after the byte order mark that it has removed.
        offset = error.start + len(data) - len(error.object)
        raise UnreadableFileError(
            CodedText(
                "wrong_encoding",
                "{file} is not valid {encoding}: byte {offset} is 0x{byte:02x}; the file is "
                "damaged or in another encoding",
                file=origin,
                encoding=encoding.upper().removesuffix("-SIG"),
                offset=offset,
                byte=data[offset],
            )
        ) from error
    except UnicodeError as error:  # a codec without positions
        raise UnreadableFileError(f"{origin} is not valid {encoding.upper()}: {error}") from error
    return text.removeprefix("\ufeff")


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding that a byte order mark indicates, or None."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), None)


def check_encoding(name: str) -> str:
    """Return the name of an encoding of texts.

    Raises:
        InvalidInputError: If Python does not know it, or it is not for texts.
    """
    if not codec_of(name):
        raise InvalidInputError(
            f"unknown encoding {short_repr(name)}: use a name such as utf-8, gb18030, big5, "
            "shift_jis, euc_kr, windows-1251, windows-1252 or utf-16-le"
        )
    return name


def codec_of(name: str) -> str:
    """Return Python's name of an encoding that files can be in; empty if there is none.

    A name may be written in many ways: `-punycode` is `punycode`, too.
    """
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError, TypeError):
        return ""
    is_for_texts = bool(codec._is_text_encoding)  # noqa: SLF001 - as `str.encode` does
    return codec.name if is_for_texts and codec.name not in _NOT_FOR_FILES else ""


def meant_codec(label: str) -> str:
    """Return Python's name of the encoding that a declaration means; empty if there is none.

    >>> meant_codec("ISO-8859-1"), meant_codec("utf-8"), meant_codec("no-such")
    ('cp1252', 'utf-8', '')
    """
    codec = codec_of(_LABELS.get(label.strip().lower(), label))
    return _MEANT.get(codec, codec)


def decode_declared(data: bytes, label: str) -> str | None:
    """Return a text in the encoding that it declares; None if it cannot be in it.

    Args:
        data: The text.
        label: The name of the encoding in the declaration.
    """
    codec = meant_codec(label)
    if not codec:
        return None
    # Programs declare ASCII when they do not know better, so UTF-8 is likelier if it is possible.
    order = ["utf-8", codec] if codec_of(label) == "ascii" else [codec]
    if codec == "cp1252":
        order.append("utf-8")  # is likelier than bytes that windows-1252 does not have
    for name in order:
        with contextlib.suppress(ValueError):
            return data.decode(name)
    return data.decode("latin-1").translate(_WINDOWS_1252) if codec == "cp1252" else None


_NOT_FOR_FILES = frozenset(
    "idna punycode unicode-escape raw-unicode-escape undefined mbcs oem".split()
)
"""Python codecs that no file is in; decoding Punycode takes quadratic time."""


def _is_mostly_text(text: str) -> bool:
    return sum(1 for _ in _CONTROL.finditer(text[:_SAMPLE_BYTES])) <= _MAX_CONTROLS * min(
        len(text), _SAMPLE_BYTES
    )


def _damaged_utf_8(data: bytes, budget: Budget, *, is_cut: bool) -> Decoded | None:
    """Return the text of a file in which nearly all sequences are valid UTF-8, or None.

    If it is only cut within its last letter, one valid sequence is enough.
    """
    text = data.decode(errors="replace")
    replaced = text.count("\ufffd")
    valid = sum(1 for _ in _UTF_8_SEQUENCE.finditer(data))
    if replaced > max(_MAX_INVALID * valid, is_cut and valid) or not _is_mostly_text(text):
        return None
    budget.warn(
        "damaged_utf_8",
        "{file} is UTF-8 with {count} damaged place(s), which are read as U+FFFD",
        count=replaced,
    )
    return Decoded(text)


def _guess(data: bytes, origin: str) -> Decoded:
    for name in ("utf_32_le", "utf_32_be"):
        text = _decoded(data, name)
        if text and text_cost(text[:_SAMPLE_BYTES], WIDE[0], 0.0) <= _MAX_COST:
            return Decoded(text, name.replace("_", "-"))
    costs = {name: text_cost(sample, name, chaos) for name, sample, chaos in _candidates(data)}
    order = list(ENCODINGS)
    for name in sorted(costs, key=lambda one: (round(costs[one], 3), order.index(one))):
        if costs[name] <= _MAX_COST and (text := _decoded(data, name)):
            return Decoded(text, _SHOWN.get(name, name.replace("_", "-")))
    raise UnreadableFileError(
        CodedText(
            "unknown_encoding",
            "{file} is not a text file, or in an unknown encoding: if it is text, name its "
            "encoding",
            file=origin,
        )
    )


def _decoded(data: bytes, encoding: str) -> str | None:
    """Return the text in an encoding, or None if that is not possible."""
    try:
        text = data.decode(encoding)
    except ValueError:
        return None
    return text if _is_mostly_text(text) else None


def _candidates(data: bytes) -> Iterator[tuple[str, str, float]]:
    """Yield the encodings that are possible: their name, a sample of the text, and its mess."""
    import charset_normalizer

    narrow = tuple(name for name in ENCODINGS if name not in WIDE)
    for sample, names in ((_sample(data), narrow), (data[:_SAMPLE_BYTES], WIDE)):
        mess = {
            name: match.chaos
            for match in charset_normalizer.from_bytes(
                sample, cp_isolation=list(names), threshold=_UNKNOWN_MESS
            )
            for name in (match.encoding, *match.could_be_from_charset)
        }
        for name in names:
            try:
                # The sample can end within a letter.
                text = codecs.getincrementaldecoder(name)().decode(sample)
            except ValueError:
                continue
            yield name, text, mess.get(name, _UNKNOWN_MESS)


def _sample(data: bytes) -> bytes:
    """Return the first lines with letters beyond ASCII, or the first bytes if there are none."""
    lines: list[bytes] = []
    size = end = 0
    while size < _SAMPLE_BYTES and (match := _NON_ASCII.search(data, end)):
        start = data.rfind(b"\n", end, match.start()) + 1 or end
        start = max(start, match.start() - _CONTEXT_BYTES)  # all of this is ASCII
        end = data.find(b"\n", match.start()) + 1 or len(data)
        lines.append(data[start : min(end, start + _SAMPLE_BYTES)])
        size += len(lines[-1])
    return b"".join(lines) or data[:_SAMPLE_BYTES]
