"""Presets and the form of the filter in Chromium: both write the settings of the page."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import make_app


@pytest.fixture
def url(chromium, web_index):
    """The page of an index with keys of each kind."""
    for n in range(12):
        metadata = {
            "written": f"2024-05-{n + 1:02}",
            "year": 1890 + n,
            "author": f"Author {n}",
            "tags": ["new"] if n % 2 else ["old", "new"],
            "read": n == 3,
        }
        text = f"Alice met Bob in Rome on day {n}. Bob slept."
        web_index.add(SourceDocument(f"rome-{n}.txt", text, f"Rome {n}", metadata))
    with running_page(make_app(web_index)) as url:
        yield url


def opened_filter(page, url, where=None):
    """Open the page with a filter, and return the form and the JSON field."""
    query = "" if where is None else f"?a.where={json.dumps(where)}"
    page.goto(f"{url}#/ask{query}")
    box = page.locator("#settings details", has=page.locator("#a-where"))
    if box.get_attribute("open") is None:
        box.locator("summary").click()
    form = box.get_by_role("group", name="Filter")
    expect(form.locator("select")).to_be_enabled()
    return form, page.locator("#a-where")


def where_of(field):
    text = field.input_value()
    return json.loads(text) if text else {}


@pytest.mark.slow
def test_enter_asks_with_the_range_that_was_just_typed(open_page, url):
    page = open_page(url)
    form, field = opened_filter(page, url)
    page.locator("#question").fill("Who met Bob in Rome?")
    form.locator("select").select_option("year")
    row = form.get_by_role("group", name="year")
    row.get_by_label("From").fill("1893")
    row.get_by_label("To").fill("1894")
    row.get_by_label("To").press("Enter")
    page.locator(".hit").first.wait_for()
    titles = page.locator(".hit h2").all_inner_texts()
    assert sorted(titles) == ["Rome 3", "Rome 4"]
    assert where_of(field) == {"year": {"$gte": 1893, "$lte": 1894}}
    assert page.locator("#stale").is_hidden()


def test_conditions_are_made_from_the_keys_and_values_of_the_index(open_page, url):
    page = open_page(url)
    form, field = opened_filter(page, url)
    form.locator("select").select_option("author")
    row = form.get_by_role("group", name="author")
    row.get_by_role("searchbox").fill("author 1")
    row.locator(".choice-text").get_by_text("Author 11", exact=True).click()
    expect(field).to_have_value('{"author":"Author 11"}')
    row.locator(".choice-text").get_by_text("Author 10", exact=True).click()
    expect(field).to_have_value('{"author":{"$in":["Author 11","Author 10"]}}')
    form.locator("select").select_option("written")
    days = form.get_by_role("group", name="written")
    days.get_by_label("From").fill("2024-05-02")
    days.get_by_label("To").fill("2024-05-31")
    days_of_may = '"written":{"$gte":"2024-05-02","$lt":"2024-06-01"}'
    authors = '"author":{"$in":["Author 11","Author 10"]}'
    expect(field).to_have_value(f"{{{authors},{days_of_may}}}")
    days.get_by_label("To").fill("9999-12-31")
    expect(field).to_have_value(f'{{{authors},"written":{{"$gte":"2024-05-02"}}}}')
    days.get_by_label("To").fill("2024-05-31")
    expect(field).to_have_value(f"{{{authors},{days_of_may}}}")
    form.get_by_role("button", name="Remove author").click()
    form.locator("select").select_option("tags")
    tags = form.get_by_role("group", name="tags")
    for text in ("new", "old", "All of them"):
        tags.get_by_text(text, exact=True).click()
    page.locator("#question").fill("Where did Alice meet Bob?")
    page.locator("#ask").click()
    page.locator(".hit").first.wait_for()
    assert where_of(field)["tags"] == {"$all": ["new", "old"]}
    titles = page.locator(".hit h2").all_inner_texts()
    assert titles
    assert all(int(one.split()[-1]) % 2 == 0 for one in titles)


def test_presets_set_what_they_name_and_keep_the_filter(open_page, page_url):
    page = open_page(f'{page_url}#/ask?a.where={{"author":"Carol"}}&a.k=7')
    preset = page.locator("#a-preset")
    expect(preset).to_have_value("custom")
    preset.select_option("overview")
    expect(page.locator("#a-mode")).to_have_value("global")
    expect(page.locator("#a-token_budget")).to_have_value("4000")
    expect(page.locator("#a-k")).to_have_value("")
    expect(page.locator("#a-where")).to_have_value('{"author":"Carol"}')
    expect(page.locator("#a-preset-hint")).to_contain_text("for questions about all of it")
    page.wait_for_url("**a.mode=global**")
    page.locator("#a-k").fill("3")
    expect(preset).to_have_value("custom")
    preset.select_option("balanced")
    expect(page.locator("#a-mode")).to_have_value("")


@pytest.mark.slow
def test_documents_are_chosen_with_the_numbers_of_chunks_and_hits(open_page, url, check_access):
    page = open_page(url)
    page.goto(f"{url}#/ask?q=Where+did+Alice+meet+Bob%3F&a.k=15")
    page.locator(".hit").first.wait_for()
    page.locator("[data-fields=A] summary", has_text="Filter").click()
    form = page.get_by_role("group", name="Filter")
    expect(form.locator("select")).to_be_enabled()
    form.locator("select").select_option("document_id")
    row = form.get_by_role("group", name="Documents")
    row.get_by_role("searchbox").fill("rome-7")
    choice = row.locator("li", has_text="Rome 7")
    expect(choice).to_contain_text("1 chunk, 1 hit")
    choice.click()
    expect(page.locator("#a-where")).to_have_value('{"document_id":"rome-7.txt"}')
    page.locator("#ask").click()
    expect(page.locator(".hit")).to_have_count(1)
    for key in ("tags", "written", "year"):
        form.locator("select").select_option(key)
    for width in (1280, 390):
        for theme in ("light", "dark"):
            check_access(page, width=width, theme=theme)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ({"year": {"$gte": 1892, "$lte": 1895}}, {"From": "1892", "To": "1895"}),
        ({"year": 1893}, {"From": "1893", "To": "1893"}),
        ({"written": {"$gte": "2024-05-02"}}, {"From": "2024-05-02", "To": ""}),
        ({"written": "2024-05-02"}, {"From": "2024-05-02", "To": "2024-05-02"}),
        ({"author": {"$icontains": "hor"}}, {"Contains": "hor"}),
        ({"read": True}, {"true": None}),
        ({"document_id": {"$in": ["rome-1.txt"]}}, {"rome-1.txt": None}),
    ],
)
def test_a_filter_in_the_address_is_shown_and_stays_as_it_is(open_page, url, where, shown):
    page = open_page(url)
    form, field = opened_filter(page, url, where)
    [key] = where
    name = "Documents" if key == "document_id" else key
    row = form.get_by_role("group", name=name)
    for label, value in shown.items():
        if value is None:
            expect(row.locator("input:checked")).to_have_count(1)
        else:
            expect(row.get_by_label(label, exact=True)).to_have_value(value)
    assert where_of(field) == where


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        {"$or": [{"author": "a"}]},
        {"author": {"$ne": "a"}},
        {"year": {"$in": [1, 2]}},
        {"year": {"$gte": "x"}},
        {"written": {"$lte": "2024-05-02"}},
        {"author": ["a"]},
        {"tags": {"$in": ["a"], "$all": ["b"]}},
        {"author": {}},
    ],
)
def test_other_filters_are_left_to_the_field_with_json(open_page, url, where):
    page = open_page(url)
    page.goto(f"{url}#/ask?a.where={json.dumps(where)}")
    form = page.get_by_role("group", name="Filter")
    expect(form.get_by_text("The form cannot show the filter below.")).to_be_visible()
    assert where_of(page.locator("#a-where")) == where
    page.locator("#a-where").fill("")
    expect(form.locator("select")).to_be_visible()
