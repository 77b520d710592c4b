"""The part of a hit that is shown, and the words for its source."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import RetrievedNode
from e2graphrag_integrations.cli.excerpt import excerpt
from e2graphrag_integrations.retrieval.result import GAP
from e2graphrag_integrations.types import Span

FILLER = "The weather was fine on that day and nobody spoke. " * 40
NAMES = "Then Mr. Filby saw the Time Machine with Weena, and the end came."


def node_of(text, *, best=None, entities=(), spans=None, level=0):
    return RetrievedNode(
        "id", text, level, "d", 1000, 1000 + len(text), spans or (Span(1000, 1000 + len(text)),),
        0.5, "local", (), entities, best_span=best,
    )  # fmt: skip


def test_without_names_the_words_of_the_question_are_shown():
    text = FILLER + "The pilot starts on 2 May. " + FILLER
    assert "starts on 2 May" in excerpt(node_of(text), 240, ["pilot", "start"])
    assert "Weena" in excerpt(node_of(FILLER + NAMES, entities=("weena",)), 240, ["weather"])


def test_short_text_is_shown_completely():
    assert excerpt(node_of("Alice met\n\nBob.", entities=("bob",)), 240) == "Alice met Bob."


def test_the_best_window_is_shown_with_the_names():
    text = FILLER + NAMES + FILLER
    window = Span(1000 + len(FILLER) - 500, 1000 + len(FILLER) + 500)
    shown = excerpt(node_of(text, best=window, entities=("filby", "time machine")), 240)
    assert "Filby saw the Time Machine with Weena" in shown
    assert shown.startswith("... ")
    assert shown.endswith(" ...")
    assert len(shown) <= 248


def test_the_window_comes_before_other_places_with_the_names():
    text = "Filby came. " + FILLER + NAMES + FILLER
    window = Span(1012 + len(FILLER), 1012 + len(FILLER) + 200)
    assert "Time Machine" in excerpt(node_of(text, best=window, entities=("filby",)), 240)


def test_names_outside_of_the_window_are_better_than_none():
    text = FILLER + NAMES
    assert "Weena" in excerpt(node_of(text, best=Span(1000, 1200), entities=("weena",)), 240)


def test_without_names_the_start_of_the_window_is_shown():
    text = FILLER + "Here it begins. " + FILLER
    window = Span(1000 + len(FILLER), 1000 + len(FILLER) + 300)
    assert excerpt(node_of(text, best=window), 240).startswith("... Here it begins.")
    assert excerpt(node_of(text, entities=("absent",)), 240).startswith("The weather")


def test_pieces_and_summaries_are_handled():
    first, second = "Nothing here. " * 30, FILLER + NAMES
    spans = (Span(1000, 1000 + len(first)), Span(9000, 9000 + len(second)))
    window = Span(9000 + len(FILLER), 9000 + len(second))
    node = node_of(first + GAP + second, best=window, entities=("weena",), spans=spans)
    assert "Weena" in excerpt(node, 240)
    assert "Weena" in excerpt(node_of(FILLER + NAMES, entities=("weena",), level=1), 240)


@pytest.mark.parametrize("width", [100, 240])
def test_most_names_at_once_are_preferred(width):
    text = "Filby came. " + FILLER + "Filby and Weena met. " + FILLER
    assert "Filby and Weena" in excerpt(node_of(text, entities=("filby", "weena")), width)


CHINESE = "那一天天气很好，没有人说话，大家都在院子里坐着喝茶。\n" * 40


def test_a_chinese_name_within_a_run_of_characters_is_shown():
    text = f"{CHINESE}却说曹操自领大军，刘备守新野。{CHINESE}"
    shown = excerpt(node_of(text, entities=("刘备", "曹操")), 240)
    assert "却说曹操自领大军，刘备守新野" in shown
    assert shown.startswith("... ")
    assert shown.endswith(" ...")
    assert "\n" not in shown
    assert 90 <= len(shown) <= 130  # each of these characters has two columns


def test_a_simplified_name_is_found_in_traditional_characters():
    text = f"{CHINESE}卻說諸葛亮自領大軍。{CHINESE}"
    assert "卻說諸葛亮自領大軍" in excerpt(node_of(text, entities=("诸葛亮",)), 240)


def test_a_chinese_excerpt_begins_at_the_best_window():
    text = f"{CHINESE}标题 Title 开始。{CHINESE}"
    window = Span(1000 + len(CHINESE), 1000 + len(text))
    shown = excerpt(node_of(text, best=window), 240)
    assert shown.startswith("... 标题 Title 开始。那一天")


@pytest.mark.parametrize("unit", ["नी", "ที่", "👩\u200d👧"])
def test_an_excerpt_keeps_characters_whole(unit):
    shown = excerpt(node_of(unit * 300), 100)
    assert shown.removesuffix(" ...").replace(unit, "") == ""


def test_the_source_of_a_hit_and_the_route_use_different_words(book_index, call):
    _, out, _ = call("query", book_index, "What did the Hatter give to Alice?", "--explain")
    sources = {line.rpartition("mainly by ")[2] for line in out.splitlines() if "mainly by" in line}
    assert {"relevance"} <= sources <= {"entities", "relevance"}
    assert out.splitlines()[0] in {"route: local", "route: global"}
    nodes = call("query", book_index, "What did the Hatter give?", "--json").json()["nodes"]
    assert {node["found_by"] for node in nodes} <= {"entities", "relevance"}
    assert all("route" not in node for node in nodes)
