"""`e2graphrag demo --serve`: the index, and then its page."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("starlette")

from e2graphrag_integrations.cli.demo import Demo
from e2graphrag_integrations.server import web


@pytest.mark.slow
def test_demo_opens_the_page_of_its_index(call, tmp_path, monkeypatch):
    chapter = tmp_path / "chapter.txt"
    chapter.write_text("Filby met Weena. Weena gave Filby a flower.")
    monkeypatch.setattr(Demo, "path", lambda _: chapter)
    monkeypatch.delenv("E2GRAPHRAG_SERVE_TOKEN", raising=False)
    served = []
    monkeypatch.setattr(
        web, "serve", lambda rag, http, *_: served.append((rag.document_ids, http.port))
    )
    path, options = tmp_path / "demo.e2g", ["--embedder", "hashing"]
    printed = call("demo", "--out", path, *options, "--serve", "--port", "0")
    assert printed.code == 0, printed.err
    assert "Step 2 of 3" in printed.out
    assert "===" not in printed.out  # the questions are asked in the page
    assert served == [(["the_time_machine.txt"], 0)]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["/some where/bin/e2graphrag", "demo"])
    last = call("demo", "--out", path, *options).out.splitlines()[-1]
    assert last == f"See it in the browser: '/some where/bin/e2graphrag' serve {path}"


def test_options_that_cannot_work_are_refused_before_indexing(call, tmp_path, monkeypatch):
    path = tmp_path / "demo.e2g"
    assert "--port requires --serve" in call("demo", "--out", path, "--port", "9").err
    monkeypatch.setitem(sys.modules, "e2graphrag_integrations.server.web", None)
    missing = call("demo", "--out", path, "--serve")
    assert (missing.code, "[serve]" in missing.err) == (2, True)
    assert not path.exists()
