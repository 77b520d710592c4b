"""The passages, the stub's rules and the tables of `benchmarks/peers`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))

from passage_stub import change, load, titled_graph
from passages import passage_job
from report import BY_QUESTION, passage_row
from run import add_row, earlier

from stub_server import SCRIPT
from tables import peers

TEXTS = {"p1": "Dune\nA novel by Frank Herbert.", "p2": "Frank Herbert\nHe was born in Tacoma."}
GOLD = [frozenset({"p1", "p2"}), frozenset({"p2"})]
COSTS = {"seconds": 0.2, "embed_seconds": 0.1, "llm_calls": 0, "prompt_tokens": 0, "embed_texts": 1}


def make_set(folder):
    (folder / "hotpotqa").mkdir()
    rows = [{"id": f"p{n}", "title": f"T{n}", "text": f"Text {n}."} for n in range(20)]
    asked = [{"question": f"Q{n}?", "gold_ids": [f"p{n}"], "type": "x"} for n in range(20)]
    for file, lines in (("corpus", rows), ("questions", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "hotpotqa" / f"{file}.jsonl").write_text(text, encoding="utf-8")


def test_passages_are_the_gold_ones_and_their_neighbors_with_the_title_in_the_text(tmp_path):
    make_set(tmp_path)
    job, gold = passage_job(tmp_path, 3, 6)
    assert gold == [frozenset({"p1"}), frozenset({"p3"}), frozenset({"p5"})]
    assert list(job["texts"]) == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert job["texts"]["p3"] == "T3\nText 3."
    assert job["questions"][1:] == ["Q1?", "Q3?", "Q5?"]
    with pytest.raises(SystemExit, match="3 questions need 3 passages"):
        passage_job(tmp_path, 3, 2)


@pytest.fixture
def stub():
    if not SCRIPT.exists():
        pytest.skip(f"{SCRIPT} is missing")
    return load(str(SCRIPT))


@pytest.mark.shared
def test_the_title_is_an_entity_of_the_first_sentence(stub):
    text = "Song of the South (film)\nSong of the South was made by Walt Disney. It is a musical."
    entities, relations = titled_graph(stub.graph_of, text, 15, 15)
    names = [name for name, _, _ in entities]
    assert names == ["Song of the South", "Walt Disney"]
    assert {relation[:2] for relation in relations} == {("Song of the South", "Walt Disney")}
    assert "Song of the South" not in [name for name, _, _ in stub.graph_of(text, 15, 15)[0]]


def test_a_text_of_one_line_is_read_as_before():
    def graph_of(text, *limits):
        return [(text, *limits)], []

    assert titled_graph(graph_of, "Walt Disney lived.", 15, 10)[0] == [
        ("Walt Disney lived.", 15, 10)
    ]


@pytest.mark.shared
def test_the_changed_stub_answers_with_names_and_nouns_of_the_question(stub):
    change(stub)
    asked = "User Query: Which studio produced Song of the South?\n\n---Output---\nOutput:"
    prompts = [("system", ""), ("user", f"high_level_keywords\n{asked}")]
    kind, text = stub.make_reply(prompts, SimpleNamespace())
    assert (kind, json.loads(text)) == (
        "keywords",
        {"high_level_keywords": ["studio"], "low_level_keywords": ["Song of the South"]},
    )


def row_of(*answers):
    """Return the row of a system that retrieves these passages for the two questions."""
    questions = [COSTS | {"passages": [TEXTS[id_] for id_ in ids]} for ids in answers]
    raw = {"version": "x 1", "settings": {}, "peak_mb": 1, "index": COSTS}
    return passage_row(raw | {"modes": {"hybrid": questions}}, TEXTS, GOLD)


def test_recall_is_kept_by_question_and_compared_in_pairs(tmp_path):
    ours, theirs = row_of(["p1", "p2"], ["p2"]), row_of(["p1"], ["p2", "p1"])
    assert ours["modes"]["hybrid"][BY_QUESTION] == "1 1"
    figures = theirs["modes"]["hybrid"]
    assert (figures["R@5"], figures["all@5"], figures[BY_QUESTION]) == (0.75, 0.5, "0.5 1")
    job = {"texts": TEXTS, "questions": ["Warm-up?", "Q1?", "Q2?"]}
    result = earlier(tmp_path / "out.json", job)
    costs = {"index": COSTS | {"completion_tokens": 0}, "modes": {"hybrid": COSTS | {"p50_ms": 1}}}
    for name in ("raptor", "e2graphrag"):
        add_row(result, "novel", name, {"version": name, "settings": {}} | costs)
    add_row(result, "hotpotqa", "raptor", theirs)
    assert "| +0." not in peers(["raptor"], result)  # nothing to compare with
    add_row(result, "hotpotqa", "e2graphrag", ours)
    assert list(result["hotpotqa"]) == ["e2graphrag", "raptor"]
    lines = peers(["raptor"], result).splitlines()
    assert any(line.startswith("| raptor | hybrid |") and "| +0.250 [" in line for line in lines)
    assert lines[-1].endswith("| 1.000 |  |")


def test_rows_of_other_systems_stay_unless_the_passages_changed(tmp_path):
    out = tmp_path / "out.json"
    job = {"texts": TEXTS, "questions": ["Warm-up?", "Q1?", "Q2?"]}
    result = earlier(out, job)
    for part in ("novel", "hotpotqa"):
        add_row(result, part, "raptor", row_of(["p1"], ["p2"]))
    out.write_text(json.dumps(result), encoding="utf-8")
    assert earlier(out, job) == result
    changed = earlier(out, job | {"questions": ["Warm-up?", "Q1?"]})
    assert list(changed["novel"]) == ["raptor"]
    assert changed["hotpotqa"] == {}


def test_a_passage_is_recognized_without_its_html_entities_and_line_breaks():
    texts = {"p1": "Lilo &amp; Stitch\nA film.", "p2": "Other\nText."}
    questions = [COSTS | {"passages": ["Lilo & Stitch A film.", "Unknown"]}]
    raw = {"version": "x 1", "settings": {}, "peak_mb": 1, "index": COSTS}
    row = passage_row(raw | {"modes": {"mix": questions}}, texts, [frozenset({"p1"})])
    assert row["modes"]["mix"]["R@2"] == 1
    assert row["modes"]["mix"]["texts without a passage"] == 1
