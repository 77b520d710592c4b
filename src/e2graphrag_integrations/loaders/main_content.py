"""Leave out what surrounds the content of a page: navigation, banners, footers and cookie notices.

An own rule rather than a library such as trafilatura, which also drops tables and short texts that
it does not recognize as content, and whose text has no places of headings.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class Content(Enum):
    """Which part of a page is read."""

    MAIN = 1
    """Only the main element."""
    BODY = 2
    """All but navigation, banners, footers and cookie notices."""
    ALL = 3
    """All of it."""


class Event(NamedTuple):
    """An event of the parser.

    Attributes:
        kind: "start", "end" or "data".
        value: The tag or the text.
        role: What an element that starts is for.
        attributes: Those of a cell or a list.
    """

    kind: str
    value: str
    role: Role | None = None
    attributes: Mapping[str, str | None] = MappingProxyType({})


class Role(Enum):
    """What an element is for."""

    MAIN = "main"
    SECTION = "section"
    HEADER = "header"
    FOOTER = "footer"
    QUOTE = "quote"
    BANNER = "banner"
    """A cookie notice."""
    NOTICE = "notice"
    """What can be a cookie notice or content."""
    ASIDE = "aside"
    """Anything else around the content."""
    TITLE = "title"


_NOTICE_ROLES = (Role.BANNER, Role.NOTICE)

_TAGS: Mapping[str, Role] = {
    "main": Role.MAIN,
    "article": Role.SECTION,
    "section": Role.SECTION,
    "header": Role.HEADER,
    "footer": Role.FOOTER,
    "blockquote": Role.QUOTE,
    "figure": Role.QUOTE,
    "nav": Role.ASIDE,
    "aside": Role.ASIDE,
    "dialog": Role.ASIDE,
    "title": Role.TITLE,
}
_ROLES: Mapping[str, Role] = {
    "main": Role.MAIN,
    "article": Role.SECTION,
    **dict.fromkeys(
        "banner contentinfo navigation complementary search dialog alertdialog".split(), Role.ASIDE
    ),
}
"""Roles of elements by their attribute `role`, for pages without the tags."""

_NAMES = frozenset(
    "navbar breadcrumb breadcrumbs site-header site-footer site-nav site-navigation".split()
)
_IDS = frozenset("nav navigation sidebar footer".split())
"""Classes and ids of elements around the content, in pages without the tags."""

_WHOLE = frozenset({"html", "body", "main", "article"})
"""Elements that are never a cookie notice, although their class can name one."""

_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())

INVISIBLE_TAGS = frozenset({"script", "style", "noscript", "template", "title"})
"""Tags whose text is not visible on the page."""

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_VENDOR = re.compile(
    r"(?i)(onetrust|(cybot-?)?cookie-?bot|usercentrics|didomi|qc-cmp|truste_|osano|cc-window|"
    r"cc-banner|cky-consent|sp_message|klaro|iubenda-cs|termly|borlabs-?cookie|cmplz|eu-cookie)"
)
"""Beginnings of the names that consent managers give to their elements."""

_BANNER = re.compile(
    r"(^|[_-])(cookies?|consent|gdpr|ccpa)[_-]*"
    r"(banner|notice|popup|pop-up|modal|dialog|overlay|consent|law|wall|prompt)s?($|[_-])"
)
"""Names that only cookie notices have."""

_NOTICE = re.compile(
    r"(^|[_-])((cookies?|consent|gdpr|ccpa)[_-]*"
    r"(bar|message|msg|alert|disclaimer|info|warning|container|box|layer|hint)|"
    r"privacy[_-]*(banner|popup|pop-up|modal|dialog|overlay|consent|wall|prompt))($|[_-])"
)
_NOTICE_ALONE = frozenset("cookie cookies gdpr ccpa".split())
"""Names of cookie notices that other elements have, too, such as recipes of cookies."""

_NO_NOTICE = re.compile(
    r"^(has|no|with|without|is|shows?|hides?|category|tag|post|page|type)[_-]|"
    r"[_-](open|opened|visible|shown|active|accepted|hidden|enabled)$"
)
"""Names of elements around a notice, which tell its state, and of posts about one."""


def role_of(tag: str, attributes: Mapping[str, str | None]) -> Role | None:
    """Return what an element is for, or None."""
    if not attributes:
        return _TAGS.get(tag)
    get = attributes.get
    return _role(tag, get("id") or "", get("class") or "", get("role") or "")


@functools.lru_cache(maxsize=1024)
def _role(tag: str, own_id: str, classes: str, role: str) -> Role | None:
    if tag not in _WHOLE:
        names = [own_id, *classes.split()]
        if not _NAMES.isdisjoint(names) or own_id in _IDS or any(map(_VENDOR.match, names)):
            return Role.ASIDE
        if notice := _notice(names):
            return notice
    return _ROLES.get(role.strip().lower()) or _TAGS.get(tag)


def _notice(names: Iterable[str]) -> Role | None:
    """Return what kind of cookie notice an element is by its id and its classes, or None."""
    plain = [_CAMEL_CASE.sub("-", name).lower() for name in names]
    has_one, has_two = len(plain) == 2, len(plain) == 3  # noqa: PLR2004 - the id and classes
    pair = "-".join(plain[1:]) if has_two else ""
    named = [name for name in (*plain, pair) if not _NO_NOTICE.search(name)]
    if any(map(_BANNER.search, named)):
        return Role.BANNER
    # One word of several can be about anything, such as "informed consent".
    is_alone = not _NOTICE_ALONE.isdisjoint(plain if has_one else plain[:1])
    return Role.NOTICE if is_alone or any(map(_NOTICE.search, named)) else None


@dataclass
class _Notice:
    """A cookie notice that is left out, and what speaks for reading it."""

    number: int
    can_be_section: bool
    size: int = 0
    has_heading: bool = False


class ContentFilter:
    """Passes on the events of the content.

    Args:
        content: Which part of the page is read.
        kept: Which of the elements that look like cookie notices are content, from 0.

    Attributes:
        title: The main heading in a banner, which is the title of a page that has no other.
    """

    def __init__(self, content: Content, kept: Collection[int] = ()) -> None:
        self.title = ""
        self._content = content
        self._kept = kept
        self._open: list[tuple[Role | None, bool]] = []
        self._counts: Counter[Role] = Counter()
        self._dropped = 0
        self._heading: list[str] | None = None
        self._size = 0
        self._invisible = 0
        self._seen_notices = 0
        self._notices: list[_Notice] = []
        self._notice: _Notice | None = None

    def content_notices(self) -> set[int]:
        """Return which of the dropped cookie notices are content.

        Their name can be that of a recipe, or of all around the real notice. Therefore, those with
        most of the text are content, and so are sections of the main content with a heading,
        unless their name leaves no doubt.
        """
        size = self._size + sum(notice.size for notice in self._notices)
        return {
            notice.number
            for notice in self._notices
            if (notice.can_be_section and notice.has_heading) or notice.size > size - notice.size
        }

    def keep(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events of the content, and those of the page's title."""
        is_main = self._content is not Content.MAIN
        for event in events:
            if event.kind == "start":
                self._start(event.role)
            is_kept = not self._dropped and bool(
                is_main or self._counts[Role.MAIN] or self._counts[Role.TITLE]
            )
            self._measure(event, is_kept=is_kept)
            if is_kept:
                yield event
            else:
                self._read_heading(event)
            if event.kind == "end":
                self._end()

    def _measure(self, event: Event, *, is_kept: bool) -> None:
        """Count the visible text of the content and of the open cookie notice."""
        if event.value in INVISIBLE_TAGS and event.kind != "data":
            self._invisible += 1 if event.kind == "start" else -1
        elif event.kind == "data" and not self._invisible:
            if is_kept:
                self._size += len(event.value.strip())
            elif self._notice:
                self._notice.size += len(event.value.strip())
        elif event.kind == "start" and event.value in _HEADINGS and self._notice:
            self._notice.has_heading = True

    def _start(self, role: Role | None) -> None:
        if role is None:
            self._open.append((None, False))
            return
        if role is Role.MAIN and self._dropped:  # an element before it has no end
            self._open = [(one, False) for one, _ in self._open]
            self._dropped = 0
            self._notice = None
        is_dropped = self._content is not Content.ALL and self._is_around(role)
        if role in _NOTICE_ROLES:
            is_read = self._content is not Content.MAIN or self._counts[Role.MAIN]
            if is_dropped and is_read and not self._dropped:
                is_inside = self._counts[Role.MAIN] or self._counts[Role.SECTION]
                can_be_section = role is Role.NOTICE and bool(is_inside)
                self._notice = _Notice(self._seen_notices, can_be_section)
                self._notices.append(self._notice)
            self._seen_notices += 1
        self._open.append((role, is_dropped))
        self._dropped += is_dropped
        self._counts[role] += 1

    def _end(self) -> None:
        if self._open:
            role, is_dropped = self._open.pop()
            self._dropped -= is_dropped
            if not self._dropped:
                self._notice = None
            if role:
                self._counts[role] -= 1

    def _is_around(self, role: Role | None) -> bool:
        if role is Role.HEADER:
            return not (self._counts[Role.SECTION] or self._counts[Role.MAIN])
        if role is Role.FOOTER:
            return not self._counts[Role.QUOTE]
        if role in _NOTICE_ROLES:  # those within a notice that is content belong to it
            is_inner = any(self._counts[one] for one in _NOTICE_ROLES)
            return not is_inner and self._seen_notices not in self._kept
        return role is Role.ASIDE

    def _read_heading(self, event: Event) -> None:
        if event.value == "h1" and event.kind == "start":
            self._heading = []
        elif self._heading is not None and event.kind == "data":
            self._heading.append(event.value)
        elif self._heading is not None and event.value == "h1":
            self.title = self.title or "".join(self._heading)
            self._heading = None
