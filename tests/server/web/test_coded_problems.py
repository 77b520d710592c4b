"""Problems with a code: both languages of the page say them from the values in the answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import e2graphrag_integrations as package
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    IndexGoneError,
    SchemaVersionError,
    VectorIndexError,
)
from e2graphrag_integrations.server.web.problems import Explainer
from file_makers import make_scanned_pdf
from web_jobs import finished

PACKAGE = Path(package.__file__).parent
MESSAGES = PACKAGE / "server" / "web" / "page" / "messages"
MADE = {
    "retrieval/filters/where.py": "filter_",
    "retrieval/ranking/boosts.py": "boost_",
}
"""Modules that put this before the codes of their `_refusal`."""


def message(language, code):
    """Return the message of the page for a code; None if it has none."""
    text = (MESSAGES / f"{language}.js").read_text(encoding="utf-8")
    found = re.search(rf'^  "problem\.{code}": (".*"),$', text, re.MULTILINE)
    return found and json.loads(found[1])


def check(code, values):
    """Assert that the page says a problem with the values that the answer has."""
    for language in ("en", "zh"):
        text = message(language, code)
        assert text, (language, code)
        named = {one: values[one] for one in re.findall(r"\{(\w+)\}", text)}
        assert None not in named.values(), code
    for one in values.values():
        for inner in one if isinstance(one, list) else [one]:
            if isinstance(inner, dict):
                check(inner["code"], inner["values"])


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"where": {"$or": 3}}, "filter_no_filters"),
        ({"where": {"$and": [3]}}, "filter_no_mapping"),
        ({"where": {"$near": []}}, "filter_no_logical"),
        ({"where": {"year": {"$or": []}}}, "filter_misplaced"),
        ({"where": {"year": {"$near": 3}}}, "filter_no_operator"),
        ({"where": {"year": {"$in": 3}}}, "filter_needs_list"),
        ({"where": {"year": {"$all": 3}}}, "filter_needs_list"),
        ({"where": {"year": {"$size": "x"}}}, "filter_needs_size"),
        ({"where": {"year": {"$icontains": 3}}}, "filter_needs_texts"),
        ({"where": {"year": {"$exists": 3}}}, "filter_needs_bool"),
        ({"where": {"year": {"$gte": []}}}, "filter_no_bound"),
        ({"where": {"$or": [{"a": 1}] * 10_001}}, "filter_many"),
        ({"boosts": {"tags": {}}}, "boost_unknown_key"),
        ({"boosts": {"tag": 3}}, "boost_no_weights"),
        ({"boosts": {"documents": {"a": -1}}}, "boost_no_number"),
        ({"boosts": {"boost_field": 3}}, "boost_no_key"),
        ({"boosts": {"boost_field": "n", "boost_scale": "x"}}, "boost_scale"),
        ({"boosts": {"boost_scale": "log"}}, "boost_no_field"),
        ({"boosts": {"recency_weight": 2}}, "boost_no_age"),
        ({"boosts": {"half_life_days": 3, "now": "soon"}}, "boost_now"),
        ({"k": 0}, "no_count"),
        ({"mode": "x"}, ""),
        ({"min_relevance": 2}, "no_fraction"),
        ({"bm25_weight": -1}, "no_number"),
        ({"n_iter": 0}, "no_count_between"),
        ({"budget_summaries": "x"}, "no_choice"),
    ],
)
def test_an_invalid_setting_is_said_by_its_code(rag, serve, settings, code):
    answer = serve(rag).post("/retrieve", json={"question": "Anna?", "settings": settings})
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["message"].count("setting") == ("settings" in str(settings))
    if code:
        assert error["code"] == code
        check(code, error["values"])


def test_gold_answers_that_the_index_lacks_are_said_one_by_one(rag, serve):
    spans = [("lost", 0, 3), ("story", 99_000, 99_001)]
    fields = ("document_id", "start", "end")
    gold = {"ids": ["gone"], "spans": [dict(zip(fields, one, strict=True)) for one in spans]}
    body = {"question": "Anna?", "gold": gold}
    error = serve(rag).post("/retrieve", json=body).json()["error"]
    assert error["code"] == "missing_gold"
    inner = [one["values"]["problem"]["code"] for one in error["values"]["problems"]]
    assert inner == ["unknown_gold", "unknown_span", "empty_span"]
    check(error["code"], error["values"])


@pytest.mark.parametrize(
    ("questions", "settings", "codes"),
    [
        ([{"question": "Anna?"}], {}, ["in_question", "no_gold"]),
        ([{"text": "Anna?"}], {}, ["in_question", "no_question"]),
        ([{"question": "Anna?", "answer": "?"}], {}, ["in_question", "wordless_answer"]),
        ([{"question": "Anna?", "gold_spans": ["x"]}], {}, ["in_question", "no_span"]),
        (
            [{"question": "Anna?", "answer": "Oslo"}],
            {"A": {"where": {"year": {"$in": 3}}}},
            ["in_setting", "filter_needs_list"],
        ),
    ],
)
def test_an_invalid_question_or_setting_of_an_evaluation_is_named(
    rag, serve, questions, settings, codes
):
    body = {"questions": questions, "settings": settings or {"A": {}}}
    error = serve(rag).post("/evaluations", json=body).json()["error"]
    assert [error["code"], error["values"]["problem"]["code"]] == codes
    check(error["code"], error["values"])


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"alias": {"?!": "Anna"}}, "no_entity_name"),
        ({"alias": {"Anna": "anna"}}, "alias_same"),
        ({"alias": {"Anna": "Bert", "Bert": "Anna"}}, "alias_cycle"),
        ({"separate": [["Anna", "the Anna"]]}, "separate_same"),
        ({"separate": [["Anna", "Bert"]], "alias": {"Anna": "Bert"}}, "separate_joined"),
        ({"stop": ["Anna"], "alias": {"Anna": "Bert"}}, "stop_alias"),
        ({"undo": ["000000000000"]}, "no_edit"),
        ({"alias": {"Cleo": " "}}, "empty"),
    ],
)
def test_a_correction_that_cannot_apply_is_said_by_its_code(rag, serve, change, code):
    error = serve(rag).post("/edits", json=change).json()["error"]
    assert error["code"] == code
    check(code, error["values"])


def test_files_that_cannot_be_read_have_codes(rag, serve):
    given = {
        "bad.pdf": (b"no PDF", "unreadable"),
        "zip.txt": (b"PK\x03\x04" + b"\0" * 99, "no_text_file"),
        "noise.txt": (bytes(range(1, 32)) * 9, "unknown_encoding"),
        "wide.txt": (b"\xff\xfe\x00\xd8x", "wrong_encoding"),
        "empty.md": (b"", "empty_file"),
        "photo.jpg": (b"\xff\xd8", "file_kind"),
        f"{'x' * 300}.txt": (b"Hello", "long_file_name"),
    }
    files = [("files", (name, content)) for name, (content, _) in given.items()]
    unread = serve(rag).post("/documents/estimate", files=files).json()["unread"]
    assert {name: one["code"] for name, one in unread.items()} == {
        name: code for name, (_, code) in given.items()
    }
    for one in unread.values():
        check(one["code"], one["values"])


def test_what_may_be_wrong_with_texts_is_said_before_and_after_they_are_indexed(rag, serve):
    damaged = "Müller traf Schäfer in Köln. ".encode() * 20
    given = {
        "guess.txt": ("Müller traf Schäfer in Köln.".encode("cp1252"), "guessed_encoding"),
        "cut.md": (damaged[:-300] + b"\xff" + damaged[-300:], "damaged_utf_8"),
        "scan.pdf": (make_scanned_pdf(["", "Text."], 1), "scanned_pages"),
        "good.txt": (b"Anna met Bert.", ""),
    }
    files = [("files", (name, content)) for name, (content, _) in given.items()]
    client = serve(rag)
    warnings = client.post("/documents/estimate", files=files).json()["warnings"]
    codes = {name: [one["code"] for one in found] for name, found in warnings.items()}
    assert codes == {name: [code] for name, (_, code) in given.items() if code}
    for [one] in warnings.values():
        check(one["code"], one["values"])
        assert one["values"]["file"] in one["text"]
    assert (
        finished(client, client.post("/documents", files=files))["result"]["warnings"] == warnings
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (IndexGoneError("moved"), "index_gone"),
        (CorruptStoreError("damaged"), "store"),
        (SchemaVersionError("old"), "store"),
        (VectorIndexError("refused"), "vector_index"),
    ],
)
def test_an_index_that_cannot_be_used_is_said_by_the_code_of_its_kind(error, code):
    details = Explainer("a.e2g").problem(error).details
    assert (details.type, details.code) == (type(error).__name__, code)
    check(code, details.values)


def test_every_code_of_the_package_has_a_message():
    codes = set()
    for path in {*PACKAGE.rglob("*.py")} - {PACKAGE / "_utils" / "failures.py"}:
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(PACKAGE).as_posix()
        codes |= set(re.findall(r'(?:CodedText|invalid_input)\(\s*"(\w+)"', text))
        made = re.findall(r'_refusal\(\s*"(\w+)"', text) if name in MADE else []
        codes |= {MADE[name] + code for code in made}
    assert len(codes) > 40
    assert not {code for code in codes if not message("zh", code)}
