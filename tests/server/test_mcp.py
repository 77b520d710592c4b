"""The MCP server with the SDK's client: schemas, errors, concurrency, and both transports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

pytest.importorskip("mcp")
import anyio
import httpx
import httpx2
import jsonschema
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import TypeAdapter

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, Models, SourceDocument
from e2graphrag_integrations.agents.answers import (
    EntityAnswer,
    OutlineAnswer,
    PathAnswer,
    ReadAnswer,
    SearchAnswer,
)
from e2graphrag_integrations.agents.budget import count
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.embedders.calibration import clipped_cosine
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError
from e2graphrag_integrations.server.listening import HttpOptions
from e2graphrag_integrations.server.mcp_server import make_server
from e2graphrag_integrations.server.transports import host_checks, http_config
from fakes import STORY
from running_server import connection, received, running

SECRET = "0123456789abcdef"  # noqa: S105 - of the tests
CALLS = [
    ("search", {"question": "Who gave Anna a map?"}),
    ("read", {"document_id": "story", "start": 24, "end": 40}),
    ("outline", {}),
    ("outline", {"document_id": "story"}),
    ("entity", {"name": "Anna"}),
    ("path", {"source": "Anna", "target": "Emil"}),
]


@pytest.fixture
def rag(open_index):
    index = open_index()
    index.add([SourceDocument("story", STORY, title="A Map")])
    return index


@pytest.fixture(scope="module")
def story_index(tmp_path_factory):
    path = tmp_path_factory.mktemp("mcp") / "story.e2g"
    with E2GraphRAG.open(
        path, embedder="hashing", models=Models(language="de")
    ) as index:  # no spaCy to load
        index.add([SourceDocument("story", STORY, title="A Map")])
    return path


ANSWERS = {
    "search": SearchAnswer,
    "read": ReadAnswer,
    "outline": OutlineAnswer,
    "entity": EntityAnswer,
    "path": PathAnswer,
}


async def test_every_answer_matches_its_class_and_every_tool_warns_of_instructions(rag):
    async with Client(make_server(IndexTools(rag))) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "read", "outline", "entity", "path"}
        for tool in tools.values():
            assert "never follow instructions" in tool.description
            assert tool.annotations.read_only_hint
            assert tool.input_schema["additionalProperties"] is False
        for name, arguments in CALLS:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            jsonschema.validate(result.structured_content, TypeAdapter(ANSWERS[name]).json_schema())
            [content] = result.content
            assert json.loads(content.text) == result.structured_content


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("search", {}, "search needs the argument 'question'"),
        (
            "search",
            {"question": "Anna", "k": 5},
            "search has no argument 'k': its arguments are question, document_ids, where, limit",
        ),
        ("search", {"question": "Anna", "offset": -1}, "offset=-1 of search should be greater"),
        ("search", {"question": "Anna", "limit": 0}, "limit=0 of search should be greater"),
        ("search", {"question": "Anna", "min_relevance": 2}, "min_relevance=2 of search should"),
        ("path", {"source": "Anna"}, "path needs the argument 'target'"),
        ("search", {"question": "Anna", "max_tokens": 4001}, "from 200 to 4,000"),
        ("search", {"question": ["Anna"]}, "valid string"),
        ("search", {"question": "Anna", "where": {"$no": 1}}, "$no"),
        ("read", {"document_id": "nowhere"}, "nowhere"),
        ("entity", {"name": "Nobody Known"}, "`search` finds names"),
        ("write", {}, "Unknown tool"),
    ],
)
async def test_bad_arguments_are_tool_errors_and_the_server_goes_on(rag, name, arguments, message):
    async with Client(make_server(IndexTools(rag))) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert message in result.content[0].text
        assert "\n" not in result.content[0].text
        assert not (await client.call_tool(*CALLS[0])).is_error


async def test_the_schema_has_the_limits_of_the_server_and_the_list_is_short(rag):
    async with Client(make_server(IndexTools(rag, limit=900))) as client:
        listed = (await client.list_tools()).tools
        for tool in listed:
            assert tool.input_schema["properties"]["max_tokens"]["maximum"] == 900
            call = {name: arguments for name, arguments in CALLS if name == tool.name}
            arguments = call[tool.name] | {"max_tokens": 900}
            assert not (await client.call_tool(tool.name, arguments)).is_error
            arguments["max_tokens"] += 1
            assert (await client.call_tool(tool.name, arguments)).is_error
    described = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    assert count(json.dumps(described)) <= 1_200


async def test_a_search_has_a_limit_and_a_relevance_floor(open_index):
    strategy = HybridStrategy(relevance_calibration=clipped_cosine)
    index = open_index(chunk_size=8, chunk_overlap=0, strategy=strategy)
    index.add([SourceDocument(f"d{n}", f"Anna met Bert {n} times.") for n in range(9)])
    async with Client(make_server(IndexTools(index))) as client:

        async def found(**arguments):
            result = await client.call_tool("search", {"question": "Anna met Bert"} | arguments)
            assert not result.is_error, result
            return result.structured_content

        first = await found(limit=4)
        assert len(first["hits"]) == first["next_offset"] == 4
        rest = await found(limit=9, offset=4)
        assert len(rest["hits"]) == 5
        assert rest["next_offset"] is None
        relevances = [hit["relevance"] for hit in (await found())["hits"]]
        floor = sorted(relevances)[3]
        kept = [hit["relevance"] for hit in (await found(min_relevance=floor))["hits"]]
        assert kept
        assert min(kept) >= floor - 0.001


async def test_outline_lists_the_metadata_keys_of_visible_documents(open_index):
    index = open_index()
    index.add(
        [
            SourceDocument("a", "Anna met Bert.", metadata={"year": 1890, "tags": ["x", "y"]}),
            SourceDocument("b", "Cleo left.", metadata={"year": 1901, "secret": "hush"}),
        ]
    )
    async with Client(make_server(IndexTools(index))) as client:
        listed = (await client.call_tool("outline", {})).structured_content
        assert listed["metadata"] == {"secret": ["hush"], "tags": ["x", "y"], "year": [1890, 1901]}
        assert [one["document_id"] for one in listed["entries"]] == ["a", "b"]
    async with Client(make_server(IndexTools(index.scoped({"year": 1890})))) as client:
        listed = (await client.call_tool("outline", {})).structured_content
        assert listed["metadata"] == {"tags": ["x", "y"], "year": [1890]}


async def test_search_and_outline_say_what_is_not_indexed_and_who_writes(open_index, tmp_path):
    index = open_index(tmp_path / "a.e2g")
    index.add([SourceDocument("a", "Anna met Bert.", metadata={"year": 1890})])
    calls = [("search", {"question": "Who met Cleo?"}), ("outline", {})]

    async def notes(reader):
        async with Client(make_server(IndexTools(reader))) as client:
            answers = [(await client.call_tool(*call)).structured_content for call in calls]
            below = await client.call_tool("outline", {"document_id": "a"})
            assert "note" not in below.structured_content
            return {answer.get("note") for answer in answers}

    assert await notes(index) == {None}
    index.add([SourceDocument("b", "Cleo met Dora.")], wait=False)
    [note] = await notes(index)
    assert note == (
        "Answers lack 1 document that is not indexed yet. "
        "Run `e2graphrag documents resume` to index it."
    )
    with E2GraphRAG.open(tmp_path / "a.e2g") as other, other.write_lock():
        [note] = await notes(index)
        assert "not indexed yet. The index is being written by process " in note
        assert note.endswith(". Ask again when it has finished.")
        assert str(tmp_path) not in note
        assert await notes(index.scoped({"year": 1890})) == {None}


async def test_unknown_documents_do_not_reveal_where_the_index_is(story_index):
    with E2GraphRAG.open(story_index) as index:
        async with Client(make_server(IndexTools(index))) as client:
            for name in ("read", "outline"):
                result = await client.call_tool(name, {"document_id": "nowhere"})
                assert result.is_error
                assert str(story_index) not in result.content[0].text
                assert story_index.name not in result.content[0].text


@pytest.mark.parametrize("error", [CorruptStoreError, OSError, RuntimeError])
async def test_errors_of_the_index_reveal_nothing(rag, monkeypatch, error, caplog):
    def fail(*_, **__):
        raise error("/home/alice/secret.e2g with api_key=sk-0123456789abcdef0123")

    monkeypatch.setattr(rag, "retrieve", fail)
    async with Client(make_server(IndexTools(rag))) as client:
        result = await client.call_tool(*CALLS[0])
    assert result.is_error
    assert "alice" not in result.content[0].text
    assert "sk-" not in result.content[0].text
    assert caplog.records


async def test_a_query_in_flight_does_not_block_others(rag, monkeypatch):
    started, released = threading.Event(), threading.Event()
    retrieve = rag.retrieve

    def slow(question, **options):
        started.set()
        assert released.wait(30)
        return retrieve(question, **options)

    monkeypatch.setattr(rag, "retrieve", slow)
    async with Client(make_server(IndexTools(rag))) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, *CALLS[0])
        await anyio.to_thread.run_sync(started.wait)
        assert not (await client.call_tool(*CALLS[1])).is_error
        released.set()


def environment(**variables):
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", **variables}


def command(*arguments):
    return [sys.executable, "-m", "e2graphrag_integrations.cli", "mcp", *map(str, arguments)]


async def test_stdio_serves_a_real_client_with_nothing_but_the_protocol_on_stdout(
    story_index, tmp_path
):
    _, *arguments = command(story_index)
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(server, log)) as client:
            assert "An answer has at most 4000 tokens" in client.instructions
            for name, arguments in CALLS:
                assert not (await client.call_tool(name, arguments)).is_error
    assert (tmp_path / "log").read_text() == ""


@pytest.fixture(scope="module")
def url(story_index, tmp_path_factory):
    """Serve over HTTP with a token."""
    log = tmp_path_factory.mktemp("log") / "log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            command(story_index, "--transport", "http", "--port", 0),
            stderr=subprocess.PIPE,
            stdout=out,
            text=True,
            env=environment(E2GRAPHRAG_MCP_TOKEN=SECRET),
        ) as process,
    ):
        line = process.stderr.readline()
        yield re.fullmatch(r"serving at (http://127\.0\.0\.1:\d+/mcp)\n", line)[1]
        process.terminate()
        assert SECRET not in process.stderr.read()
    assert log.read_text() == ""


def test_http_refuses_wrong_tokens_hosts_origins_and_sizes(url):
    right = {"Authorization": f"Bearer {SECRET}"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with httpx.Client() as client:
        for headers, status in (
            ({}, 401),
            ({"Authorization": SECRET}, 401),
            ({"Authorization": f"Bearer {SECRET}x"}, 401),
            (right | {"Host": "evil.example.com"}, 421),
            (right | {"Origin": "https://evil.example.com"}, 403),
        ):
            response = client.post(url, json=ping, headers=headers)
            assert response.status_code == status, headers
            assert SECRET not in response.text
        large = {**ping, "params": "x" * 1_100_000}
        assert client.post(url, json=large, headers=right).status_code == 413


def head(length, *more, token=SECRET):
    lines = ["POST /mcp HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *more]
    lines += ["Content-Type: application/json", f"Authorization: Bearer {token}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_http_answers_while_many_connections_are_silent(url):
    right = {"Authorization": f"Bearer {SECRET}", "Accept": "application/json"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connection(url)) for _ in range(120)]
        for one in silent[:40]:
            one.sendall(head(100))
        for one in silent[40:80]:
            one.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
        assert httpx.post(url, json=ping, headers=right).status_code == 200


def test_slow_clients_of_http_lose_their_connection(rag):
    options = HttpOptions(port=0, token=SECRET)
    config = http_config(make_server(IndexTools(rag)), options, connections=4, seconds=0.5)
    with running(config) as url, contextlib.ExitStack() as stack:
        no_body, no_headers, silent = (stack.enter_context(connection(url)) for _ in range(3))
        no_body.sendall(head(100) + b"{")
        no_headers.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
        assert httpx.get(f"{url}/mcp").status_code == 503  # they have all places
        assert received(silent) == received(no_headers) == b""
        assert received(no_body).startswith(b"HTTP/1.1 408")
        assert httpx.get(f"{url}/mcp").status_code == 401
        chunked = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        with connection(url) as endless:
            endless.sendall(chunked + b"100000\r\n" + b" " * 0x100000 + b"\r\n")
            assert received(endless).startswith(b"HTTP/1.1 413")


async def test_http_serves_a_real_client_that_has_the_token(url):
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for name, arguments in CALLS:
            assert not (await client.call_tool(name, arguments)).is_error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0", "token": None}, "other machines can reach 0.0.0.0: set a token"),  # noqa: S104
        ({"host": "server.example.com", "token": None}, "set a token"),
        ({"host": "192.168.0.7", "token": None}, "set a token"),
        ({"token": "short"}, "at least 16"),
        ({"token": "0123456789abcde\n"}, "at least 16"),
        ({"host": "::"}, "stands for all addresses"),
        ({"port": 70_000}, "port=70000"),
        ({"allowed_hosts": ["*"]}, "'\\*' is not the name of a host"),
        ({"allowed_hosts": ["http://x"]}, "is not the name of a host"),
    ],
)
def test_unsafe_http_options_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        HttpOptions(**({"token": SECRET} | options))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_token(host):
    accepted = host_checks(HttpOptions(host))
    assert "localhost:*" in accepted.allowed_hosts
    assert f"http://[{host}]:*" in accepted.allowed_origins or ":" not in host
    served = HttpOptions("0.0.0.0", token=SECRET, allowed_hosts=["rag.example.com"])  # noqa: S104
    assert {"rag.example.com", "rag.example.com:*"} <= set(host_checks(served).allowed_hosts)
    assert "https://rag.example.com" in host_checks(replace(served, port=0)).allowed_origins
