"""`Reason`: a text with its code and values, wherever it goes."""

from __future__ import annotations

import copy
import json
import pickle
import re
from pathlib import Path

import pytest

import e2graphrag_integrations as package
from e2graphrag_integrations import (
    HybridStrategy,
    PaperStrategy,
    SourceDocument,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.retrieval.reasons import _SENTENCES, Reason

PAGE = Path(package.__file__).parent / "server" / "web" / "page"

SHOWN_ELSEWHERE = {"route", "why", "entities", "unlinked", "list", "cut", "time", "freshness"}
"""Steps that the page shows in another form."""

FOR_ENGINEERS = {"vectors", "foreign", "specific_words", "no_name", "opened", "refers_back"}
"""Texts that the page does not show, or that are parts of others."""


def test_a_reason_is_a_text_with_a_code_and_values():
    reason = Reason("names", names=("ann", "bob"), name="ann", count=2, total=9)
    assert reason == "the index knows 'ann', 'bob'; 'ann' leads to 2 of 9 chunks"
    assert (reason.code, reason.values["names"]) == ("names", ("ann", "bob"))
    outer = Reason("nothing_passes", rest=reason)
    assert outer == f"no node passes the filter; {reason}"
    assert json.loads(json.dumps([outer])) == [str(outer)]


def test_copies_keep_the_code_and_the_values():
    reason = Reason("rank_in_sentence", list="bridges", rank=1, name="bob", sentence="It's Bob.")
    assert reason == 'bridges: rank 1, through bob, in the sentence "It\'s Bob."'
    pickled = pickle.loads(pickle.dumps(reason))  # noqa: S301 - made here
    for again in (copy.copy(reason), copy.deepcopy(reason), pickled):
        assert again == reason
        assert (again.code, dict(again.values)) == (reason.code, dict(reason.values))


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("strategy", [HybridStrategy(), PaperStrategy(), TreeTraversalStrategy()])
@pytest.mark.parametrize("options", [{}, {"mode": "local"}, {"where": {"x": 1}}, {"fill": True}])
def test_every_reason_and_step_of_the_strategies_has_a_code(open_index, story, strategy, options):
    rag = open_index(strategy=strategy)
    rag.add(story)
    for question in ("Did Anna give Bert the map?", "What of Emil?", "What is it about?"):
        result = rag.retrieve(question, k=9, **options)
        reasons = [one for node in result.nodes for one in node.reasons]
        for one in (*reasons, result.trace.reason, *result.trace.steps()):
            assert isinstance(one, Reason)
            assert one == Reason(one.code, **one.values)


DATED = [
    SourceDocument("v1", "Anna pays the rent.", None, {"valid_from": "2019", "valid_to": "2024"}),
    SourceDocument("v2", "Anna pays all rent.", None, {"valid_from": "2021", "supersedes": "v1"}),
    SourceDocument("bert", "Bert pays rent.", None, {"valid_to": "2030"}),
    SourceDocument("later", "Dina pays rent.", None, {"valid_from": "2040"}),
]


def test_every_reason_of_dates_and_versions_has_a_code_with_its_values(open_index):
    rag = open_index()
    rag.add(DATED)
    found = {as_of: rag.retrieve("Who pays rent?", k=9, as_of=as_of) for as_of in (None, "2022")}
    reasons = {
        (as_of, node.document_id): [one for one in node.reasons if one.code != "rank"]
        for as_of, result in found.items()
        for node in result.nodes
    }
    for result in found.values():
        for one in (*sum((node.reasons for node in result.nodes), ()), result.trace.reason):
            assert one == Reason(one.code, **one.values)
    assert reasons[None, "v1"][-1].values == {"newest": "v2"}
    assert reasons[None, "v2"][-1].values == {"count": 2}
    older, holds = reasons["2022", "v1"][-2:]
    assert (older.code, dict(older.values)) == (
        "superseded_then",
        {"newest": "v2", "date": "2022"},
    )
    assert holds == "holds as of 2022: from 2019 to 2024"
    assert (holds.code, dict(holds.values)) == (
        "holds_between",
        {"date": "2022", "start": "2019", "end": "2024"},
    )
    assert reasons["2022", "v2"][-1].code == "holds_from"
    assert reasons["2022", "v2"][-2] == "newest of 2 versions as of 2022"
    assert reasons["2022", "bert"][-1].code == "holds_to"
    reason = found["2022"].trace.reason
    assert (reason.code, reason.values["count"]) == ("left_out", 1)
    assert isinstance(reason.values["rest"], Reason)


def test_the_page_has_a_sentence_for_every_code_with_the_values_that_it_names():
    text = (PAGE / "messages" / "en.js").read_text(encoding="utf-8")
    found = dict(re.findall(r'^  "because\.(\w+)": (.*),$', text, re.MULTILINE))
    assert _SENTENCES.keys() - SHOWN_ELSEWHERE - FOR_ENGINEERS <= found.keys()
    assert found.keys() - _SENTENCES.keys() == {"quoted", "list_layer"}
    named = re.compile(r"{(\w+)")
    for code in found.keys() & _SENTENCES.keys():
        values = set(named.findall(_SENTENCES[code]))
        more = {"names"} if "text" in values else set()
        assert set(named.findall(found[code].replace("{ one", ""))) <= values | more, code
