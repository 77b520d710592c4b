"""The command `documents tag`, and the tags and boosts of `query`."""

from __future__ import annotations

import json

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument

QUESTION = "What happened?"
TAG = ("documents", "tag")


@pytest.fixture
def tickets(tmp_path, names):
    path = tmp_path / "tickets.e2g"
    with E2GraphRAG.open(path, embedder="hashing") as rag:
        rag.add(
            [
                SourceDocument("paid", "Anna paid by card.", metadata={"day": "2026-01-01"}),
                SourceDocument("sent", "Bert sent a parcel.", metadata={"rank": 900}),
            ]
        )
    return path


def first(call, tickets, *options):
    nodes = call("query", tickets, QUESTION, "--json", *options).json()["nodes"]
    return nodes[0]["document_id"]


def test_tag_sets_prints_and_removes_tags(tickets, call, tmp_path):
    assert call("documents", "tag", tickets, "card", "parcel").out == "1\tcard\n1\tparcel\n"
    assert call("documents", "tag", tickets, "--json").json()["tags"] == {"card": 1, "parcel": 1}
    file = tmp_path / "tags.json"
    tags = ["sea", {"name": "card", "examples": ["He paid."]}]
    file.write_text(json.dumps(tags), encoding="utf-8-sig")  # as some editors save it
    assert call("documents", "tag", tickets, "--file", file, "--json").json()["tags"]["card"] == 1
    assert call("documents", "tag", tickets, "--clear").out == f"{tickets} has no tags\n"


def test_queries_use_tags_and_boosts(tickets, call):
    call("documents", "tag", tickets, "card", "parcel")
    for id_, tag in (("paid", "card"), ("sent", "parcel")):
        assert first(call, tickets, "--tag", tag) == id_
        assert first(call, tickets, "--boost-tag", f"{tag}=900") == id_
        assert first(call, tickets, "--boost-document", f"{id_}=900") == id_
    assert first(call, tickets, "--boost-field", "rank", "--boost-scale", "linear") == "sent"
    recency = ("--boost-half-life-days", "9", "--boost-date-field", "day", "--boost-now")
    printed = call("query", tickets, QUESTION, "--explain", *recency, "2026-01-10").out
    assert "half_life_days=9.0" in printed
    assert "boost 1.5 (recency of day 1.5)" in printed
    assert "tags: card" in printed


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["query"], QUESTION, "--boost-tag", "card"), "must be NAME=WEIGHT"),
        ((["query"], QUESTION, "--boost-tag", "card=nan"), "nan must be a number"),
        (
            (["query"], QUESTION, "--boost-tag", "card=2", "--boost-tag", "card=3"),
            "'card' is given twice",
        ),
        ((["query"], QUESTION, "--boost-tag", "sea=2"), "unknown tag 'sea'"),
        ((["query"], QUESTION, "--tag", "sea"), "unknown tag 'sea'"),
        (
            (["query"], QUESTION, "--boost-date-field", "day"),
            "--boost-date-field and --boost-now have no effect without --boost",
        ),
        ((["query"], QUESTION, "--boost-half-life-days", "0"), "--boost-half-life-days 0"),
        ((TAG, "card", "Card"), "'card' and 'Card'"),
        ((TAG, "card", "card"), "'card' and 'card'"),
        ((TAG, "card", "--clear"), "--clear removes all tags"),
        ((TAG, "--file", "missing.json"), "missing.json cannot be read"),
    ],
)
def test_invalid_input_exits_with_a_message(tickets, call, arguments, message):
    command, *rest = arguments
    result = call(*command, tickets, *rest)
    assert result.code == 2
    assert message in result.err


def test_a_file_must_contain_a_list(tickets, call, tmp_path):
    file = tmp_path / "tags.json"
    file.write_text('{"card": []}')
    assert "must contain a JSON list" in call("documents", "tag", tickets, "--file", file).err
