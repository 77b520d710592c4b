"""Leave out what surrounds the content of a page: navigation, banners, footers and cookie notices.

An own rule rather than a library such as trafilatura, which also drops tables and short texts that
it does not recognize as content, and whose text has no places of headings.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
    ASIDE = "aside"
    """Anything else around the content."""
    TITLE = "title"


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

_COOKIE_NOTICE = re.compile(
    r"(?i)(^|[\s_-])((cookies?|consent|gdpr|ccpa|privacy)[\s_-]?"
    r"(banner|notice|bar|popup|pop-up|modal|dialog|overlay|consent|message|msg|law|wall|prompt|"
    r"alert|disclaimer|info|warning|container|box|layer|hint|banner-\w+)|"
    r"(cookies?|consent|gdpr)($|\s)|eu-cookie\S*|cookie-?consent\S*)|"
    r"onetrust|cookiebot|usercentrics|didomi|qc-cmp|truste_|osano|cc-window|cc-banner|cky-consent|"
    r"sp_message|klaro|iubenda-cs|termly|borlabs-?cookie|cmplz"
)


def role_of(tag: str, attributes: Mapping[str, str | None]) -> Role | None:
    """Return what an element is for, or None."""
    if not attributes:
        return _TAGS.get(tag)
    get = attributes.get
    return _role(tag, get("id") or "", get("class") or "", get("role") or "")


@functools.lru_cache(maxsize=1024)
def _role(tag: str, own_id: str, classes: str, role: str) -> Role | None:
    if tag not in _WHOLE:
        names = {own_id, *classes.split()}
        is_around = not _NAMES.isdisjoint(names) or own_id in _IDS
        if is_around or _COOKIE_NOTICE.search(f"{own_id} {classes}"):
            return Role.ASIDE
    return _ROLES.get(role.strip().lower()) or _TAGS.get(tag)


class ContentFilter:
    """Passes on the events of the content.

    Args:
        content: Which part of the page is read.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._open: list[tuple[Role | None, bool]] = []
        self._counts: Counter[Role] = Counter()
        self._dropped = 0
        self._heading: list[str] | None = None
        self._heading_in_banner = ""

    @property
    def title(self) -> str:
        """The main heading in a banner, which is the title of a page that has no other."""
        return self._heading_in_banner

    def keep(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events of the content, and those of the page's title."""
        is_main = self._content is not Content.MAIN
        for event in events:
            if event.kind == "start":
                self._start(event.role)
            if not self._dropped and (
                is_main or self._counts[Role.MAIN] or self._counts[Role.TITLE]
            ):
                yield event
            else:
                self._read_heading(event)
            if event.kind == "end":
                self._end()

    def _start(self, role: Role | None) -> None:
        if role is None:
            self._open.append((None, False))
            return
        if role is Role.MAIN and self._dropped:  # an element before it has no end
            self._open = [(one, False) for one, _ in self._open]
            self._dropped = 0
        is_dropped = self._content is not Content.ALL and self._is_around(role)
        self._open.append((role, is_dropped))
        self._dropped += is_dropped
        self._counts[role] += 1

    def _end(self) -> None:
        if self._open:
            role, is_dropped = self._open.pop()
            self._dropped -= is_dropped
            if role:
                self._counts[role] -= 1

    def _is_around(self, role: Role | None) -> bool:
        if role is Role.HEADER:
            return not (self._counts[Role.SECTION] or self._counts[Role.MAIN])
        if role is Role.FOOTER:
            return not self._counts[Role.QUOTE]
        return role is Role.ASIDE

    def _read_heading(self, event: Event) -> None:
        if event.value == "h1" and event.kind == "start":
            self._heading = []
        elif self._heading is not None and event.kind == "data":
            self._heading.append(event.value)
        elif self._heading is not None and event.value == "h1":
            self._heading_in_banner = self._heading_in_banner or "".join(self._heading)
            self._heading = None
