"""Read e-mails, mailboxes with many, and web pages that a browser has saved as an e-mail."""

from __future__ import annotations

import codecs
import email
import email.utils
import re
from collections.abc import Iterator, Sequence
from email.message import MIMEPart
from email.policy import EmailPolicy
from typing import Any, NamedTuple

from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders.encodings import decode, decode_declared
from e2graphrag_integrations.loaders.html import read_page
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.main_content import Content
from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors, unreadable
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.text.letters import UNSPACED
from e2graphrag_integrations.types import Segment, SourceDocument

_FORMAT = "e-mail"

_SHOWN = ("Subject", "From", "To", "Cc", "Date")
"""The fields that begin the text of an e-mail."""

_TEXT_KINDS = frozenset({"text/plain", "text/html"})
"""Kinds of parts that are the text of the e-mail, unless they are attached to it."""

_MAX_FIELD = 2000
"""Maximum length of a field; a list of recipients can be very long."""

_MAX_DEPTH = 5
"""Maximum depth of e-mails that are attached to each other."""

_MIN_WORDS, _MORE_WORDS = 60, 3
"""A plain text with fewer words may only ask the reader to open the page. The page then has at
least this many times as many words."""

_WORD = re.compile(f"[{UNSPACED}]|[^\\s|{UNSPACED}]+")
_CHARSET = re.compile(rb"""(?i)charset\s{0,9}=\s{0,9}["']?(?!utf-?16|utf-?32)([\w.:-]{1,40})""")

_ZONES = rb"(?: {1,3}(?:[A-Z]{1,5}|[+-]\d\d:?\d\d|\([A-Z]{1,5}\))){0,2}"
_DATED = (
    rb"(?:(?:[A-Z][a-z]{2} {1,3}\d{1,2} {1,3}\d{1,2}:\d\d(?::\d\d)?%(zones)b {1,3}\d{4}"
    rb"|\d{1,2} [A-Z][a-z]{2} \d{4} {1,3}\d{1,2}:\d\d(?::\d\d)?"
    rb"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?Z?)%(zones)b[ \t]{0,9})"
) % {b"zones": _ZONES}
_FIELD_NAME = (
    rb"(?i:(?:From|Sender|Reply-To|To|Cc|Bcc|Subject|Date|Received|Return-Path|Message-ID"
    rb"|MIME-Version|Delivered-To|Envelope-To|Status|In-Reply-To|References|User-Agent"
    rb"|DKIM-Signature|Authentication-Results|(?:Content|List|ARC|Resent|X)-[\w-]{1,60}):)"
)
_START = re.compile(
    rb"\AFrom [^\r\n]*\r?\n"
    rb"|(?:(?<=\n\n)|(?<=\n\r\n))From [^\r\n]*\r?\n(?=%(name)b)"
    rb"|(?<=\n)From [^\r\n]*?%(dated)b\r?\n(?=\s*(?:>From [^\n]*\n)?[A-Za-z][\w-]{0,70}:)"
    % {b"name": _FIELD_NAME, b"dated": _DATED}
)
"""The line before each e-mail in a mailbox. Sentences begin like it, too, so it has a date or is
above a usual field; not all programs leave a line free before it."""

_QUOTED_START = re.compile(rb"(?m)^>(>*From )")
_SOFT_BREAK = re.compile(r"(?<!\n--) \r?\n(?![>\r\n])")
"""The end of a line that continues on the next one."""

_BLANK_LINES = re.compile(r"\n{3,}")


class _Policy(EmailPolicy):
    """How fields are read: with letters beyond ASCII, which many programs do not encode.

    Attributes:
        charset: The encoding of such letters, unless they are UTF-8.
    """

    charset = "latin-1"

    def header_fetch_parse(self, name: str, value: str) -> Any:
        """Return the value of a field."""
        if not value.isascii():
            data = value.encode("utf-8", "surrogateescape")
            texts = (decode_declared(data, one) for one in ("utf-8", self.charset, "latin-1"))
            value = next(filter(None, texts), "")
        return super().header_fetch_parse(name, value)


class _Part(NamedTuple):
    """A text of an e-mail, or a line that names an attachment."""

    text: str
    is_attached: bool


def read_eml(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return an e-mail as a document that has its subject as title.

    The text begins with the subject, the people and the date. Of two forms of the same text, the
    plain one is read, unless it is short and the page has much more text. E-mails that are attached
    are read, too; other attachments are named.

    Returns:
        The document, with the metadata `date`, the day on which the e-mail was sent.

    Raises:
        UnreadableFileError: If `data` is not an e-mail.
        FileLimitError: If the file exceeds a limit.
        ImportError: If the text is HTML and lxml is not installed.
    """
    message = _parsed(data, budget)
    if not any(_field(message, name) for name in (*_SHOWN, "Received", "Message-ID")):
        raise unreadable(budget.origin, _FORMAT, "it has no subject, people or date")
    text = _text(message, budget)
    date = _date(message)
    metadata = {"date": date} if date else {}
    return SourceDocument(document_id, text, _field(message, "Subject") or None, metadata)


def read_mbox(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the e-mails of a mailbox as a document; see `read_eml`.

    Returns:
        The document. Each e-mail is a segment with the metadata `message`, a number from 1, `date`,
        and `headings` with its subject.

    Raises:
        UnreadableFileError: If `data` is not a mailbox.
        FileLimitError: If the file exceeds a limit.
        ImportError: If a text is HTML and lxml is not installed.
    """
    starts = [(match.start(), match.end()) for match in _START.finditer(data)]
    if not starts or starts[0][0]:
        raise unreadable(budget.origin, "mailbox", "it does not begin with a line “From ...”")
    headings = FileHeadings(budget)
    texts: list[str] = []
    segments: list[Segment] = []
    start = 0
    ends = [first for first, _ in starts[1:]]
    for number, ((_, first), last) in enumerate(zip(starts, [*ends, len(data)], strict=True), 1):
        message = _parsed(_QUOTED_START.sub(rb"\1", data[first:last]), budget)
        text = _text(message, budget) + "\n\n"
        headings.add(start, 1, _field(message, "Subject") or f"E-mail {number}")
        date = _date(message)
        metadata = {"message": number, **({"date": date} if date else {})}
        segments.append(Segment(start, start + len(text), metadata))
        texts.append(text)
        start += len(text)
    return SourceDocument(document_id, "".join(texts), None, {}, headings.segments(segments))


def _parsed(data: bytes, budget: Budget) -> MIMEPart:
    budget.check_time()
    content = data.removeprefix(codecs.BOM_UTF8).lstrip()
    with translate_errors(_FORMAT, budget.origin):
        charset = _CHARSET.search(content)
        # The types of `EmailPolicy` do not know the attributes of its subclasses.
        make: Any = _Policy
        policy = make(charset=charset[1].decode()) if charset else make()
        message: MIMEPart = email.message_from_bytes(content, policy=policy)
        budget.check_parts(sum(1 for _ in message.walk()))
    return message


def _text(message: MIMEPart, budget: Budget, depth: int = 0) -> str:
    """Return the fields and the text of an e-mail, and its attachments."""
    lines = [f"{name}: {value}" for name in _SHOWN if (value := _field(message, name))]
    parts = ["\n".join(lines), *(part.text for part in _parts(message, budget, depth))]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    text = replace_surrogates(_BLANK_LINES.sub("\n\n", text.replace("\r\n", "\n")))
    budget.add_unpacked(len(text))
    return text


def _parts(
    part: MIMEPart, budget: Budget, depth: int, *, with_texts: bool = True
) -> Iterator[_Part]:
    """Yield the texts in a part of an e-mail, and the names of attachments.

    A name alone makes no attachment of a text: some programs name the text of the e-mail, too.

    Args:
        part: The part.
        budget: Limits of the file.
        depth: The number of e-mails around it.
        with_texts: Whether the texts are read; otherwise only attachments are.
    """
    with translate_errors(_FORMAT, budget.origin):
        kind, name = part.get_content_type(), part.get_filename() or ""
        inner = list(part.iter_parts()) if part.is_multipart() else []
        is_attached = part.is_attachment()
        is_picture = kind.startswith("image/") and bool(part.get("Content-ID"))
        start = str(part.get_param("start") or "")
    if kind == "multipart/alternative":
        yield from _alternative(inner, budget, depth, with_texts=with_texts)
    elif kind == "message/rfc822" and inner:
        if depth < _MAX_DEPTH:
            yield _Part(_text(inner[0], budget, depth + 1), is_attached=True)
    elif inner:
        root = _root(inner, start) if kind == "multipart/related" else None
        for one in inner:
            # What belongs to a page, such as its styles, is no text of its own.
            if root is None or one is root or one.get_filename():
                yield from _parts(one, budget, depth, with_texts=with_texts)
    elif is_attached or (name and kind not in _TEXT_KINDS):
        if not is_picture:
            text = f"Attachment: {' '.join(name.split())[:_MAX_FIELD] or kind}"
            yield _Part(text, is_attached=True)
    elif with_texts and kind.startswith(("text/", "multipart/")):
        yield _Part(_body(part, budget), is_attached=False)


def _alternative(
    inner: Sequence[MIMEPart], budget: Budget, depth: int, *, with_texts: bool
) -> Iterator[_Part]:
    """Yield one of several forms of the same text, and the attachments of all.

    Plain text comes first, then the last form that can be read and has text. That one is also read
    if the plain text is short and has far fewer or other words, as it then only tells to open the
    page. Other forms, such as a calendar entry, are read only if there is none.
    """
    plain = [one for one in inner if one.get_content_type() == "text/plain"]
    rich = [one for one in reversed(inner) if _is_rich(one)]
    found = [one for form in plain for one in _parts(form, budget, depth)] if with_texts else []
    tried = set(plain)
    words = _words(found)
    others = [*rich, *([] if words else inner[-1:])] if len(words) < _MIN_WORDS else []
    # Each form is read once: reading again would double the time with each level.
    for form in others if with_texts else ():
        if form not in tried:
            try:
                other = list(_parts(form, budget, depth))
            except FileLimitError:
                raise
            except (ImportError, UnreadableFileError):
                if not words:
                    raise
                break
            tried.add(form)
            page = _words(other)
            if _says_more(page, words):
                found = [*(one for one in found if one.is_attached), *other]
                break
            found += [one for one in other if one.is_attached]
            if page:
                break
    yield from found
    for form in inner:
        if form.is_multipart() and form not in tried:
            yield from _parts(form, budget, depth, with_texts=False)


def _words(parts: Sequence[_Part]) -> list[str]:
    return [word for one in parts if not one.is_attached for word in _WORD.findall(one.text)]


def _says_more(page: Sequence[str], plain: Sequence[str]) -> bool:
    """Return whether the words of a page are the text, of which a plain form has little or none."""
    known = set(page)
    is_other = sum(word in known for word in plain) < len(plain) / 2
    return len(page) > len(plain) and (is_other or len(page) >= _MORE_WORDS * len(plain))


def _is_rich(part: MIMEPart) -> bool:
    kind = part.get_content_type()
    return kind == "text/html" or kind.startswith("multipart/")


def _root(inner: Sequence[MIMEPart], start: str) -> MIMEPart:
    """Return the part that is the text of a page; the others are its pictures and styles.

    Args:
        inner: All of them.
        start: The identity of the text, if the page tells it.
    """
    start = start.strip(" <>")
    named = [one for one in inner if start and _field(one, "Content-ID").strip(" <>") == start]
    texts = [one for one in inner if one.get_content_type() in _TEXT_KINDS or _is_rich(one)]
    return [*named, *texts, *inner][0]


def _body(part: MIMEPart, budget: Budget) -> str:
    """Return the text of a part; its encoding is often wrong or unknown."""
    with translate_errors(_FORMAT, budget.origin):
        data = part.get_payload(decode=True)
        encoding = part.get_content_charset() or "utf-8"
        is_flowed = str(part.get_param("format")).lower() == "flowed"
        joint = "" if str(part.get_param("delsp")).lower() == "yes" else " "
        is_page = part.get_content_subtype() == "html"
    if not isinstance(data, bytes):
        return ""
    text = decode_declared(data, encoding)
    if text is None:
        try:
            text = decode(data, budget).text
        except UnreadableFileError:
            text = data.decode("utf-8", "replace")
    if is_page:
        page = codecs.BOM_UTF8 + text.encode("utf-8", "replace")
        return read_page(_FORMAT, page, budget, [Content.ALL]).text
    return _SOFT_BREAK.sub(joint, text) if is_flowed else text


def _field(message: MIMEPart, name: str) -> str:
    """Return a field in one line; empty if it is missing or cannot be read."""
    try:
        value = str(message.get(name, ""))
    except Exception:  # noqa: BLE001 - the parser of fields raises errors of many types
        return ""
    return replace_surrogates(" ".join(value.split()))[:_MAX_FIELD]


def _date(message: MIMEPart) -> str:
    """Return the day on which an e-mail was sent, as its sender counts; empty if it is unknown."""
    try:
        return email.utils.parsedate_to_datetime(_field(message, "Date")).date().isoformat()
    except ValueError:
        return ""
