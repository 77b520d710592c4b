"""`e2graphrag serve`: errors before anything is served, and the clients that the options make."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.server import web
from web_jobs import finished

TOKEN = "0123456789abcdef"  # noqa: S105 - of the tests


@pytest.fixture(autouse=True)
def _no_token(monkeypatch):
    monkeypatch.delenv("E2GRAPHRAG_SERVE_TOKEN", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "other machines can reach 0.0.0.0"),  # noqa: S104
        (["--token-env", "MY_TOKEN"], "names no environment variable"),
        (["--tokens", "none.toml"], "the tokens none.toml cannot be read"),
        (["--port", "70000"], "port=70000"),
        (["--allow-host", "http://x"], "is not the name of a host"),
        (["--scope", "tenant=a"], "--scope"),
        (["--llm-base-url", "http://x"], "require --llm-model"),
        (["--answer-base-url", "http://x"], "require --answer-model"),
        (["--answer-max-tokens", "9"], "require --answer-model"),
        (["--answer-model", "m"], "OPENAI_API_KEY contains no API key"),
        (["--answer-model", "m", "--answer-base-url", "x", "--answer-max-tokens", "0"], "max_tok"),
    ],
)
def test_bad_options_end_with_one_line(call, book_index, arguments, message):
    printed = call("serve", book_index, *arguments)
    assert (printed.code, printed.out) == (2, "")
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_missing_index_and_a_missing_package_are_named(call, book_index, tmp_path, monkeypatch):
    for option in (["--read-only"], ["--scope", '{"tenant": "a"}']):
        missing = call("serve", tmp_path / "none.e2g", *option)
        assert (missing.code, "does not exist" in missing.err) == (2, True)
    assert "there is no folder" in call("serve", tmp_path / "none" / "none.e2g").err
    assert list(tmp_path.glob("none*")) == []
    monkeypatch.setitem(sys.modules, "e2graphrag_integrations.server.web", None)
    printed = call("serve", book_index)
    assert printed.code == 2
    assert "pip install 'e2graphrag-integrations[serve]'" in printed.err


def test_tokens_scope_and_rights_reach_the_server(call, book_index, tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(web, "serve", lambda *arguments: served.append(arguments))
    monkeypatch.setenv("E2GRAPHRAG_SERVE_TOKEN", TOKEN)
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[reader]\ntoken = "{TOKEN}-reader"\n')
    monkeypatch.setenv("ANSWER_KEY", "sk-secret-0123456789")
    options = ["--tokens", tokens, "--read-only", "--scope", '{"tenant": "a"}']
    options += ["--answer-model", "m", "--answer-api-key-env", "ANSWER_KEY"]
    options += ["--answer-timeout", "9"]
    hosts = ["--host", "0.0.0.0", "--allow-host", "rag.example.com"]  # noqa: S104
    assert call("serve", book_index, *options, *hosts).code == 0
    [(_, http, web_options, _)] = served
    assert [(one.name, one.write) for one in web_options.clients] == [
        ("token", True),
        ("reader", False),
    ]
    assert "rag.example.com" in web_options.hosts
    assert (web_options.read_only, web_options.where) == (True, {"tenant": "a"})
    answers = web.AnswerOptions("m", None, "sk-secret-0123456789", seconds=9.0)
    assert web_options.answers == answers
    assert http.host == "0.0.0.0"  # noqa: S104


def test_a_missing_file_becomes_an_empty_index_and_this_is_said(call, tmp_path, monkeypatch):
    served = []

    def look(rag, *_):
        served.append((rag.status(), rag.path))

    monkeypatch.setattr(web, "serve", look)
    path = tmp_path / "new.e2g"
    printed = call("serve", path)
    assert (printed.code, printed.out) == (0, "")
    assert printed.err == f"created {path}, a new index without documents: add them in the page\n"
    assert served == [([], str(path))]
    again = call("serve", path)
    assert (again.code, again.err, len(served)) == (0, "", 2)


def test_a_new_file_is_removed_if_the_server_cannot_start(call, tmp_path, monkeypatch):
    def fail(*_):
        raise InvalidInputError("the port is taken")

    monkeypatch.setattr(web, "serve", fail)
    assert call("serve", tmp_path / "new.e2g").code == 2
    assert list(tmp_path.glob("new*")) == []


@pytest.mark.slow
def test_documents_are_uploaded_to_a_new_index(call, tmp_path, monkeypatch):
    def upload(rag, _, options, __):
        with TestClient(web.make_app(rag, options), base_url="http://localhost") as client:
            assert client.get("/overview").json()["documents"] == 0
            assert not client.get("/info").json()["read_only"]
            files = [("files", ("a.txt", b"Anna met Bert in Oslo."))]
            job = finished(client, client.post("/documents", files=files))
            assert (job["state"], job["result"]["documents"]) == ("done", 1), job

    monkeypatch.setattr(web, "serve", upload)
    printed = call("serve", tmp_path / "new.e2g")
    assert printed.code == 0, printed.err
