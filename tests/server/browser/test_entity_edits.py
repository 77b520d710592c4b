"""Corrections of entities in Chromium: the form, the list with "Undo", errors, who sees it."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations.server.web import WebOptions, make_app

HOSTILE = "<img src=x onerror=hacked(1)>Al"


@pytest.fixture
def edit_url(chromium, web_index):
    with running_page(make_app(web_index)) as url:
        yield url


def open_form(page, url, entity):
    page.goto(f"{url}#/graph?entity={entity}")
    page.locator("#graph-title", has_text=entity).wait_for()
    page.locator("#view-graph [aria-busy]").wait_for(state="detached")
    page.locator(".graph-edit summary").click()


def correct(page, kind, name=None):
    page.get_by_label("Correction", exact=True).select_option(kind)
    if name is not None:
        page.locator("#edit-name").fill(name)
    page.get_by_role("button", name="Correct", exact=True).click()


def edits(page):
    return page.locator(".edit-list li span")


def test_an_alias_is_added_and_undone(open_page, edit_url, web_index):
    page = open_page(edit_url)
    page.goto(f"{edit_url}#/graph")
    page.locator("text=There are none.").wait_for()
    open_form(page, edit_url, "carol")
    correct(page, "alias", HOSTILE)
    expect(edits(page)).to_have_text([f"'{HOSTILE}' means 'Carol'"])
    page.locator("#view-graph .facts", has_text=f"aliases: {HOSTILE}").wait_for()
    assert page.evaluate("attacks") == []
    assert page.locator("main img").count() == 0
    assert web_index.edits().aliases == {HOSTILE: "Carol"}
    page.get_by_role("button", name="Undo: ").click()
    expect(edits(page)).to_have_count(0)
    expect(page.locator("#view-graph .facts")).not_to_contain_text("aliases")
    assert page.evaluate("document.activeElement.id") == "edits-heading"
    assert len(web_index.edits()) == 0


@pytest.mark.slow
def test_a_homonym_is_listed_and_undone(open_page, edit_url, web_index):
    web_index.edit_entities(separate=[("Alice", {"Alice (2)": ["letter-02.txt"]})])
    page = open_page(f"{edit_url}#/graph")
    expect(edits(page)).to_have_text(["'Alice' means 'Alice (2)' in 1 document"])
    page.get_by_role("button", name="Undo: ").click()
    expect(edits(page)).to_have_count(0)
    page.locator("#view-graph [aria-busy]").wait_for(state="detached")
    page.wait_for_load_state("networkidle")


@pytest.mark.slow
def test_a_button_above_the_drawing_leads_to_the_form(open_page, edit_url):
    page = open_page(f"{edit_url}#/graph?entity=carol")
    page.locator("#correct-entity").click()
    assert page.evaluate("document.activeElement.id") == "edit-kind"
    page.get_by_label("Correction", exact=True).select_option("alias")


@pytest.mark.slow
def test_merging_moves_to_the_entity_and_stopping_to_the_first_one(
    open_page, edit_url, web_index, console
):
    page = open_page(edit_url)
    open_form(page, edit_url, "carol")
    correct(page, "merge", "Bob")
    page.locator("#graph-title", has_text="Bob").wait_for()
    page.locator("#view-graph .facts", has_text="aliases: Carol").wait_for()
    expect(page.locator(".entity-list a", has_text="Carol")).to_have_count(0)
    open_form(page, edit_url, "paris")
    page.get_by_label("Correction", exact=True).select_option("stop")
    expect(page.locator("#edit-name")).to_be_hidden()
    page.get_by_role("button", name="Correct", exact=True).click()
    expect(page.locator("#graph-title")).to_have_text("Bob")  # has most mentions now
    expect(page.locator(".entity-list a", has_text="Paris")).to_have_count(0)
    open_form(page, edit_url, "alice")
    correct(page, "separate", "Alicia")
    expect(edits(page)).to_have_text(
        ["'Carol' means 'Bob'", "'Alice' is not 'Alicia'", "'Paris' is stopped"]
    )
    console.expected.add("status of 404")
    page.goto(f"{edit_url}#/graph?entity=paris")
    page.locator("#view-graph [role=alert]", has_text="Undo this correction").wait_for()
    page.get_by_role("button", name="Undo: 'Paris' is stopped").click()
    expect(page.locator("#graph-title")).to_have_text("Paris")
    page.locator(".entity-list a", has_text="Paris").wait_for()
    assert [str(one) for one in web_index.edits()] == [
        "'Carol' means 'Bob'",
        "'Alice' is not 'Alicia'",
    ]


@pytest.mark.slow
def test_a_refused_correction_is_explained_and_changes_nothing(
    open_page, edit_url, web_index, console
):
    console.expected.add("status of 404")
    page = open_page(edit_url)
    open_form(page, edit_url, "carol")
    correct(page, "merge", "Xenia")
    page.locator(".graph-edit [role=alert]", has_text="no name “Xenia”").wait_for()
    assert page.locator("#edit-name").input_value() == "Xenia"
    assert page.locator("#graph-title").inner_text() == "Carol"
    assert len(web_index.edits()) == 0


@pytest.mark.slow
def test_buttons_that_the_server_would_refuse_are_disabled(open_page, edit_url):
    page = open_page("about:blank")
    state = page.request.get(urljoin(edit_url, "state")).json()
    state |= {"blocked_deletion": "A job writes."}
    page.route("**/state", lambda route: route.fulfill(json=state))
    open_form(page, edit_url, "carol")
    button = page.get_by_role("button", name="Correct", exact=True)
    expect(button).to_be_disabled()
    assert button.get_attribute("title").startswith("Documents can be deleted again")


def test_a_session_that_may_only_read_has_no_corrections(open_page, web_index):
    with running_page(make_app(web_index, WebOptions(read_only=True))) as url:
        page = open_page(f"{url}#/graph?entity=carol")
        page.locator("#graph-title", has_text="Carol").wait_for()
        assert page.locator(".graph-edit, .edit-list").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (390, "light")])
def test_corrections_are_accessible(open_page, edit_url, web_index, check_access, width, theme):
    web_index.edit_entities(alias={"A very long alias of Alice " * 8: "Alice"}, stop=["Day"])
    page = open_page(edit_url, width=width)
    open_form(page, edit_url, "carol")
    expect(edits(page)).to_have_count(2)
    check_access(page, width=width, theme=theme)
