"""The cards of hits in Chromium: excerpts and marks, reasons, the sentence, the least relevance."""

from __future__ import annotations

import itertools
import re
from urllib.parse import quote_plus

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.server.web import make_app
from fakes import NameExtractor

QUIET = "The harbour was quiet, and nobody knew the reason. " * 30
LONG = f"{QUIET}\nALICE met Mr. Bob near the old machine. He believed her.\n{QUIET}"
CHINESE = "很久以前没有人住在山上。刘备在隆中遇见了诸葛亮。后来他们一起去了成都。"
MARKDOWN = "# The pier\n\nYara met _him_ at **my_file_name** and __init__, 2 * 3 * 4."
OVERVIEW = "&b.mode=global&b.token_budget=4000"
JARGON = ("Route:", "Left out", "specificity", "weight", "tokens", "bm25", "chunks", "Score")
MAX_HEIGHT = 110


@pytest.fixture(scope="module")
def cards_url(chromium, tmp_path_factory):
    """The page of an index with short, long, Chinese and repeated texts."""
    path = tmp_path_factory.mktemp("cards") / "cards.e2g"
    short = [
        SourceDocument(f"note-{n}.txt", f"Alice wrote note {n} to Bob.", title=f"Note {n}")
        for n in range(5)
    ]
    long = [SourceDocument("long.txt", LONG), SourceDocument("zh", CHINESE)]
    copies = [SourceDocument(f"copy-{n}.txt", "Zoe sold the boat of Oslo.") for n in range(3)]
    with E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=NameExtractor()), chunk_size=900
    ) as rag:
        rag.add([*short, *copies, *long, SourceDocument("pier.md", MARKDOWN)])
        with running_page(make_app(rag)) as url:
            yield url


def ask(open_page, url, question, settings="", **options):
    page = open_page(f"{url}#/ask?q={quote_plus(question)}{settings}", **options)
    page.locator("#answers .hit").first.wait_for()
    return page


def marks(place):
    return place.locator("mark").all_inner_texts()


@pytest.mark.slow
def test_cards_of_one_sentence_are_low_and_five_fit_on_a_laptop(open_page, cards_url):
    page = ask(open_page, cards_url, "Which note did Alice write to Bob?", "&a.k=5")
    page.set_viewport_size({"width": 1280, "height": 800})
    boxes = [hit.bounding_box() for hit in page.locator(".hit", has_text="wrote note").all()]
    assert len(boxes) == 5
    assert all(box["height"] <= MAX_HEIGHT for box in boxes)
    assert boxes[-1]["y"] + boxes[-1]["height"] <= 800


def test_an_excerpt_has_the_sentences_with_the_question_and_marks_its_words(open_page, cards_url):
    page = ask(open_page, cards_url, "Where did Alice meet Bob near the machines?", "&a.k=10")
    hit = page.locator(".hit", has_text="long.txt")
    excerpt = hit.locator(".excerpt")
    assert excerpt.inner_text() == "ALICE met Mr. Bob near the old machine. He believed her."
    assert marks(excerpt) == ["ALICE", "Bob", "near", "machine"]  # no stop words, any case
    assert excerpt.get_attribute("dir") == "auto"
    why = hit.locator(".why")
    assert not why.locator(".text").is_visible()
    why.locator("> summary").click()
    assert "The harbour was quiet" in why.locator(".text").inner_text()
    window = why.locator(".text .window").inner_text()
    assert "ALICE met Mr. Bob" in window
    assert len(window) < len(LONG) / 2
    assert not why.locator(".figures").is_visible()
    why.locator(".numbers > summary").click()
    assert "long.txt" in why.locator(".metadata").inner_text()
    assert why.locator(".figures").is_visible()


@pytest.mark.slow
def test_overlapping_chunks_show_different_sentences_and_names_as_written(
    open_page, chromium, tmp_path
):
    text = " ".join(f"Then Alice saw bridge {n} of the town." for n in range(12))
    with E2GraphRAG.open(
        tmp_path / "town.e2g",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=60, chunk_overlap=40),
    ) as rag:
        rag.add(SourceDocument("town", text))
        with running_page(make_app(rag)) as url:
            page = ask(open_page, url, "What did Alice see?", "&a.k=3")
            excerpts = page.locator(".hit .excerpt").all_inner_texts()
            assert len(excerpts) == len(set(excerpts)) == 3
            hit = page.locator(".hit").first
            hit.locator(".why > summary").click()
            assert hit.locator(".entities a").inner_text() == "Alice"
            page.locator(".trace > summary").click()
            assert "The index knows “Alice”" in page.locator(".trace").inner_text()


@pytest.mark.slow
def test_signs_of_markdown_are_left_out_of_an_excerpt_only(open_page, cards_url):
    page = ask(open_page, cards_url, "Who met Yara on the pier?", "&a.k=1")
    excerpt = page.locator(".hit .excerpt")
    assert (
        excerpt.inner_text() == "The pier – Yara met him at my_file_name and __init__, 2 * 3 * 4."
    )
    page.locator(".hit .why > summary").click()
    assert page.locator(".hit .text").inner_text().strip() == MARKDOWN.replace("\n\n", "\n")


def test_why_is_plain_and_the_numbers_are_behind_details(open_page, cards_url):
    page = ask(open_page, cards_url, "alice and Bob", "&a.k=5&a.strategy=paper")
    why = page.locator(".hit .why").first
    why.locator("> summary").click()
    shown = why.inner_text().lower()
    assert "2 names of the question" in shown
    assert not [word for word in (*JARGON, "cosine", "coverage") if word.lower() in shown]
    why.locator(".numbers > summary").click()
    assert "coverage" in why.locator(".figures").inner_text()


@pytest.mark.slow
def test_the_order_is_explained_where_it_differs_from_the_relevance(open_page, cards_url):
    page = ask(open_page, cards_url, "Was Zoe or Yara on the pier of the harbour?", "&a.k=10")
    values = [float(one) for one in page.locator(".hit .relevance strong").all_inner_texts()]
    differs = any(later > one + 0.005 for one, later in itertools.pairwise(values))
    assert differs
    assert "decide the order" in page.locator(".order").inner_text()
    page = ask(open_page, cards_url, "Where is Zoe?", "&a.k=1")
    assert page.locator(".order").count() == 0


def test_a_question_in_a_language_of_no_document_has_a_warning(open_page, cards_url):
    page = ask(open_page, cards_url, "Wer hat das Boot verkauft und wo war Zoe?", "&a.k=1")
    assert page.locator(".foreign").inner_text() == (
        "The question is in German, but the documents are in English, Chinese. Hits may be poor: "
        "ask in a language of the documents."
    )
    page = ask(open_page, cards_url, "Who sold the boat?", "&a.k=1")
    assert page.locator(".foreign").count() == 0


def test_both_settings_are_seen_at_once_and_named_by_their_presets(open_page, cards_url):
    page = ask(
        open_page, cards_url, "alice and Bob", "&compare=1&b.mode=global&b.token_budget=4000"
    )
    page.set_viewport_size({"width": 1280, "height": 800})
    for key in ("preset", "k", "mode", "strategy", "token_budget"):
        expect(page.locator(f"#b-{key}")).to_be_in_viewport(ratio=1)
    headings = page.locator("#answers h2").all_inner_texts()
    assert headings == ["Setting A: Balanced", "Setting B: Overview"]
    page.locator("#b-k").fill("7")
    page.locator("#b-k").press("Enter")
    expect(page.locator("#answers h2").last).to_have_text("Setting B")


def test_chinese_words_are_marked_without_spaces(open_page, cards_url):
    page = ask(open_page, cards_url, "刘备在哪里遇见了诸葛亮", "&a.k=10")
    excerpt = page.locator(".hit", has_text="zh").locator(".excerpt").first
    assert "刘备在隆中遇见了诸葛亮。" in excerpt.inner_text()
    marked = "".join(marks(excerpt))
    assert {"遇", "见", "诸", "葛", "亮"} <= set(marked)
    assert not {"在", "了"} & set(marks(excerpt))


def test_other_documents_with_the_same_text_stay_visible(open_page, cards_url):
    page = ask(open_page, cards_url, "Who sold the boat of Oslo?", "&a.k=3")
    also = page.locator(".hit .also-in")
    assert also.inner_text().startswith("Also in 2 documents: copy-")
    assert also.bounding_box()["height"] < 30
    assert page.locator(".hit").first.bounding_box()["height"] <= MAX_HEIGHT


@pytest.mark.slow
def test_changed_settings_say_that_the_hits_are_those_of_others(open_page, cards_url):
    page = ask(open_page, cards_url, "Which note did Alice write to Bob?", "&a.k=5")
    assert page.locator("#stale").is_hidden()
    page.locator("#a-k").fill("2")
    page.locator("#stale").wait_for()
    page.locator("#a-k").press("Enter")
    page.locator("#stale").wait_for(state="hidden")
    assert page.locator(".hit").count() == 2
    page.locator("#a-k").fill("3")
    page.locator("#ask-again").click()
    page.locator("#stale").wait_for(state="hidden")
    assert page.locator(".hit").count() == 3
    page.locator("#reset").click()
    page.locator(".hit").nth(3).wait_for()
    assert page.locator("#stale").is_hidden()


def test_the_document_of_a_hit_opens_at_its_best_part(open_page, cards_url):
    page = ask(open_page, cards_url, "Which note did Alice write to Bob?", "&a.k=5")
    page.locator(".hit .why > summary").first.click()
    page.locator(".hit .read").first.click()
    best = page.locator("dialog .read-best")
    best.wait_for()
    assert "Alice" in best.inner_text()
    assert best.is_visible()


def test_one_plain_sentence_says_how_the_hits_were_found(open_page, cards_url):
    page = ask(open_page, cards_url, "alice and Bob", "&a.k=5")
    found = page.locator(".found")
    assert found.inner_text() == "5 hits. Found through the names Alice and Bob."
    assert found.locator("a").first.get_attribute("href") == "#/graph?entity=alice"
    shown = page.locator("#answers").inner_text()
    assert not [word for word in JARGON if word in shown]
    page.locator(".trace > summary").click()
    assert "A question about something particular" in page.locator(".trace").inner_text()
    page = ask(open_page, cards_url, "a quiet harbour", "&a.k=2")
    assert page.locator(".found").inner_text() == (
        "2 hits. No name of the index is in the question, so hits come from the whole text by "
        "meaning and words."
    )
    page = ask(open_page, cards_url, "Where is Zoe?", "&a.k=3")
    assert page.locator(".found").inner_text() == (
        "3 hits. Found through the name Zoe; 2 other hits come from the whole text by meaning and "
        "words."
    )
    page = ask(open_page, cards_url, "Where is Zoe?", "&a.k=3&a.mode=global")
    assert page.locator(".found").inner_text() == (
        "3 hits. Found in the whole text by meaning and words."
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("settings", ["", "&compare=1&b.k=5&b.strategy=tree"])
def test_hits_below_the_least_relevance_are_gray_and_counted(open_page, cards_url, settings):
    page = ask(open_page, cards_url, "Where did Zoe sell the boat?", f"&a.k=5{settings}")
    first = page.locator(".answer").first
    slider, told = first.locator(".floor-slider"), first.locator(".floor-told")
    assert slider.input_value() == "0"
    assert told.inner_text() == ""
    assert first.locator(".is-below").count() == 0
    values = sorted(
        float(one.inner_text()) for one in first.locator(".hit .relevance strong").all()
    )
    floor = f"{values[1] + 0.01:.2f}"
    count = sum(value < float(floor) for value in values)
    assert 1 < count < len(values)
    slider.fill(floor)
    assert told.inner_text() == f"{count} hits are below this relevance"
    assert first.locator(".is-below").count() == count
    page.wait_for_url(f"**floor={float(floor):g}*")
    for other in page.locator(".floor-slider").all():
        assert float(other.input_value()) == float(floor)
    page.reload()
    page.locator("#answers .hit").first.wait_for()
    assert told.inner_text() == f"{count} hits are below this relevance"
    slider.fill("0")
    assert first.locator(".is-below").count() == 0
    expect(page).not_to_have_url(re.compile("floor"))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_gray_hits_and_open_reasons_are_accessible(open_page, cards_url, check_access, theme):
    page = ask(open_page, cards_url, "Who sold the boat of Oslo?", "&a.k=5&floor=0.9")
    assert page.locator(".is-below").count() > 0
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in (1280, 390):
        check_access(page, width=width, theme=theme)


@pytest.mark.slow
def test_reasons_stay_open_when_a_hit_becomes_gold(open_page, cards_url):
    page = ask(open_page, cards_url, "Who sold the boat of Oslo?", "&a.k=2")
    why = page.locator(".hit .why").first
    why.locator("> summary").click()
    why.get_by_role("button", name="Mark as gold").press("Enter")
    page.locator(".hit.is-gold").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Gold ✓ (undo)"
    assert why.locator(".reasons").is_visible()


@pytest.mark.slow
def test_settings_stay_beside_the_hits_and_above_them_on_small_screens(open_page, cards_url):
    page = ask(open_page, cards_url, "alice and Bob", "&a.k=10")
    side, hits = page.locator("#settings"), page.locator(".hits")
    assert page.locator("#a-k").is_visible()
    box, list_box = side.bounding_box(), hits.bounding_box()
    assert box["x"] >= list_box["x"] + list_box["width"]
    page.set_viewport_size({"width": 1100, "height": 500})
    page.evaluate("scrollTo(0, 400)")
    assert page.evaluate("scrollY") > 200
    header = page.locator(".top").bounding_box()["height"]
    # It does not scroll with the hits, but stays below the header.
    assert header <= side.bounding_box()["y"] <= header + 30
    page.evaluate("scrollTo(0, 0)")
    page.set_viewport_size({"width": 390, "height": 844})
    assert side.bounding_box()["y"] < hits.bounding_box()["y"]
    assert side.bounding_box()["width"] > 300
    page = open_page(cards_url, 390)
    page.locator("#settings > summary").wait_for()
    assert not page.locator("#a-k").is_visible()
    page.locator("#settings > summary").click()
    assert page.locator("#a-k").is_visible()


def test_each_setting_is_explained_and_reset_empties_all(open_page, cards_url):
    page = ask(
        open_page, cards_url, "alice and Bob", "&a.k=2&a.mode=local&a.paths=1&a.bm25_weight=2"
    )
    unexplained = page.eval_on_selector_all(
        "#settings fieldset :is(input, select, textarea)",
        "all => all.filter((one) => !document.getElementById(one.getAttribute('aria-describedby'))"
        "?.textContent.endsWith('.')).map((one) => one.id)",
    )
    assert unexplained == []
    page.locator("#reset").click()
    expect(page.locator("#a-k")).to_have_value("")
    expect(page.locator("#a-paths")).not_to_be_checked()
    expect(page.locator("#settings > summary")).to_have_text("Settings")
    expect(page).not_to_have_url(re.compile(r"&a\."))
    page.locator("#a-k").fill("3")
    page.locator("#a-k").press("Enter")  # also outside of the form
    expect(page.locator(".hit")).to_have_count(3)
