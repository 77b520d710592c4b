"""Enrichment on the command line: `index --enrich-model` and `indexes enrich`."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer
from enrichers import DOCUMENTS, ToldLLM

MODEL = ["--enrich-model", "m", "--enrich-base-url", "http://127.0.0.1:9"]
RENT = "What is the annual rent?"


@pytest.fixture
def llm(monkeypatch):
    """A model that answers in place of the server."""
    llm = ToldLLM()

    def summarize(self, texts, *, level, max_tokens):
        assert (self.model, level) == ("m", 0)
        return llm(self.prompt(texts, level=level, max_tokens=max_tokens))

    monkeypatch.setattr(OpenAISummarizer, "summarize", summarize)
    return llm


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for one in DOCUMENTS:
        (folder / f"{one.id}.txt").write_text(one.text, encoding="utf-8")
    return folder


def test_files_are_enriched_while_they_are_indexed(folder, tmp_path, call, llm):
    out = tmp_path / "a.e2g"
    command = ["index", folder, "--out", out, "--embedder", "hashing", *MODEL]
    estimate = call(*command, "--estimate", "--json").json()
    assert (estimate["llm_calls"], estimate["chunk_calls"]["summaries"], llm.calls) == (3, 3, 0)
    code, text, _ = call(*command, "--estimate")
    assert (code, "3 chunks to enrich, 3 LLM calls\n" in text) == (0, True)
    assert "LLM calls: 3\n" in text
    code, _, err = call(*command, "--max-llm-calls", "2")
    assert (code, "--max-llm-calls" in err) == (2, True)
    assert call(*command, "--max-llm-calls", "3", "--json").json()["llm_calls"] == 3
    code, text, _ = call("query", out, RENT, "-k", "1", "--explain")
    assert (code, "lease.txt" in text, f"enrichment: nearer than the text is '{RENT}'" in text) == (
        *(0, True, True),
    )


def test_an_update_enriches_the_changed_files(folder, tmp_path, call, llm):
    out = tmp_path / "a.e2g"
    assert call("index", folder, "--out", out, "--embedder", "hashing").code == 0
    (folder / "new.txt").write_text("Zoe painted the lighthouse of Oslo.", encoding="utf-8")
    update = ["documents", "update", out, folder, *MODEL]
    assert call(*update, "--estimate", "--json").json()["llm_calls"] == 1
    assert call(*update, "--json").json()["llm_calls"] == 1
    assert llm.calls == 1


@pytest.mark.parametrize("command", ["resume", "work"])
def test_the_queue_is_enriched_like_given_files(command, folder, tmp_path, call, llm):
    out = tmp_path / "a.e2g"
    assert call("index", folder, "--out", out, "--embedder", "hashing", "--no-wait").code == 0
    report = call("documents", command, out, *MODEL, "--json").json()
    assert (report["documents"], report["llm_calls"], llm.calls) == (3, 3, 3)


def test_an_index_is_enriched_and_the_enrichment_removed(folder, tmp_path, call, llm):
    out = tmp_path / "a.e2g"
    assert call("index", folder, "--out", out, "--embedder", "hashing").code == 0
    before = call("query", out, RENT, "--json").json()["nodes"]
    assert call("indexes", "enrich", out, *MODEL, "--estimate", "--json").json()["llm_calls"] == 3
    code, text, _ = call("indexes", "enrich", out, *MODEL)
    assert (code, text.startswith(f"{out}: 3 chunks enriched, 3 LLM calls, ")) == (0, True)
    assert call("query", out, RENT, "--json").json()["nodes"] != before
    assert call("indexes", "enrich", out, "--remove").out == (
        f"{out}: 3 chunks are no longer enriched\n"
    )
    assert call("query", out, RENT, "--json").json()["nodes"] == before
    assert llm.calls == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "either --enrich-model NAME or --remove"),
        ([*MODEL, "--remove"], "either --enrich-model NAME or --remove"),
        (["--remove", "--enrich-base-url", "http://x"], "require --enrich-model"),
        (["--remove", "--estimate"], "nothing to --estimate"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(index, call, options, problem):
    code, _, err = call("indexes", "enrich", index, *options)
    assert (code, problem in err) == (2, True)
