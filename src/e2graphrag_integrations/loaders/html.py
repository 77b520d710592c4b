"""Read the visible text of HTML files with Beautiful Soup."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors
from e2graphrag_integrations.types import SourceDocument

_BLOCK_TAGS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table td th tr ul".split()
)
"""Tags whose content starts on a new line."""

_PARAGRAPH_TAGS = frozenset({"p", "li", "div"})
"""Block tags that are preceded by a blank line."""

_INVISIBLE_TAGS = frozenset({"script", "style", "noscript", "template", "title"})
"""Tags whose text is not visible on the page."""


def read_html(document_id: str, data: bytes, origin: str) -> SourceDocument:
    """Return the visible text of a page as a document that has the page's title.

    Args:
        document_id: The document's id.
        data: Content of the file; Beautiful Soup detects its encoding.
        origin: Name of the file in error messages.

    Raises:
        UnreadableFileError: If `data` is not readable HTML.
        ImportError: If Beautiful Soup is not installed.
    """
    from bs4 import BeautifulSoup

    with translate_errors("HTML file", origin):
        with warnings.catch_warnings():
            # Beautiful Soup warns about XHTML, and about content that looks like a file name.
            warnings.simplefilter("ignore", UserWarning)
            soup = BeautifulSoup(data, "html.parser")
        title = soup.title.get_text(" ", strip=True) if soup.title else ""
        raw = "".join(_visible_text(soup))
    text = "\n".join(" ".join(line.split()) for line in raw.splitlines())
    text = re.sub("\n{3,}", "\n\n", text).strip()
    return SourceDocument(document_id, replace_surrogates(text), replace_surrogates(title) or None)


def _visible_text(soup: Any) -> Iterator[str]:
    """Yield the text of a page, with line breaks around blocks.

    The traversal is iterative because tags can be nested deeper than the recursion limit.
    """
    from bs4.element import CData, NavigableString, Tag

    stack: list[Any] = [soup]
    while stack:
        item = stack.pop()
        if not isinstance(item, Tag):
            # Comments and declarations are subclasses of NavigableString.
            if type(item) in (str, NavigableString, CData):
                yield item
        elif item.name in _BLOCK_TAGS:
            yield "\n\n" if item.name in _PARAGRAPH_TAGS else "\n"
            stack += ["\n", *reversed(item.contents)]
        elif item.name not in _INVISIBLE_TAGS:
            stack += reversed(item.contents)
