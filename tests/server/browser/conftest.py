"""One browser and one server for each process of the tests, and a fresh context per test."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from chromium import (
    SIZES,
    TIMEOUT,
    Chromium,
    Console,
    axe_source,
    missing_browser,
    recorder,
    running_page,
    watcher,
)
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.types import Segment
from fakes import NameExtractor

ATTACK = (
    '<script>hacked("script")</script><img src=x onerror="hacked(1)"><svg onload="hacked(2)"></svg>'
    '<a href="javascript:hacked(3)">link</a><iframe srcdoc="<script>parent.hacked(4)</script>">'
)
"""Text that calls a function of the page if it is ever parsed as HTML."""

BROKEN = "Unreadable"
"""A document with this word fails."""

OpenPage = Callable[..., Any]

if os.environ.get("E2GRAPHRAG_REQUIRE_BROWSER") and (problem := missing_browser()):
    raise RuntimeError(f"the tests of the page cannot run: {problem}")


class BrokenExtractor(NameExtractor):
    """Fails on texts with the word `BROKEN`, with a message that quotes them.

    Attributes:
        is_broken: Whether it fails.
        gate: Extraction waits until this is set.
    """

    def __init__(self) -> None:
        self.is_broken = True
        self.gate = threading.Event()
        self.gate.set()

    def extract(self, texts: Sequence[str]) -> Any:
        self.gate.wait(30)
        for text in texts:
            if self.is_broken and BROKEN in text:
                raise ValueError(f"cannot read {text}")
        return super().extract(texts)


def documents() -> list[SourceDocument]:
    """Return the documents of the shared index: 31 letters, a file with pages, and attacks."""
    letters = [
        SourceDocument(
            f"letter-{day:02}.txt",
            f"Alice met Bob in Paris on day {day}. Bob gave Alice map {day}. They went to the "
            f"harbour together, and Carol watched them from bridge {day}. Later Carol wrote to "
            "Alice about it.",
            title=f"Letter {day}",
            metadata={"author": "Carol", "day": day},
        )
        for day in range(1, 32)
    ]
    first = "Dora found the treasure of Emil below the old mill. "
    second = "Emil sailed from Oslo at night. Nobody saw Emil again."
    pages = [
        Segment(0, len(first), {"page": 1}),
        Segment(len(first), len(first + second), {"page": 2}),
    ]
    return [
        *letters,
        SourceDocument("treasure.pdf", first + second, segments=pages),
        SourceDocument(
            f"{ATTACK}.txt",
            f"Mallory sent Alice a parcel. {ATTACK} Mallory waited.",
            title=f"Mallory {ATTACK}",
            metadata={"note": ATTACK, ATTACK: 1},
        ),
        SourceDocument("broken.txt", f"{BROKEN} {ATTACK}"),
    ]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Headless Chromium, one for each process of the tests."""
    missing = missing_browser()
    if missing:
        pytest.skip(missing)
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture
def extractor() -> BrokenExtractor:
    """The extractor of `web_index`."""
    return BrokenExtractor()


@pytest.fixture
def long_chunks(tmp_path: Path, extractor: BrokenExtractor) -> Iterator[E2GraphRAG]:
    """An index with chunks that the page shortens."""
    quiet = "The harbour was quiet, and nobody knew why. " * 30
    long = SourceDocument("long.txt", f"{quiet}Alice met Bob in Paris. {quiet}")
    with open_index(tmp_path / "long.e2g", extractor, 800) as rag:
        rag.add([long, *documents()[:3]])
        yield rag


@pytest.fixture
def web_index(tmp_path: Path, extractor: BrokenExtractor) -> Iterator[E2GraphRAG]:
    """An index with three documents, for tests that write."""
    with open_index(tmp_path / "library.e2g", extractor) as rag:
        rag.add(documents()[:3])
        yield rag


def open_index(path: Path, extractor: BrokenExtractor, chunk_size: int = 32) -> E2GraphRAG:
    """Open an index with fake components."""
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(),
        models=Models(extractor=extractor),
        settings=IndexSettings(chunk_size=chunk_size, chunk_overlap=4),
    )


@pytest.fixture(scope="session")
def page_url(chromium: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of an index that no test changes."""
    from e2graphrag_integrations.server.web import make_app

    path = tmp_path_factory.mktemp("page") / "library.e2g"
    with open_index(path, BrokenExtractor()) as rag:
        rag.add(documents())
        with running_page(make_app(rag)) as url:
            yield url


@pytest.fixture
def console() -> Iterator[Console]:
    """The problems that the pages of a test reported; there must be none."""
    console = Console()
    yield console
    assert not console.problems


@pytest.fixture
def open_page(chromium: Chromium, console: Console) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own.

    A text or a label that shows a missing value, such as `null`, is a problem of its console.
    """
    with chromium.active(), ExitStack() as contexts:

        def open_(url: str, width: int = 1280, **options: Any) -> Any:
            context = chromium.browser.new_context(
                viewport={"width": width, "height": SIZES[width]},
                reduced_motion="reduce",
                **options,
            )
            contexts.callback(context.close)
            context.set_default_timeout(TIMEOUT)
            context.add_init_script(
                "window.attacks = []; window.hacked = (one) => attacks.push(one)"
            )
            context.add_init_script(watcher())
            page = context.new_page()
            console.watch(page)
            page.goto(url)
            return page

        yield open_


@pytest.fixture(scope="session")
def check_access(chromium: Chromium) -> Callable[[Any], None]:
    """Return a function that fails if axe-core finds a violation, in both themes and widths."""
    source = axe_source()

    def check(page: Any, *, width: int, theme: str) -> None:
        page.set_viewport_size({"width": width, "height": SIZES[width]})
        page.locator("#theme").select_option(theme)
        if not page.evaluate("'axe' in window"):
            page.evaluate(source)
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if theme == "dark":  # only colors depend on the theme
            options["runOnly"] = ["color-contrast", "link-in-text-block"]
        found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
        described = [
            f"{one['id']}: {one['help']}: {node['html']} {node['failureSummary']}"
            for one in found
            for node in one["nodes"]
        ]
        assert not described, "\n".join(described)
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"the page is {overflow} pixels too wide at {width}"

    return check


@pytest.fixture
def open_recorded(open_page: OpenPage) -> OpenPage:
    """Return a function that opens a page which records the controls that are used.

    `page.evaluate("unusedControls('ask')")` returns those of the view and of the shell that were
    visible but not used.
    """

    def open_(url: str, **options: Any) -> Any:
        page = open_page("about:blank", **options)
        page.context.add_init_script(recorder())
        page.goto(url)
        return page

    return open_
