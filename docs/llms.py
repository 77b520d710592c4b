"""Write llms.txt and llms-full.txt (https://llmstxt.org) from the pages that docs/index.md lists.

`make docs` puts both beside index.html. The links lead to the Markdown sources, which Sphinx
publishes as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
SITE = "https://e2graphrag-integrations.readthedocs.io/en/latest"
OPTIONAL = "Benchmarks"
"""The caption of the pages that an agent can skip."""

_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```.*?^```\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NO_PARAGRAPH = re.compile(r"[#|!<]|- |\[[^\]]*\]\([^)]*\)$")


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the captions of the index with their pages, without suffix."""
    for body in _TOCTREE.findall(_read("index")):
        lines = body.splitlines()
        caption = next(line.partition(": ")[2] for line in lines if line.startswith(":caption:"))
        if pages := _pages(lines):
            yield caption, pages


def api_pages() -> list[str]:
    """Return the pages of the API reference."""
    [body] = _TOCTREE.findall(_read("api/index"))
    return [f"api/{page}" for page in _pages(body.splitlines())]


def title_of(page: str) -> str:
    """Return the first heading of a page."""
    return _read(page).partition("\n")[0].removeprefix("# ")


def description_of(page: str) -> str:
    """Return the first sentence of a page as plain text; empty for a page of the API."""
    for block in _CODE.sub("", _read(page)).strip().split("\n\n")[1:]:
        if not _NO_PARAGRAPH.match(block):
            text = _LINK.sub(r"\1", " ".join(block.split())).replace("**", "")
            return re.split(r"(?<=[.:?])\s(?=[A-Z`])|(?<=。)", text, maxsplit=1)[0].rstrip(":")
    return ""


def llms_txt() -> str:
    """Return the index for language models."""
    blocks = [f"# {title_of('index')}", f"> {description_of('index')}"]
    groups = [(caption, pages) for caption, pages in sections() if caption != OPTIONAL]
    optional = [page for caption, pages in sections() if caption == OPTIONAL for page in pages]
    for caption, pages in [*groups, ("Optional", optional)]:
        lines = [
            f"- [{title_of(page)}]({SITE}/_sources/{page}.md.txt): {description_of(page)}"
            for page in pages
            if page != "api/index"
        ]
        if "api/index" in pages:
            lines += [
                f"- [API: {title_of(page)}]({SITE}/{page}.html): signatures and docstrings"
                for page in api_pages()
            ]
        blocks.append(f"## {caption}\n\n" + "\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def llms_full_txt() -> str:
    """Return the text of all pages, except those of the API and the optional ones."""
    pages = [page for caption, pages in sections() if caption != OPTIONAL for page in pages]
    texts = [_TOCTREE.sub("", _read(page)).strip() for page in pages if page != "api/index"]
    return "\n\n".join([_TOCTREE.sub("", _read("index")).strip(), *texts]) + "\n"


def write_to(folder: Path) -> None:
    """Write both files."""
    (folder / "llms.txt").write_text(llms_txt(), encoding="utf-8")
    (folder / "llms-full.txt").write_text(llms_full_txt(), encoding="utf-8")


def _pages(lines: list[str]) -> list[str]:
    """Return the pages of a toctree; an entry is a page or `Title <page>`."""
    entries = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]


def _read(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")
