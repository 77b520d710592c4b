"""`e2graphrag mcp`: errors before anything is served."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("mcp")

from e2graphrag_integrations.server import mcp_server, transports


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--allow-host", "x"], "require --transport http"),
        (["--transport", "http", "--host", "0.0.0.0"], "other machines can reach 0.0.0.0"),  # noqa: S104
        (["--transport", "http", "--token-env", "MY_TOKEN"], "names no environment variable"),
        (["--scope", "tenant=a"], "--scope 'tenant=a' is not valid JSON"),
        (["--max-tokens", "100"], "max_tokens=100 must be a whole number from 200 to 100,000"),
    ],
)
def test_bad_options_end_with_one_line(call, book_index, monkeypatch, arguments, message):
    monkeypatch.delenv("E2GRAPHRAG_MCP_TOKEN", raising=False)
    printed = call("mcp", book_index, *arguments)
    assert (printed.code, printed.out) == (2, "")
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_missing_index_and_a_missing_package_are_named(call, book_index, tmp_path, monkeypatch):
    assert "does not exist" in call("mcp", tmp_path / "none.e2g").err
    monkeypatch.setitem(sys.modules, "e2graphrag_integrations.server.mcp_server", None)
    printed = call("mcp", book_index)
    assert printed.code == 2
    assert "pip install 'e2graphrag-integrations[mcp]'" in printed.err


@pytest.mark.parametrize(("document", "total"), [("book.txt", 1), ("other.txt", 0)])
def test_a_scope_hides_the_other_documents(call, book_index, monkeypatch, document, total):
    totals = []
    monkeypatch.setattr(
        mcp_server, "make_server", lambda tools: totals.append(tools.outline().total)
    )
    monkeypatch.setattr(transports, "serve_stdio", lambda _: None)
    scope = json.dumps({"document_id": document})
    assert call("mcp", book_index, "--scope", scope).code == 0
    assert totals == [total]
