"""Tokens, sessions, scopes, hosts and origins: who may see and change which part of an index."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from unittest.mock import Mock

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.server import one_worker
from e2graphrag_integrations.server.web import Client, Limits, WebOptions, read_tokens
from e2graphrag_integrations.server.web.app import ROUTES
from e2graphrag_integrations.server.web.problems import Explainer
from fakes import STORY

OWNER = "owner-0123456789abcdef"
READER = "reader-0123456789abcdef"
TENANT = "tenant-0123456789abcdef"
CLIENTS = (
    Client("owner", OWNER, write=True),
    Client("reader", READER),
    Client("tenant", TENANT, {"tenant": "a"}),
)
QUESTION = {"question": "Who met Xanthippe Zarquon in Oslo?"}


def method_of(route):
    [method] = route.methods
    return method


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong-0123456789abcdef"),
        bearer(""),
        bearer(OWNER[:-1]),
        bearer(OWNER + "x"),
        {"Authorization": f"Basic {OWNER}"},
        {"Authorization": OWNER},
        {"Cookie": f"e2graphrag_session={OWNER}"},
    ],
)
def test_requests_without_a_valid_token_are_refused(rag, serve, headers):
    public = {"/health", "/session"}
    assert {route.path for route in ROUTES if route.rights == "public"} == public
    for number, route in enumerate(ROUTES):
        if number % 20 == 0:  # fewer than the guesses that a client has
            client = serve(rag, WebOptions(CLIENTS))
        if route.path not in public:
            path = route.path.replace("{id}", "story").replace("{name}", "anna")
            answer = client.request(method_of(route), path, headers=headers)
            assert answer.status_code == 401, route
            assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/health").status_code == client.get("/").status_code == 200


def test_tokens_that_are_guessed_are_counted(rag, serve):
    client = serve(rag, WebOptions(CLIENTS))
    for _ in range(40):  # right ones are not
        assert client.get("/info", headers=bearer(READER)).status_code == 200
        assert client.post("/session", json={"token": READER}).status_code == 204
    client.cookies.clear()
    statuses = [
        client.get("/info", headers=bearer(f"guess-{number:016}")).status_code
        for number in range(40)
    ]
    assert statuses[:30] == [401] * 30
    assert statuses[-1] == 429
    assert client.get("/info", headers=bearer(READER)).status_code == 200  # from this address, too


def test_a_session_of_the_page_needs_a_token_once(rag, serve):
    client = serve(rag, WebOptions(CLIENTS))
    assert client.post("/session", json={"token": "wrong"}).status_code == 401
    opened = client.post("/session", json={"token": READER})
    assert opened.status_code == 204
    cookie = opened.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert READER not in cookie
    assert client.get("/info").json()["read_only"]
    of_a_proxy = {"Authorization": "Basic YW5uYTpzZWNyZXQ="}
    assert client.get("/info", headers=of_a_proxy).status_code == 200
    assert client.get("/info", headers=bearer("wrong")).status_code == 401
    assert client.delete("/documents/story").status_code == 403
    secure = client.post(
        "/session",
        json={"token": READER},
        headers={"Origin": "https://localhost", "Host": "localhost"},
    )
    assert "Secure" in secure.headers["set-cookie"]
    client.cookies.clear()
    name, _, value = cookie.partition(";")[0].partition("=")
    client.cookies.set(name, value)
    assert client.get("/info").status_code == 200
    assert client.delete("/session").status_code == 204
    assert client.get("/info").status_code == 401


def test_a_session_of_another_port_of_the_host_goes_on(rag, serve):
    clients = [serve(rag, WebOptions(CLIENTS)) for _ in range(2)]
    for one in clients:
        one._cookies = clients[0].cookies  # browsers send the cookies of all ports
        assert one.post("/session", json={"token": READER}).status_code == 204
    assert [one.get("/info").status_code for one in clients] == [200, 200]


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Host": "evil.example"}, "HostError"),
        ({"Host": "evil.example:80"}, "HostError"),
        ({"Host": "localhost.evil.example"}, "HostError"),
        ({"Host": ""}, "HostError"),
        ({"Origin": "https://evil.example"}, "OriginError"),
        ({"Origin": "null"}, "OriginError"),
        ({"Origin": "http://["}, "OriginError"),
        ({"Origin": "http://localhost:3000"}, "OriginError"),
        ({"Sec-Fetch-Site": "cross-site"}, "OriginError"),
        ({"Sec-Fetch-Site": "same-site"}, "OriginError"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "OriginError"),
    ],
)
def test_other_web_pages_reach_nothing(rag, serve, headers, kind):
    client = serve(rag)
    for path in ("/retrieve", "/documents/resume", "/session"):
        answer = client.post(path, json=QUESTION, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, kind)
    if "Sec-Fetch-Mode" not in headers:
        for path in ("/info", "/page/app.js", "/openapi.json", "/metrics"):
            assert client.get(path, headers=headers).status_code == 403


def test_own_requests_links_and_allowed_hosts_are_answered(rag, serve):
    client = serve(rag, WebOptions(hosts=("localhost", "rag.example.com")))
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/retrieve", json=QUESTION, headers=own).status_code == 200
    proxied = {"Host": "rag.example.com:8443", "Origin": "https://rag.example.com:8443"}
    assert client.post("/retrieve", json=QUESTION, headers=proxied).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/health", headers={"Host": "127.0.0.1"}).status_code == 403


def test_rights_depend_on_the_token_and_the_server(rag, serve):
    client = serve(rag, WebOptions(CLIENTS))
    for token in (READER, TENANT):
        for route in ROUTES:
            if route.rights == "write":
                path = route.path.replace("{id}", "story")
                answer = client.request(method_of(route), path, headers=bearer(token))
                assert answer.status_code == 403, route
    assert client.get("/metrics", headers=bearer(TENANT)).status_code == 403
    assert client.get("/metrics", headers=bearer(READER)).status_code == 200
    assert client.delete("/documents/story", headers=bearer(OWNER)).status_code == 200
    closed = serve(rag, WebOptions(CLIENTS, read_only=True))
    assert closed.delete("/documents/story", headers=bearer(OWNER)).status_code == 403
    assert closed.get("/info", headers=bearer(OWNER)).json()["read_only"]


@pytest.fixture
def two_tenants(open_index):
    """An index of two tenants; every word with "zarq" belongs to the other one."""
    index = open_index()
    index.add(
        [
            SourceDocument("own.txt", STORY, "Own Title", {"tenant": "a"}),
            SourceDocument(
                "zarq-id.txt",
                "Xanthippe Zarquon met Anna in Oslo. Zarquon gave Bert a zarqmap.",
                "Zarqtitle of Oslo",
                {"tenant": "b", "zarqkey": "zarqvalue", "source": "/srv/zarq/file.txt"},
            ),
        ]
    )
    index.edit_entities(alias={"Zarqalias": "Anna"})
    index.set_tags([{"name": "travel", "examples": ["met Anna in Oslo"]}])
    return index


def test_a_scoped_token_sees_nothing_of_others_on_any_route(two_tenants, serve):
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    client = serve(two_tenants, WebOptions(CLIENTS))
    other = client.get("/documents/zarq-id.txt/tree", headers=bearer(OWNER)).json()
    [node, *_] = [one["node_id"] for one in other["nodes"]]
    evaluation = {
        "questions": [{"question": "Where is Anna?", "gold_ids": ["own.txt"]}],
        "settings": {"A": {}},
    }
    started = client.post("/evaluations", json=evaluation, headers=bearer(OWNER)).json()
    shown, values = [], {}
    typed = ["zarquon", "zarq-id.txt", "zarqmap", node, started["job_id"], "zarqkey"]
    described = client.get("/openapi.json").json()["paths"]
    for route in ROUTES:
        parameters = described[route.path][method_of(route).lower()].get("parameters", [])
        for word in typed:
            path, query = route.path, {}
            for one in parameters:
                if one["in"] == "path":
                    path = path.replace(f"{{{one['name']}}}", word)
                elif one["name"] == "status":
                    query["status"] = "pending"
                elif one["name"] == "order":
                    query["order"] = "-chunks"
                elif one["schema"].get("type") == "string":
                    query[one["name"]] = word
            bodies = {
                "/retrieve": {
                    "question": f"Who is {word}?",
                    "settings": {"paths": True, "k": 50},
                },
                "/evaluations": {
                    **evaluation,
                    "questions": [{"question": word, "gold_ids": [word]}],
                },
                "/session": {"token": TENANT},
            }
            body = bodies.get(route.path) if route.body_field else None
            headers = bearer(TENANT)
            answer = client.request(
                method_of(route), path, params=query, json=body, headers=headers
            )
            text = answer.text.lower()
            for name in sorted(typed, key=len, reverse=True):  # errors may repeat what was asked
                text = text.replace(name, "")
            shown.append((method_of(route), path, answer.status_code, text))
            values[route.path] = min(values.get(route.path, 999), answer.status_code)
    logging.getLogger().removeHandler(handler)
    assert [one for one in shown if "zarq" in one[-1]] == []
    assert "zarq" not in log.getvalue().lower()
    assert values["/retrieve"] == values["/documents"] == values["/entities"] == 200
    info = client.get("/info", headers=bearer(TENANT)).json()
    assert (info["stats"]["documents"], info["scope"]) == (1, {"tenant": "a"})
    states = [client.get("/state", headers=bearer(one)).json() for one in (TENANT, OWNER)]
    assert [one["version"] != "" for one in states] == [False, True]
    own_view, whole = (
        client.get("/overview", headers=bearer(one)).json() for one in (TENANT, OWNER)
    )
    assert (own_view["documents"], whole["documents"]) == (1, 2)
    assert own_view["chunks"] < whole["chunks"]
    assert own_view["names"] < whole["names"]
    assert own_view["questions"]
    assert "Zarq" in str(whole["questions"])  # so nothing but the scope hides it from the tenant
    jobs = client.get("/jobs", headers=bearer(OWNER)).json()["items"]
    assert len(jobs) > 1  # the owner sees those of the tenant
    own = {one["id"] for one in client.get("/jobs", headers=bearer(TENANT)).json()["items"]}
    assert own < {one["id"] for one in jobs}
    assert started["job_id"] not in own


def test_a_server_can_serve_a_part_of_an_index_only(two_tenants, serve):
    client = serve(two_tenants, WebOptions(where={"tenant": "a"}))
    assert [one["id"] for one in client.get("/documents").json()["items"]] == ["own.txt"]
    assert client.get("/documents/zarq-id.txt").status_code == 404
    assert client.delete("/documents/own.txt").status_code == 403
    assert client.get("/metrics").status_code == 403
    assert client.get("/info").json()["read_only"]


def test_errors_reveal_neither_paths_nor_secrets(open_index, story, serve, tmp_path, caplog):
    rag = open_index(tmp_path / "alices.e2g")
    rag.add([story])
    client = serve(rag)

    def fail(*_, **__):
        raise OSError(f"{tmp_path}/alices.e2g: postgresql://alice:hunter2hunter@host/db")

    missing = client.get("/documents/none").json()["error"]["message"]
    assert missing == "no document 'none' in the index"
    rag.retrieve = fail
    answer = client.post("/retrieve", json=QUESTION)
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "the request failed; see the log of the server"
    assert "hunter2" not in caplog.text
    assert "OSError" in caplog.text
    assert client.get("/info").json()["name"] == "alices"
    for error, status in ((OSError(28, "No space"), 507), (StoreError(str(tmp_path)), 503)):
        rag.retrieve = Mock(side_effect=error)
        answer = client.post("/retrieve", json=QUESTION)
        assert answer.status_code == status
        assert str(tmp_path) not in answer.text


def test_only_paths_are_removed_from_messages():
    message = "/data/story: no document 'a' in the index"
    assert Explainer("/data/story").shown(message) == "the index: no document 'a' in the index"
    for name in ("a", "index"):  # `e2graphrag serve index`, in its folder
        assert Explainer(name).shown(message) == message


TOML = f"""
[alice]
token = "{OWNER}"
write = true

[bob]
token_env = "BOBS_TOKEN"
where = {{ tenant = "a", year = {{ "$gte" = 1890 }} }}
"""


def test_clients_are_read_from_toml_and_json(tmp_path):
    file = tmp_path / "tokens.toml"
    file.write_text(TOML)
    alice, bob = read_tokens(file, {"BOBS_TOKEN": READER})
    assert (alice.name, alice.token, alice.write) == ("alice", OWNER, True)
    assert (bob.token, bob.write) == (READER, False)
    assert bob.where == {"tenant": "a", "year": {"$gte": 1890}}
    assert OWNER not in repr(alice)
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"carol": {"token": TENANT}}))
    assert read_tokens(file)[0] == Client("carol", TENANT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must map names to options"),
        (f'[a]\ntoken = "{OWNER}"\ntoken = "{OWNER}"', "not valid TOML"),
        (f'a = "{OWNER}"', "client 'a' must have options"),
        ('[a]\ntoken = "secret"', "at least 16 ASCII characters"),
        (f'[a]\ntoken = "{OWNER}"\ncolor = 1', "unknown option 'color'"),
        (f'[a]\ntoken = "{OWNER}"\ntoken_env = "X"', "either token or token_env"),
        ('[a]\ntoken_env = "X"', "names no environment variable"),
        (f'[a]\ntoken = "{OWNER}"\nwhere = {{}}', "toml: client 'a': where"),
        (f'[a]\ntoken = "{OWNER}"\nwrite = "yes"', "toml: client 'a': write"),
        (f'[a]\ntoken = "{OWNER}"\nwrite = true\nwhere = {{ t = 1 }}', "cannot write"),
        (f'[a]\ntoken = "{OWNER}"\n[b]\ntoken = "{OWNER}"', "the same token"),
    ],
)
def test_bad_files_of_tokens_are_refused_without_quoting_them(tmp_path, text, message):
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=message) as caught:
        WebOptions(read_tokens(file, {}))
    assert OWNER not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("limits", [{"k": 0}, {"seconds": -1.0}, {"body_bytes": "1"}])
def test_limits_must_be_positive(limits):
    with pytest.raises(InvalidInputError):
        Limits(**limits)


def test_a_request_to_a_second_worker_is_refused(rag, serve, monkeypatch, tmp_path):
    monkeypatch.setattr(one_worker, "bound_addresses", lambda: {"127.0.0.1 8000"})
    monkeypatch.setattr(one_worker, "_WAIT", 0.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client = serve(rag)
    client.app.state.service.worker = one_worker.OneWorker("a.e2g")
    other = one_worker.OneWorker("a.e2g")
    assert asyncio.run(other.is_only())
    for file in tmp_path.glob("*.pid"):
        file.write_text("1")
    answer = client.get("/info")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "second_worker")
    other.close()
    assert client.get("/info").status_code == 200
