"""The OpenAPI description: valid, complete, and true of real answers."""

from __future__ import annotations

import jsonschema
import pytest

from e2graphrag_integrations.server.web import AnswerOptions, WebOptions
from e2graphrag_integrations.server.web.app import ROUTES

pytest.importorskip("openapi_spec_validator")
from openapi_spec_validator import OpenAPIV31SpecValidator


def test_the_description_is_valid_and_answers_match_it(rag, serve):
    client = serve(rag, WebOptions(answers=AnswerOptions("m", api_key="none")))
    description = client.get("/openapi.json").json()
    OpenAPIV31SpecValidator(description).validate()
    described = {
        (method.upper(), path)
        for path, methods in description["paths"].items()
        for method in methods
    }
    assert described == {(method, one.path) for one in ROUTES for method in one.methods}
    assert description["paths"]["/info"]["get"]["security"] == [{"token": []}]
    assert "security" not in description["paths"]["/health"]["get"]
    form = description["paths"]["/documents"]["post"]["requestBody"]["content"]
    fields = form["multipart/form-data"]["schema"]["properties"]
    assert set(fields) == {"files", "on_duplicate", "max_llm_calls"}
    story = ("files", ("a.txt", b"Anna met Bert."))
    top = client.get("/documents/story/tree").json()["nodes"][0]["node_id"]
    question = {"question": "Who gave Anna a map?", "settings": {"paths": True}}
    scored = {**question, "gold": {"ids": ["story"]}}
    evaluation = {
        "questions": [{"question": "Who?", "gold_ids": ["story"]}],
        "settings": {"A": {}},
    }
    calls = [
        ("GET", "/health", "/health", {}),
        ("GET", "/info", "/info", {}),
        ("GET", "/overview", "/overview", {}),
        ("POST", "/retrieve", "/retrieve", {"json": question}),
        ("POST", "/retrieve", "/retrieve", {"json": scored}),
        ("POST", "/retrieve", "/retrieve", {"json": {"question": ""}}),
        ("POST", "/answers/estimate", "/answers/estimate", {"json": question}),
        ("GET", "/documents", "/documents", {}),
        ("GET", "/documents/{id}", "/documents/story", {}),
        ("GET", "/documents/{id}", "/documents/none", {}),
        ("GET", "/documents/{id}/tree", "/documents/story/tree", {}),
        ("GET", "/nodes/{id}/children", f"/nodes/{top}/children", {}),
        ("GET", "/entities", "/entities", {}),
        ("GET", "/entities/{name}", "/entities/anna", {}),
        ("GET", "/entities/{name}/neighborhood", "/entities/anna/neighborhood", {}),
        ("GET", "/path", "/path?source=Anna&target=Bert", {}),
        ("POST", "/edits", "/edits", {"json": {"alias": {"Annie": "Anna"}, "stop": ["Rome"]}}),
        ("POST", "/edits", "/edits", {"json": {"stop": 3}}),
        ("GET", "/edits", "/edits", {}),
        ("POST", "/documents/estimate", "/documents/estimate", {"files": [story]}),
        ("POST", "/documents", "/documents", {"files": [story]}),
        ("POST", "/evaluations", "/evaluations", {"json": evaluation}),
        ("GET", "/jobs", "/jobs", {}),
        ("DELETE", "/documents/{id}", "/documents/story", {}),
    ]
    for method, path, address, arguments in calls:
        answer = client.request(method, address, **arguments)
        responses = description["paths"][path][method.lower()]["responses"]
        response = responses.get(str(answer.status_code), responses["default"])
        assert (answer.status_code < 400) == (str(answer.status_code) in responses), answer.text
        schema = response["content"]["application/json"]["schema"]
        strict = {**schema, "components": description["components"]}
        jsonschema.validate(answer.json(), strict)
        if answer.status_code < 400:
            model = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert set(answer.json()) <= set(model["properties"]), address
