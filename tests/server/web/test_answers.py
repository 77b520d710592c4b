"""The answers of the API: questions, documents, the description of the index, the page."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from e2graphrag_integrations import SourceDocument
from fakes import STORY

QUESTION = "Who gave Anna a map?"


def test_an_answer_has_the_nodes_their_ranks_and_the_gold_marks(rag, serve):
    client = serve(rag)
    settings = {
        "k": 2,
        "paths": True,
        "bm25_weight": 0.5,
        "boosts": {"documents": {"story": 2}},
        "history": [{"role": "user", "content": "Who is Emil?"}],
    }
    gold = {"spans": [{"document_id": "story", "start": 24, "end": 40}], "answers": ["Bert"]}
    answer = client.post(
        "/retrieve", json={"question": QUESTION, "settings": settings, "gold": gold}
    ).json()
    first = answer["nodes"][0]
    assert len(answer["nodes"]) == 2
    assert first["gold"] is True
    assert first["factor"] == 2
    assert first["ranks"]["relevance"] == 1
    assert set(answer["scores"]) == {"span_recall", "answer_in_context"}
    assert answer["context"]
    assert all(path["hops"] for path in answer["paths"])
    for node in answer["nodes"]:
        for piece in node["pieces"]:
            if node["level"] == 0:
                assert STORY[piece["start"] : piece["end"]] == piece["text"]
            best = node["best"]
            assert (
                best is None
                or piece["end"] <= best["start"]
                or piece["start"] >= best["end"]
                or best["start"] <= piece["start"] < piece["end"] <= best["end"]
            )


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"question": " "}, "question is empty"),
        ({}, "question: Field required"),
        ({"question": QUESTION, "k": 3}, "k: there is no such field: use question, settings, gold"),
        ({"question": "x" * 40_000}, "at most 32000 characters"),
        ({"question": QUESTION, "settings": {"k": 10**6}}, "above the limit of the server, 200"),
        ({"question": QUESTION, "settings": {"k": "5"}}, "k='5' must be a whole number"),
        ({"question": QUESTION, "settings": {"bm25_weigt": 1}}, "did you mean 'bm25_weight'"),
        ({"question": QUESTION, "settings": {"strategy": "none"}}, "strategy"),
        ({"question": QUESTION, "settings": {"where": {"$no": 1}}}, "$no"),
        ({"question": QUESTION, "settings": {"history": "Anna"}}, "history='Anna' must be a list"),
        ({"question": QUESTION, "settings": {"reranker": "x"}}, "reranker"),
        ({"question": QUESTION, "gold": {"ids": ["nowhere"]}}, "unknown gold id 'nowhere'"),
        ({"question": QUESTION, "gold": {"spans": [{"start": 1}]}}, "gold.spans.0.document_id"),
    ],
)
def test_bad_questions_are_refused_with_the_reason(rag, serve, body, message):
    answer = serve(rag).post("/retrieve", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"question": "Anna", "question": "Bert"}', "the field 'question' of a JSON object"),
        ('{"question": "Anna", "settings": {"k": 1, "k": 2}}', "the field 'k' of a JSON object"),
        ('{"question": "Anna", "settings": {"k": NaN}}', "NaN, which is not a number"),
        ('{"question": "Anna"', "the JSON of the request is not valid"),
        ('{"a": ' * 9_000, "the JSON of the request is nested too deeply"),
        (f"[{'{},' * 100_000}{{}}]", "lists and objects"),
    ],
    ids=["repeated", "repeated inside", "no number", "cut", "deep", "many"],
)
def test_json_that_is_ambiguous_or_invalid_is_refused(rag, serve, body, message):
    headers = {"Content-Type": "application/json"}
    answer = serve(rag).post("/retrieve", content=body, headers=headers)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_reasons_and_steps_have_codes_values_and_sentences(rag, serve):
    body = {"question": "Did Anna give Bert the map?", "settings": {"where": {"no": 1}}}
    answer = serve(rag).post("/retrieve", json=body).json()
    reason = answer["reason"]
    assert (reason["code"], reason["values"]["rest"]["code"]) == ("nothing_passes", "nothing_known")
    assert reason["text"].startswith("no node passes the filter; the index knows no ")
    assert answer["explain"] == "\n".join(one["text"] for one in answer["steps"])
    found = serve(rag).post("/retrieve", json={"question": QUESTION}).json()["nodes"][0]
    assert found["reasons"][0] == {
        "code": "rank",
        "values": {"list": "relevance", "rank": 1},
        "text": "relevance: rank 1",
    }


@pytest.mark.parametrize(
    ("question", "language"),
    [(QUESTION, ""), ("谁给了安娜地图", "zh"), ("Wer war die Frau?", "de")],
)
def test_the_language_of_a_question_is_told_if_no_document_has_it(rag, serve, question, language):
    answer = serve(rag).post("/retrieve", json={"question": question}).json()
    assert answer["foreign_language"] == language
    assert ("no document is" in answer["explain"]) == bool(language)


@pytest.mark.parametrize(
    ("path", "code", "values"),
    [
        ("/documents/nowhere", "unknown_document", {"id": "nowhere"}),
        ("/nodes/nowhere/children", "unknown_node", {}),
        ("/entities/Xenia", "unknown_entity", {"entity": "Xenia", "names": []}),
        ("/jobs/none", "unknown_job", {}),
        ("/nowhere", "not_found", {}),
    ],
)
def test_an_error_has_a_code_and_values(rag, serve, path, code, values):
    error = serve(rag).get(path).json()["error"]
    assert (error["code"], error["values"]) == (code, values)


def test_a_setting_above_a_limit_is_named(rag, serve):
    body = {"question": QUESTION, "settings": {"k": 10**6}}
    error = serve(rag).post("/retrieve", json=body).json()["error"]
    assert (error["code"], error["values"]) == ("above_limit", {"name": "k", "most": 200})


def test_documents_are_listed_in_pages_and_their_texts_in_parts(open_index, serve):
    rag = open_index()
    name = "a/b c#1?%.txt"
    rag.add([SourceDocument(name, STORY, title="A Map"), SourceDocument("zoo", STORY)])
    client = serve(rag)
    page = client.get("/documents?limit=1").json()
    assert (page["total"], len(page["items"]), page["counts"]["done"]) == (2, 1, 2)
    assert page["items"][0]["id"] == name
    assert client.get("/documents?search=MAP").json()["total"] == 1
    assert client.get("/documents?status=failed").json()["total"] == 0
    part = client.get(f"/documents/{quote(name, safe='')}?start=5&end=9").json()
    assert (part["text"], part["length"], part["title"]) == (STORY[5:9], len(STORY), "A Map")


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/documents/nowhere", 404, "no document 'nowhere' in the index"),
        ("/documents/story?start=9999", 400, "start"),
        ("/documents/%ff", 400, "UTF-8"),
        ("/documents?limit=0", 400, "limit: Input should be greater than or equal to 1"),
        ("/documents?limit=501", 400, "limit: Input should be less than or equal to 500"),
        ("/documents?limit=x", 400, "limit: Input should be a valid integer"),
        ("/documents?limit=1&limit=2", 400, "limit is given twice"),
        ("/documents?ofset=1", 400, "unknown parameter 'ofset': use offset"),
        ("/documents?status=lost", 400, "status: Input should be 'pending', 'processing'"),
        ("/documents?offset=99999999999999999999", 400, "offset"),
        (f"/documents?search={'x' * 4_001}", 400, "at most 4000 characters"),
        ("/info?offset=1", 400, "unknown parameter 'offset': there are none"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_bad_addresses_are_refused_with_the_reason(rag, serve, path, status, message):
    answer = serve(rag).get(path)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


def test_an_address_without_its_parameters_or_of_a_head_is_answered(rag, serve):
    client = serve(rag)
    missing = client.get("/edge").json()["error"]["message"]
    assert missing == "source: Field required; target: Field required"
    for path in ("/health", "/documents", "/"):
        assert client.head(path).status_code == 200
    for path in ("/docs", "/redoc"):  # these pages of FastAPI load scripts from the network
        assert client.get(path).status_code == 404


def test_the_index_is_described(rag, serve):
    info = serve(rag).get("/info").json()
    assert info["stats"]["documents"] == 1
    assert info["strategies"] == ["hybrid", "paper", "tree"]
    assert info["defaults"]["parameters"]["hybrid"]["bm25_weight"] == 1
    assert (info["read_only"], info["token_required"], info["scope"]) == (False, False, None)
    assert not info["has_llm"]
    assert ".pdf" in info["upload"]["suffixes"]


def test_the_page_and_its_files_are_served_with_security_headers(rag, serve):
    client = serve(rag)
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "unsafe" not in page.headers["content-security-policy"]
    script = client.get("/page/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["x-content-type-options"] == "nosniff"
    assert client.get("/info").headers["cache-control"] == "no-store"
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page/"):
        assert client.get(path).status_code == 404
