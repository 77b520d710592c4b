"""The graph in Chromium: search, drawing, neighbors, sentences of edges, and paths."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest

from chromium import running_page
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Mention,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.server.web import make_app
from fakes import NameExtractor, NamesAndNouns

SYLLABLES = "ba ce di fo gu ha je ki lo mu".split()

NAMES = [f"{first}{last}" for first in ("Ka", "Lo", "Mi", "Nu", "Ra", "So") for last in SYLLABLES]


@pytest.fixture(scope="module")
def crowd_url(chromium):
    """The page of an index in which Anna knows 60 others."""
    text = "".join(f"Anna met {name} in Oslo. {name} saw Bert. " for name in NAMES)
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=64, chunk_overlap=8),
    ) as rag:
        rag.add(SourceDocument("crowd", text))
        with running_page(make_app(rag)) as url:
            yield url


@pytest.fixture(scope="module")
def noun_url(chromium):
    """The page of an index in which common nouns are more frequent than names."""
    text = (
        "Weena saw a thing at the harbour in time. Weena ran from a thing in time. "
        "Weena met the Time Traveller. McTavish saw the thing in time. McTavish left at the time. "
        "Weena saw the harbour with McTavish and the Time Traveller. "
        "Weena saw a thing come to the harbour. "
    )
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NamesAndNouns()),
        settings=IndexSettings(chunk_size=64, chunk_overlap=8),
    ) as rag:
        rag.add(SourceDocument("story", text))
        with running_page(make_app(rag)) as url:
            yield url


def listed(page):
    """Return the entities in the list beside the drawing."""
    return page.locator(".entity-list a").all_inner_texts()


def shown(page, name):
    """Wait until an entity or a path is drawn."""
    page.locator("#graph-title", has_text=name).wait_for()
    page.locator("#view-graph [aria-busy]").wait_for(state="detached")


def click_node(page, name, count=1):
    """Click an entity in the drawing."""
    place = page.evaluate(
        """async (name) => {
            const canvas = document.querySelector('.graph-canvas');
            canvas.scrollIntoView({ block: 'center' });
            // Cytoscape learns its new place from the event of the next frame.
            for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
            const box = canvas.getBoundingClientRect();
            const at = canvas._cyreg.cy.getElementById(name).renderedPosition();
            return [box.x + at.x, box.y + at.y];
        }""",
        name,
    )
    page.mouse.click(*place, click_count=count)


def drawn(page):
    """Return the entities in the drawing."""
    script = "document.querySelector('.graph-canvas')._cyreg.cy.nodes().map(one => one.id())"
    return page.evaluate(script)


def test_most_mentioned_entity_is_shown_first_and_others_are_found(open_page, page_url):
    page = open_page(f"{page_url}#/graph")
    shown(page, "alice")
    first = page.locator(".entity-list a").first
    assert first.get_attribute("aria-current") == "true"
    page.locator("#entity-search").fill("xyz")
    page.locator("text=No entity has such a name.").wait_for()
    page.locator("#entity-search").fill("Dor")
    page.locator(".entity-list a", has_text="dora").click()
    shown(page, "dora")
    assert "Dora found the treasure" in page.locator(".graph-evidence").inner_text()
    assert page.locator(".graph-evidence mark").first.inner_text() == "Dora"
    page.go_back()
    shown(page, "alice")


def places(page):
    """Return the distance of each drawn entity from the first one."""
    return page.evaluate(
        "() => { const nodes = document.querySelector('.graph-canvas')._cyreg.cy.nodes();"
        "const [center] = nodes.map((one) => one.position());"
        "return Object.fromEntries(nodes.map((one) => [one.id(),"
        "Math.hypot(one.position('x') - center.x, one.position('y') - center.y)])); }"
    )


@pytest.mark.slow
def test_layouts_by_distance_and_by_forces_are_chosen_and_kept(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=mallory")
    shown(page, "Mallory")
    by_distance = places(page)
    page.locator("#graph-layout").select_option("force")
    page.wait_for_url("**layout=force")
    page.locator("#view-graph [aria-busy]").wait_for(state="detached")
    by_forces = places(page)
    assert by_distance.keys() == by_forces.keys()
    assert by_distance != by_forces
    page.reload()
    shown(page, "Mallory")
    assert page.locator("#graph-layout").input_value() == "force"
    page.wait_for_function("document.querySelector('.graph-canvas')._cyreg")
    assert places(page) == pytest.approx(by_forces, abs=0.5)  # equal graphs look equal


@pytest.mark.slow
def test_added_neighbors_of_neighbors_are_farther_away(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=mallory")
    shown(page, "Mallory")
    near = set(drawn(page)) - {"mallory"}
    page.get_by_role("button", name="Expand Alice").click()
    page.locator("#announcements", has_text="added").wait_for()
    distances = places(page)
    far = distances.keys() - near - {"mallory"}
    assert far
    # The drawing is wider than high, so rings are compared at the same height only on the whole.
    assert max(distances[name] for name in near) <= max(distances[name] for name in far)


@pytest.mark.slow
def test_a_click_moves_to_a_neighbor_and_a_double_click_adds_its_neighbors(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=emil")
    shown(page, "emil")
    before = drawn(page)
    assert {name.title() for name in before} == {
        member.inner_text() for member in page.locator(".graph-members a").all()
    }
    assert "alice" not in before
    click_node(page, "emil", count=2)  # has no further neighbors
    page.locator("#announcements", has_text="0 neighbors of emil added").wait_for()
    click_node(page, "dora")
    shown(page, "dora")
    page.goto(f"{page_url}#/graph?entity=mallory")
    shown(page, "mallory")
    count = len(drawn(page))
    click_node(page, "alice", count=2)
    page.locator(".graph-members li").nth(count).wait_for()
    assert set(drawn(page)) >= {"bob", "carol"}
    assert page.locator("#graph-title").inner_text() == "Mallory"


@pytest.mark.slow
def test_names_are_shown_as_the_texts_write_them_and_nouns_on_request(open_page, noun_url):
    page = open_page(f"{noun_url}#/graph")
    shown(page, "Weena")
    assert page.locator("#graph-title").inner_text() == "Weena"
    names = ["Weena", "McTavish", "Time Traveller"]
    assert set(names) <= set(listed(page))
    assert not {"time", "thing", "harbour"} & set(listed(page))
    assert set(drawn(page)) >= {"weena", "time traveller", "mctavish"}
    assert "harbour" not in drawn(page)
    labels = (
        "document.querySelector('.graph-canvas')._cyreg.cy.nodes().map(one => one.data('label'))"
    )
    assert set(names) <= set(page.evaluate(labels))
    assert "common nouns left out" in page.locator("#view-graph .facts").inner_text()
    assert "not drawn" not in page.locator("#view-graph .facts").inner_text()
    page.get_by_label("Also common nouns").check()
    page.locator(".entity-list a", has_text="harbour").wait_for()
    page.locator(".graph-members a", has_text="harbour").wait_for()
    assert "harbour" in drawn(page)
    assert "common noun" in page.locator(".graph-legend").inner_text()
    page.locator(".entity-list a", has_text="harbour").click()
    shown(page, "harbour")
    assert page.url.endswith("#/graph?entity=harbour&nouns=1")
    page.reload()
    shown(page, "harbour")
    assert page.get_by_label("Also common nouns").is_checked()
    assert "thing" in listed(page)
    page.get_by_label("Also common nouns").uncheck()
    page.locator(".entity-list a", has_text="thing").wait_for(state="detached")
    shown(page, "harbour")  # asked for by its name
    assert "common noun" in page.locator("#view-graph .facts").inner_text()
    assert "thing" not in drawn(page)
    page.go_back()
    page.locator(".entity-list a", has_text="thing").wait_for()


class Typed:
    """Finds words whose labels are known."""

    fingerprint = "typed"

    def extract(self, texts):
        labels = {"Ada": "PERSON", "Bo": "PERSON", "London": "GPE", "Acme": "ORG", "Zyx": "drug"}
        return [
            [
                [
                    Mention(match.group(), *match.span(), labels[match.group()])
                    for match in re.finditer("|".join(labels), text)
                ]
            ]
            for text in texts
        ]


@pytest.fixture(scope="module")
def typed_url(chromium):
    """The page of an index whose entities have types."""
    with E2GraphRAG.open(
        ":memory:", embedder=HashingEmbedder(), models=Models(extractor=Typed())
    ) as rag:
        rag.add(SourceDocument("story", "Ada of Acme gave Bo some Zyx in London. Ada left."))
        with running_page(make_app(rag)) as url:
            yield url


def test_types_are_colors_words_and_a_filter(open_page, typed_url):
    page = open_page(f"{typed_url}#/graph?entity=ada")
    shown(page, "Ada")
    legend = page.locator(".graph-legend li").all_inner_texts()
    assert {"person", "place", "organization", "type of your rules"} <= set(legend)
    assert not {"work", "product", "other name", "common noun"} & set(legend)
    colors = dict(
        page.evaluate(
            "document.querySelector('.graph-canvas')._cyreg.cy.nodes()"
            ".map(one => [one.id(), one.style('background-color')])"
        )
    )
    assert len({colors[name] for name in ("bo", "london", "acme", "zyx")}) == 4
    assert "person" in page.locator("#view-graph .facts").inner_text()
    members = page.locator(".graph-members li").all_inner_texts()
    assert any(one.startswith("London") and "place" in one for one in members)
    assert any(one.startswith("Zyx") and "drug" in one for one in members)
    assert len(listed(page)) == 5
    page.get_by_label("Type", exact=True).select_option("person")
    page.locator(".entity-list a", has_text="London").wait_for(state="detached")
    assert listed(page) == ["Ada", "Bo"]
    assert "type=person" in page.url
    page.reload()
    shown(page, "Ada")
    page.locator(".entity-list a", has_text="Bo").wait_for()
    assert listed(page) == ["Ada", "Bo"]


@pytest.mark.slow
def test_labels_are_in_edges_paths_and_their_sentences(open_page, noun_url):
    page = open_page(f"{noun_url}#/graph?entity=mctavish")
    shown(page, "McTavish")
    edges = page.locator(".graph-edges summary").all_inner_texts()
    assert any(edge.startswith(("McTavish – Weena", "Weena – McTavish")) for edge in edges)
    page.goto(f"{noun_url}#/graph?source=mctavish&target=time+traveller")
    shown(page, "McTavish – Time Traveller")
    assert page.locator("#graph-title").inner_text() == "McTavish – Time Traveller"
    assert "McTavish – " in page.locator(".graph-paths strong").first.inner_text()


@pytest.mark.slow
def test_sizes_grow_with_the_mentions_as_the_legend_says(open_page, noun_url):
    page = open_page(f"{noun_url}#/graph?entity=weena&nouns=1")
    shown(page, "Weena")
    script = (
        "document.querySelector('.graph-canvas')._cyreg.cy.nodes()"
        ".map(one => [one.id(), one.width()])"
    )
    sizes = dict(page.evaluate(script))
    members = page.locator(".graph-members li").all_inner_texts()
    counts = {one.split("\n")[0]: int(re.search(r"(\d+) mention", one).group(1)) for one in members}
    assert counts["thing"] > counts["McTavish"]
    assert sizes["thing"] > sizes["mctavish"]
    by_label = {"Time Traveller": "time traveller"}
    in_order = sorted(
        (count, sizes[by_label.get(name, name.lower())]) for name, count in counts.items()
    )
    assert [size for _, size in in_order] == sorted(sizes.values())
    fewest, most = min(counts.values()), max(counts.values())
    legend = page.locator(".graph-legend").inner_text()
    assert f"Size: number of mentions in all chunks, here {fewest} to {most}" in legend


@pytest.mark.slow
def test_the_list_is_used_by_keyboard(open_page, noun_url):
    page = open_page(f"{noun_url}#/graph")
    shown(page, "Weena")
    page.locator("#entity-search").press("ArrowDown")
    focused = "document.activeElement.textContent"
    first, second, *_ = listed(page)
    assert page.evaluate(focused) == first
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == second
    page.keyboard.press("Enter")
    shown(page, second)
    assert page.locator(".entity-list [aria-current]").inner_text() == second
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "entity-search"
    page.keyboard.type("weena")
    page.locator(".entity-list li").nth(1).wait_for(state="detached")
    page.keyboard.press("Enter")
    shown(page, "Weena")
    page.locator("#entity-search").fill("harb")
    page.locator("text=No entity has such a name. Common nouns are left out.").wait_for()


@pytest.mark.slow
def test_neighbors_are_added_from_the_list_by_keyboard(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=mallory")
    shown(page, "mallory")
    count = page.locator(".graph-members li").count()
    page.locator('[aria-label="Expand Alice"]').press("Enter")
    page.locator(".graph-members li").nth(count).wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Expand Alice"
    assert "added" in page.locator("#announcements").text_content()


@pytest.mark.slow
def test_lists_are_extended_and_size_and_zoom_change_the_drawing(open_page, crowd_url):
    page = open_page(f"{crowd_url}#/graph?entity=anna")
    shown(page, "anna")
    for items, button in (
        (".entity-list", "entities"),
        (".graph-edges", "edges"),
        (".graph-evidence .sentences", "mentions"),
    ):
        count = page.locator(f"{items} li").count()
        page.locator(f"text=Show more {button}").click()
        page.locator(f"{items} li").nth(count).wait_for()
    assert len(drawn(page)) == 40
    assert "not drawn" in page.locator(".graph-omitted").inner_text()
    page.locator("#graph-size").select_option("20")
    page.locator(".graph-members li").nth(20).wait_for(state="detached")
    assert len(drawn(page)) == 20
    zoom = "document.querySelector('.graph-canvas')._cyreg.cy.zoom()"
    before = page.evaluate(zoom)
    page.locator('[aria-label="Zoom in"]').click()
    assert page.evaluate(zoom) > before
    page.locator('[aria-label="Zoom out"]').click()
    page.locator('[aria-label="Zoom out"]').click()
    assert page.evaluate(zoom) < before
    page.locator('[aria-label="Fit the drawing"]').click()
    assert page.evaluate(zoom) == pytest.approx(before)


@pytest.mark.slow
def test_equal_graphs_are_drawn_alike_with_readable_labels(open_page, crowd_url):
    places = []
    for width in (1280, 1280, 390):
        page = open_page(f"{crowd_url}#/graph?entity=anna", width=width)
        shown(page, "anna")
        canvas = "document.querySelector('.graph-canvas')._cyreg.cy"
        font = f"{canvas}.nodes()[0].numericStyle('font-size') * {canvas}.zoom()"
        assert page.evaluate(font) >= 11
        script = f"{canvas}.nodes().map(one => [one.id(), one.position()])"
        places.append(page.evaluate(script))
    assert places[0] == places[1]
    points = [(place["x"], place["y"]) for _, place in places[0]]
    assert min(math.dist(one, other) for one, other in combinations(points, 2)) > 30


@pytest.mark.slow
def test_an_edge_shows_its_sentences_which_lead_to_the_tree(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=dora")
    shown(page, "dora")
    page.locator(".graph-edges summary", has_text="dora – emil").click()
    sentence = page.locator(".graph-edges .sentences li").first
    assert "Dora found the treasure of Emil" in sentence.inner_text()
    sentence.locator("a").click()
    page.locator("#view-tree .is-target").wait_for()
    assert "Dora found the treasure" in page.locator(".is-target").inner_text()


def test_paths_between_two_names(open_page, page_url, console):
    page = open_page(f"{page_url}#/graph?entity=dora")
    shown(page, "dora")
    page.locator("#graph-from").fill("mallory")
    page.locator("#graph-to").fill("Carol")
    page.locator("text=Find paths").click()
    shown(page, "mallory – Carol")
    assert "Mallory sent Alice a parcel" in page.locator(".graph-paths").inner_text()
    page.locator(".graph-paths [aria-pressed]").first.click()
    assert page.locator(".graph-paths [aria-pressed=true]").count() == 1
    page.locator("#graph-to").fill("Emil")
    page.locator("text=Find paths").click()
    page.locator("text=No path joins these names.").first.wait_for()
    console.expected.add("status of 404")
    page.locator("#graph-to").fill("Xenia")
    page.locator("text=Find paths").click()
    page.locator("#view-graph [role=alert]", has_text="Xenia").wait_for()


def test_hostile_names_and_sentences_stay_text(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=mallory")
    shown(page, "mallory")
    page.locator(".graph-edges summary").first.click()
    page.locator(".graph-edges .sentences li").first.wait_for()
    page.locator(".graph-evidence .sentences a").first.click()
    page.locator("#view-tree h2", has_text="hacked").first.wait_for()
    assert page.evaluate("attacks") == []
    assert page.locator("main img, main iframe").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_graph_with_nouns_is_accessible(open_page, noun_url, check_access, width, theme):
    page = open_page(f"{noun_url}#/graph?entity=weena&nouns=1", width=width)
    shown(page, "Weena")
    check_access(page, width=width, theme=theme)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (390, "light")])
def test_graph_and_paths_are_accessible(open_page, page_url, check_access, width, theme):
    page = open_page(f"{page_url}#/graph?entity=alice", width=width)
    shown(page, "alice")
    page.locator(".graph-edges summary").first.click()
    page.locator(".graph-edges .sentences li").first.wait_for()
    check_access(page, width=width, theme=theme)
    page.goto(f"{page_url}#/graph?source=mallory&target=carol")
    shown(page, "mallory – carol")
    check_access(page, width=width, theme=theme)


@pytest.mark.slow
def test_an_answer_that_arrives_late_does_not_replace_a_newer_one(open_page, page_url):
    page = open_page(f"{page_url}#/graph?entity=alice")
    shown(page, "alice")
    late = []

    def hold(route):
        late.append(route)

    for pattern in ("**/path?*", "**/neighborhood?limit=16&*"):
        page.route(pattern, hold)
    page.get_by_role("button", name="Expand Carol", exact=True).click()
    page.goto(f"{page_url}#/graph?source=alice&target=dora")
    while len(late) < 2:
        page.wait_for_timeout(10)
    page.goto(f"{page_url}#/graph?entity=dora")
    shown(page, "dora")
    expected = drawn(page)
    for route in late:
        with page.expect_response(route.request.url):
            route.continue_()
    page.wait_for_timeout(200)
    assert page.locator("#graph-title").inner_text() == "Dora"
    assert drawn(page) == expected


@pytest.mark.slow
def test_an_entity_that_could_not_be_loaded_is_tried_again(open_page, page_url, console):
    console.expected.add("status of 503")
    page = open_page(f"{page_url}#/graph?entity=alice")
    shown(page, "alice")
    page.route("**/entities/dora", lambda route: route.fulfill(status=503, json={}))
    page.goto(f"{page_url}#/graph?entity=dora")
    page.locator("text=The server answered with status 503.").wait_for()
    page.unroute("**/entities/dora")
    page.goto(f"{page_url}#/documents")
    page.goto(f"{page_url}#/graph?entity=dora")
    shown(page, "dora")
