"""`_repr_html_`: texts are escaped, the size is bounded, and every result type has it."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from e2graphrag_integrations import SourceDocument, VerifyReport
from e2graphrag_integrations.evaluation import Question, Setting, evaluate
from e2graphrag_integrations.reports import (
    CompactReport,
    DeleteReport,
    GraphReport,
    IndexReport,
    VectorReport,
)
from e2graphrag_integrations.retrieval.result import GAP, best_window
from e2graphrag_integrations.types import Span

HOSTILE = (
    "Alice <script>alert(1)</script> met Bob \"><img src=x onerror=alert(1)> in 'Paris'. "
    "<svg/onload=alert(1)> [x](javascript:alert(1)) &lt;b&gt; \x1b[31m\u202e </div></table> "
    "Bob gave."
)
VOID = {"br"}
MAX_CHARACTERS = 200_000


class Page(HTMLParser):
    """Records the text and the tags, and checks that tags are closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.marked = ""
        self.feed(source)
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if "mark" in self.open:
            self.marked += data


def page_of(shown: object) -> Page:
    source = shown._repr_html_()
    assert len(source) < MAX_CHARACTERS
    page = Page(source)
    assert page.tags <= {"div", "b", "br", "mark", "pre", "table", "tr", "th", "td"}
    for name, value in page.attributes:
        assert name == "style"
        assert "url(" not in str(value)
    assert not {"\x1b", "\u202e"} & set(source)
    return page


@pytest.fixture
def rag(open_index):
    rag = open_index(chunk_size=64)
    rag.add(
        [
            SourceDocument(
                f"<b onclick=x>{number}", HOSTILE, title=HOSTILE, metadata={"page": "<i>4</i>"}
            )
            for number in range(3)
        ]
    )
    return rag


def test_result_shows_hostile_documents_as_text(rag):
    result = rag.retrieve("Where did Alice meet Bob <script>?", k=5, paths=True)
    page = page_of(result)
    for text in (
        "Where did Alice meet Bob <script>?",
        "<b onclick=x>1",
        "page <i>4</i>",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "</div></table>",
        "&lt;b&gt;",
        r"\x1b[31m\u202e",
        f"relevance {result.nodes[0].relevance:.2f}",
        result.nodes[0].reasons[0],
    ):
        assert text in page.text
    assert page_of(result.nodes[0]).text in page.text.replace("1. ", "", 1)


def test_every_result_shows_hostile_names_as_text(rag):
    [entity] = [one for one in rag.entities() if one.name == "alice"]
    evil = "<script>alert(1)</script>"
    questions = [Question(HOSTILE, gold_ids=["<b onclick=x>1"], answers=[HOSTILE])]
    report = evaluate(rag, questions, {evil: Setting(k=1), f"{evil}2": Setting(k=2)})
    shown = [
        rag.retrieve("Alice", k=1).trace,
        rag.stats(),
        rag.verify(),
        rag.estimate(SourceDocument("new", 40 * HOSTILE)),
        entity,
        rag.entity("Alice"),
        *rag.communities(),
        *(rag.retrieve("Alice and Paris", k=1, paths=True).paths or ()),
        *rag.status(),
        rag.freshness(),
        report,
        IndexReport(failed={evil: HOSTILE}, skipped=(evil,)),
        VerifyReport({evil: 2}, (HOSTILE,)),
        DeleteReport(1),
        CompactReport(2, 1, 0),
        VectorReport(1),
        GraphReport({"Entity": 3}),
    ]
    texts = [page_of(one).text for one in shown]
    assert any(evil in text for text in texts)
    assert f"{evil}2 - {evil}" in page_of(report).text


def test_a_long_result_is_cut_with_notes(rag):
    result = rag.retrieve("Alice", k=1)
    node = replace(result.nodes[0], text="word " * 100_000, level=1)
    many = replace(result, nodes=(node,) * 500)
    page = page_of(many)
    assert "20. " in page.text
    assert "21. " not in page.text
    assert "… and 480 more" in page.text
    assert "characters more)" in page.text
    failed = IndexReport(failed={f"doc {n}": "reason " * 900 for n in range(1000)})
    assert "… and 980 more" in page_of(failed).text


def test_best_window_is_marked_also_far_from_the_start(rag):
    node = rag.retrieve("Alice", k=1).nodes[0]
    head, window, tail = 3_000 * "a", "the best window", 3_000 * "z"
    text = head + window + tail
    span = Span(10, 10 + len(text))
    best = Span(10 + len(head), 10 + len(head) + len(window))
    far = replace(node, text=text, start=10, end=span.end, spans=(span,), best_span=best)
    page = page_of(far)
    assert page.marked == window
    assert "(2,900 characters before)" in page.text
    assert "characters more)" in page.text
    # A budget has cut the chunk into two pieces; the window is in the second one.
    spans = (Span(0, 3), Span(20, 25))
    cut = replace(node, text=f"abc{GAP}hello", spans=spans, best_span=Span(21, 24))
    assert page_of(cut).marked == "ell"
    first, last = best_window(cut)
    assert cut.text[first:last] == "ell"


def test_summaries_and_empty_results_have_no_mark(rag):
    result = rag.retrieve("Alice", k=1)
    assert "nothing found" in page_of(replace(result, nodes=())).text
    summary = replace(result.nodes[0], level=1, best_span=None)
    page = page_of(summary)
    assert page.marked == ""
    assert "summary (level 1)" in page.text


def test_verification_names_problems():
    assert "no problems" in page_of(VerifyReport({"rows": 3}, ())).text
    damaged = page_of(VerifyReport({"rows": 3}, ("row 1 is damaged",))).text
    assert "1 problem" in damaged
    assert "row 1 is damaged" in damaged
