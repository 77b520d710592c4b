"""The retrieval test in Chromium: hits, two settings, gold answers, and the question set."""

from __future__ import annotations

import json

import pytest

from chromium import running_page
from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.evaluation import read_questions
from e2graphrag_integrations.server.web import make_app

QUESTION = "Where did Alice meet Bob?"


def ask(page, question=QUESTION):
    page.locator("#question").fill(question)
    page.locator("#ask").click()
    page.locator("#answers:not([aria-busy])").wait_for()
    page.locator("#answers .hits, #answers .empty, #answers .error").first.wait_for()


def opened(page, selector):
    """Open a `details` element and return it."""
    box = page.locator(selector)
    if box.get_attribute("open") is None:
        box.locator("> summary").click()
    return box


def test_a_hit_shows_its_text_place_figures_and_reasons(open_page, page_url):
    page = open_page(f"{page_url}#/ask?q=Who+found+the+treasure%3F&a.k=1")
    hit = page.locator(".hit")
    hit.wait_for()
    assert "Dora found the treasure" in hit.locator(".excerpt").inner_text()
    assert "treasure.pdf" in hit.locator("h2").inner_text()
    assert hit.locator(".place").inner_text() == "pages 1, 2"
    assert 0 <= hit.locator("meter").evaluate("one => one.value") <= 1
    why = opened(page, ".hit .why")
    assert "Dora found the treasure" in why.locator(".text").inner_text()
    assert why.locator(".reasons li").count() >= 1
    why.locator(".numbers > summary").click()
    assert "characters\n0–" in why.locator(".metadata").inner_text()
    assert why.locator(".ranks li").count() >= 1
    trace = opened(page, ".trace")
    for summary in trace.locator("> details > summary").all():
        summary.click()
    assert trace.get_by_role("button", name="Copy in English").is_visible()
    assert "Dora found the treasure" in trace.locator("pre").last.inner_text()


def test_two_settings_are_compared_side_by_side(open_page, page_url):
    page = open_page(f"{page_url}#/ask?q=Where+did+Alice+meet+Bob%3F&a.k=3")
    page.locator(".hit").first.wait_for()
    page.locator("#compare").check()
    assert page.locator("#b-k").input_value() == "3"  # the second setting begins as a copy
    page.get_by_text("Setting B is a copy of setting A").wait_for()
    assert page.locator("#answers .hit").count() == 3
    page.locator("#b-k").fill("5")
    page.locator("#b-mode").select_option("global")
    ask(page)
    page.locator('[data-setting="B"] .hit').first.wait_for()
    sides = {name: page.locator(f'[data-setting="{name}"]') for name in "AB"}
    assert {name: side.locator(".hit").count() for name, side in sides.items()} == {"A": 3, "B": 5}
    ids = {
        name: [hit.get_attribute("data-node") for hit in side.locator(".hit").all()]
        for name, side in sides.items()
    }
    for name, other in ("AB", "BA"):
        for hit, node in zip(sides[name].locator(".hit").all(), ids[name], strict=True):
            rank = ids[other].index(node) + 1 if node in ids[other] else 0
            expected = f"Rank {rank} in {other}" if rank else f"Not in {other}"
            assert expected in hit.locator(".labels").inner_text()


@pytest.mark.slow
def test_gold_answers_give_recall_and_ndcg_of_both_settings(open_page, page_url):
    page = open_page(
        f"{page_url}#/ask?q=Who+found+the+treasure%3F&compare=1&a.k=2&b.k=1&b.mode=local"
    )
    page.locator('[data-setting="B"] .hit, [data-setting="B"] .empty').first.wait_for()
    opened(page, '[data-setting="A"] .hit:first-child .why')
    page.locator('[data-setting="A"] .hit button', has_text="Mark as gold").first.click()
    scores = page.locator('[data-setting="A"] .scores')
    scores.wait_for()
    assert "Span recall" in scores.inner_text()
    assert "1.00" in scores.inner_text()
    assert "Span recall" in page.locator('[data-setting="B"] .scores').inner_text()
    assert page.evaluate("document.activeElement.textContent") == "Gold ✓ (undo)"
    assert page.locator("#gold").input_value().startswith("treasure.pdf:0-")
    page.keyboard.press("Enter")
    scores.wait_for(state="detached")
    assert page.locator("#gold").input_value() == ""
    page.locator("#gold").fill("treasure.pdf")
    ask(page, "Who found the treasure?")
    assert "Recall" in scores.inner_text()
    assert "nDCG" in page.locator('[data-setting="B"] .scores').inner_text()
    page.locator("#gold").fill("treasure.pdf:0-30")
    page.locator("#gold-answers").fill("below the old mill")
    ask(page, "Who found the treasure?")
    text = page.locator('[data-setting="A"] .scores').inner_text()
    assert "Span recall" in text
    assert "Answer in context" in text


@pytest.mark.slow
def test_a_question_without_vectors_shows_how_many_names_were_found(open_page, page_url):
    page = open_page(f"{page_url}#/ask?q=Where+did+Alice+meet+Bob%3F&a.k=1&a.mode=local&a.paths=1")
    relevance = page.locator(".hit .relevance")
    relevance.wait_for()
    assert relevance.inner_text().split() == ["Names", "found", "67%"]  # "Where" is a name, too
    assert relevance.locator("meter").count() == 0
    assert page.locator(".floor-slider").count() == 0  # shares of names are not comparable
    assert "The mode is set to “local”." in opened(page, ".trace").inner_text()
    ask(page, "Where did Alice go?")
    assert "No path joins" not in opened(page, ".trace").inner_text()


@pytest.mark.slow
def test_a_small_set_has_no_intervals_and_names_the_setting_in_its_scores(
    open_page, page_url, tmp_path, console
):
    lines = [
        {"question": "Who found the treasure?", "gold_ids": ["treasure.pdf"]},
        {"question": "Who sailed from Oslo at night?", "gold_ids": ["gone"]},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    page = open_page(f"{page_url}#/ask?compare=1&a.k=2&b.mode=local")
    opened(page, "#question-set")
    page.get_by_label("Import questions").set_input_files(path)
    page.get_by_role("button", name="Run the set").click()
    alert = page.locator("#question-set [role=alert]")
    alert.wait_for()
    assert "'Who sailed from Oslo at night?'" in alert.inner_text()
    assert "spans" in alert.inner_text()
    page.get_by_role("button", name="Remove: Who sailed").click()
    page.get_by_role("button", name="Run the set").click()
    report = page.locator("#report")
    report.wait_for()
    assert "too few for intervals" in report.inner_text()
    assert " to " not in report.locator("tbody").inner_text()
    with page.expect_download() as scores:
        page.get_by_role("link", name="Scores as CSV").click()
    assert scores.value.suggested_filename == "evaluation_scores.csv"
    scores.value.save_as(path)
    assert '"{""k"": 2}"' in path.read_text()


@pytest.mark.slow
def test_invalid_input_is_reported_where_it_belongs(open_page, page_url, console):
    page = open_page(page_url)
    page.locator("#ask").click()
    assert page.locator("form [role=alert]").inner_text() == "Write a question first."
    opened(page, "#settings")
    opened(page, "fieldset:first-of-type details:nth-of-type(2)")
    page.locator("#a-where").fill('{"author": ')
    ask_button = page.locator("#ask")
    page.locator("#question").fill(QUESTION)
    ask_button.click()
    assert "must be JSON" in page.locator("form [role=alert]").inner_text()
    assert page.evaluate("document.activeElement.id") == "a-where"
    assert page.locator("#a-where").get_attribute("aria-invalid") == "true"
    page.locator("#a-where").fill("[1]")
    ask_button.click()
    assert "JSON object" in page.locator("form [role=alert]").inner_text()
    console.expected.add("status of 400")
    page.locator("#a-where").fill('{"$near": 1}')
    ask(page)
    assert "$near" in page.locator("#answers [role=alert]").inner_text()
    page.locator("#a-where").fill('{"day": {"$lt": 3}}')
    page.locator("#gold-box > summary").click()
    page.locator("#gold").fill("unknown.txt")
    ask(page)
    assert "unknown.txt" in page.locator("#answers [role=alert]").inner_text()
    page.locator("#gold").fill("")
    ask(page)
    for place in page.locator(".place").all_inner_texts():
        assert place.startswith(("letter-01", "letter-02"))


@pytest.mark.slow
def test_a_question_set_is_saved_exported_and_imported(open_page, page_url, tmp_path):
    page = open_page(f"{page_url}#/ask?q=Who+found+the+treasure%3F&gold=treasure.pdf&answers=Dora")
    page.locator(".hit").first.wait_for()
    opened(page, "#question-set")
    page.get_by_role("button", name="Save the question").click()
    page.reload()
    opened(page, "#question-set")
    assert "1 id, 1 answer" in page.locator("#question-set tbody").inner_text()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    path = tmp_path / "questions.jsonl"
    saved.value.save_as(path)
    [question] = read_questions(path)
    assert question.to_dict() == {
        "question": "Who found the treasure?",
        "gold_ids": ["treasure.pdf"],
        "answers": ["Dora"],
    }
    page.get_by_role("button", name="Remove all").click()
    page.locator("dialog button", has_text="Remove all").click()
    assert "No questions yet" in page.locator("#question-set").inner_text()
    path.write_text(
        '{"question": "Who sailed?", "gold_spans": [["treasure.pdf", 52, 83]], "id": 7}\n\n'
        + json.dumps(question.to_dict())
    )
    page.locator("#import-questions").set_input_files(path)
    page.locator("#question-set tbody tr").nth(1).wait_for()
    page.get_by_role("button", name="Load: Who sailed?").click()
    page.locator(".scores").wait_for()
    assert page.locator("#gold").input_value() == "treasure.pdf:52-83"
    path.write_text('{"question": "Who?"}')
    page.locator("#import-questions").set_input_files(path)
    assert "line 1 has no gold_ids" in page.locator("#question-set [role=alert]").inner_text()


@pytest.mark.slow
def test_real_vectors_answer_in_the_page(open_page, real_embedder, real_extractor, tmp_path):
    texts = ["Zoe painted the lighthouse of Bergen.", "Ivan repairs old clocks.", "It rained."]
    path = tmp_path / "real.e2g"
    with E2GraphRAG.open(
        path, embedder=real_embedder, models=Models(extractor=real_extractor)
    ) as rag:
        rag.add([SourceDocument(text[:4], text) for text in texts])
        with running_page(make_app(rag)) as url:
            page = open_page(f"{url}#/ask?q=Who+is+an+artist%3F&a.k=1")
            hit = page.locator(".hit")
            hit.wait_for()
            assert "Zoe" in hit.inner_text()
            assert 0 < float(hit.locator(".relevance strong").inner_text()) < 1
