"""Answers of a model in Chromium: on request, with citations that lead to hits, as plain text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("playwright")
pytest.importorskip("openai")
from playwright.sync_api import expect

from answer_server import AnswerServer, Script, running_answers
from chromium import running_page
from e2graphrag_integrations.server.web import AnswerOptions, WebOptions, make_app

ASKED = "#/ask?q=Where+did+Alice+meet+Bob%3F&a.k=2"
TEXT = "Alice met Bob in Paris [1, 2], not in Rome [7]. <b>Bold</b> <img src=x onerror=hacked(1)>"


@pytest.fixture
def model() -> Iterator[AnswerServer]:
    with running_answers() as server:
        server.script = Script(parts=[TEXT[n : n + 9] for n in range(0, len(TEXT), 9)])
        yield server


@pytest.fixture
def url(chromium, web_index, model) -> Iterator[str]:
    """The page of an index with a model for answers."""
    options = AnswerOptions("tiny-model", model.url, "sk-very-secret-0123456789")
    with running_page(make_app(web_index, WebOptions(answers=options))) as url:
        yield url


def test_an_answer_shows_its_cost_its_citations_and_its_usage(open_page, url, model):
    page = open_page(f"{url}{ASKED}")
    panel = page.get_by_role("region", name="Answer")
    expect(panel.locator(".cost")).to_contain_text("Sends 2 hits to tiny-model: about ")
    expect(panel.locator(".cost")).to_contain_text("It writes at most 600.")
    assert model.requests == []
    panel.get_by_role("button", name="Answer").click()
    expect(panel.locator(".usage")).to_contain_text("with 210 tokens in and 7 out")
    assert panel.locator(".written-text").inner_text() == TEXT
    assert panel.locator(".written-text").locator("b, img").count() == 0
    assert page.evaluate("attacks") == []
    links = panel.locator("a.citation")
    assert links.all_inner_texts() == ["1", "2"]  # there is no hit 7
    links.last.click()
    hits = page.locator(".hit article")
    expect(hits.nth(1)).to_be_focused()
    assert page.url.endswith(ASKED)


@pytest.mark.slow
def test_an_answer_survives_marks_and_stops_with_the_next_question(open_page, url, model):
    page = open_page(f"{url}{ASKED}")
    panel = page.locator(".written")
    panel.get_by_role("button", name="Answer").click()
    expect(panel.locator(".usage")).to_be_visible()
    page.locator(".hit .why summary").first.click()
    page.get_by_role("button", name="Mark as gold").first.click()
    page.get_by_text("Gold ✓ (undo)").wait_for()
    expect(panel.locator(".written-text")).to_have_text(TEXT)
    assert len(model.requests) == 1
    model.script = Script(is_paused=True)
    panel.get_by_role("button", name="Answer again").click()
    expect(panel.locator(".written-text")).to_have_text("Bert gave Anna ")
    panel.get_by_role("button", name="Stop").click()
    expect(panel.locator(".usage")).to_have_text("Stopped.")
    assert model.gone.wait(10)
    model.gone.clear()
    panel.get_by_role("button", name="Answer again").click()
    expect(panel.locator(".written-text")).to_have_text("Bert gave Anna ")
    page.locator("#question").fill("What did Carol watch?")
    page.locator("#ask").click()
    assert model.gone.wait(10)
    expect(panel.get_by_role("button", name="Answer")).to_be_enabled()
    expect(panel.locator(".written-text")).to_be_hidden()


@pytest.mark.slow
def test_failures_are_shown_and_gray_hits_are_not_sent(open_page, url, model, check_access):
    page = open_page(f"{url}{ASKED}")
    panel = page.locator(".written")
    model.script = Script(status=401)
    panel.get_by_role("button", name="Answer").click()
    expect(panel.get_by_role("alert")).to_contain_text("it refuses the key of this server")
    slider = page.locator(".floor-slider")
    slider.fill("1")
    expect(panel.locator(".cost")).to_contain_text("No hit is above the least relevance.")
    expect(panel.get_by_role("button", name="Answer again")).to_be_disabled()
    slider.fill("0")
    model.script = Script(parts=["Short"], finish="length", usage=None)
    panel.get_by_role("button", name="Answer again").click()
    expect(panel.locator(".usage")).to_contain_text("It was cut at the maximum number of tokens.")
    expect(panel.locator(".usage")).to_contain_text("with about ")
    assert page.locator(".written").count() == 1
    page.locator("#compare").check()
    page.locator("#b-k").fill("1")
    page.locator("#ask").click()
    expect(page.get_by_role("region", name="Answer of setting B")).to_be_visible()
    for width in (1280, 390):
        for theme in ("light", "dark"):
            check_access(page, width=width, theme=theme)


@pytest.mark.slow
def test_there_is_no_button_without_a_model(open_page, page_url):
    page = open_page(f"{page_url}{ASKED}")
    page.locator(".hit").first.wait_for()
    assert page.locator(".written").count() == 0
