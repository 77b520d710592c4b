"""The command `index`."""

from __future__ import annotations

import io
import sys

import pytest

from cli_helpers import (
    ALICE,
    FORBIDDEN,
    QUEEN,
    SHIP,
    SMALL_CHUNKS,
    TEA_PARTY,
    FakeSummarizer,
    edit_texts,
    metadata_of,
)
from e2graphrag_integrations import E2GraphRAG, ExtractiveSummarizer, SourceDocument
from e2graphrag_integrations.cli import models
from e2graphrag_integrations.cli.models import make_summarizer
from e2graphrag_integrations.entities.spacy_extractor import BUNDLED_PIPELINE


def test_index_reports_its_work_as_json(tmp_path, book, call):
    out = tmp_path / "b.e2g"
    report = call("index", book, "--out", out, "--json", *SMALL_CHUNKS).json()
    assert report["documents"] == 1
    assert report["chunks"] > 2
    assert report["llm_calls"] == 0
    assert report["file"] == str(out)
    assert report["bytes"] == out.stat().st_size


def test_second_index_call_skips_unchanged_documents_and_adds_new_ones(
    tmp_path, book, book_index, call
):
    (tmp_path / "new.txt").write_text("Bob met Carol in Paris.")
    report = call("index", book, tmp_path / "new.txt", "--out", book_index, "--json").json()
    assert (report["documents"], report["skipped"]) == (1, ["book.txt"])


def test_index_run_again_replaces_the_changed_file_and_adds_the_new_one(
    tmp_path, book, book_index, call
):
    book.write_text(TEA_PARTY + " The End.", encoding="utf-8")
    (tmp_path / "new.txt").write_text("Bob met Carol in Paris.")
    files = (book, tmp_path / "new.txt")
    code, out, err = call("index", *files, "--out", book_index, "--on-duplicate", "error")
    assert (code, out) == (2, "")
    assert "'book.txt'" in err
    code, out, _ = call("index", book, "--out", book_index, "--on-duplicate", "skip")
    assert (code, out) == (0, f"{book_index}: nothing new, 1 document(s) already indexed\n")
    code, out, _ = call("index", *files, "--out", book_index)
    assert code == 0
    assert out.startswith(f"replaced: book.txt\n{book_index}: 2 document(s) indexed, 0 unchanged; ")
    _, out, _ = call("index", *files, "--out", book_index)
    assert out == f"{book_index}: nothing new, 2 document(s) unchanged\n"
    assert call("indexes", "verify", book_index).code == 0


def test_a_file_given_twice_in_any_way_is_one_document(tmp_path, book, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.txt").symlink_to("book.txt")
    paths = (".", "book.txt", "./book.txt", book, "link.txt", "../" + tmp_path.name)
    report = call("index", *paths, "--out", "b.e2g", "--json", *SMALL_CHUNKS).json()
    assert (report["documents"], report["skipped"]) == (1, [])
    assert call("index", *paths[1:], "--out", "b.e2g", "--json").json()["skipped"] == ["book.txt"]
    assert call("indexes", "stats", "b.e2g", "--json").json()["documents"] == 1


def test_estimate_prints_counts_and_creates_no_file(tmp_path, book, call, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    out = tmp_path / "none.e2g"
    command = ["index", book, "--out", out, "--estimate", *SMALL_CHUNKS]
    estimate = call(*command, "--json").json()
    assert not out.exists()
    assert estimate["llm_calls"] == sum(level["llm_calls"] for level in estimate["levels"]) > 0
    assert all(isinstance(estimate[key], int) for key in ("chunks", "llm_calls", "prompt_tokens"))
    with_model = call(*command, "--llm-model", "m", "--json").json()  # no API key needed
    assert with_model["llm_calls"] == estimate["llm_calls"]


def test_missing_api_key_is_reported_and_a_given_key_is_never_shown(
    book, tmp_path, call, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = call("index", book, "--out", tmp_path / "x.e2g", "--llm-model", "m")
    assert code == 2
    assert "OPENAI_API_KEY contains no API key" in err
    monkeypatch.setenv("MY_KEY", "sk-secret")
    assert "sk-secret" not in repr(make_summarizer("m", None, "MY_KEY"))


def test_a_key_in_place_of_its_variable_is_not_printed(book, tmp_path, call):
    arguments = ["index", book, "--out", tmp_path / "x.e2g", "--llm-model", "m"]
    for key in ("sk-proj-0123456789abcdef", "a1b2c3d4"):
        code, out, err = call(*arguments, "--llm-api-key-env", key)
        assert (code, key in out + err) == (2, False)
        assert "pass the name of the variable" in err


def test_document_without_text_is_indexed_with_a_warning(tmp_path, call):
    (tmp_path / "empty.txt").write_text(" \n")
    result = call("index", tmp_path / "empty.txt", "--out", tmp_path / "e.e2g", *SMALL_CHUNKS)
    assert result.code == 0
    assert result.err == "warning: empty.txt contains no text\n"


def test_dash_indexes_standard_input(tmp_path, monkeypatch, call):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEA_PARTY.encode())))
    report = call("index", "-", "--out", tmp_path / "s.e2g", "--json", *SMALL_CHUNKS).json()
    assert report["documents"] == 1


def test_content_cutting_is_stored_and_enforced(tmp_path, book, call):
    out = tmp_path / "c.e2g"
    sizes = ["--embedder", "hashing", "--chunk-size", "25"]
    assert call("index", book, "--out", out, *sizes, "--cut", "content").code == 0
    settings = call("indexes", "stats", out, "--json").json()["settings"]
    assert (settings["chunking"], settings["grouping"]) == ("content", "content")
    assert settings["chunk_overlap"] == "0"
    code, stdout, err = call("index", book, "--out", out, "--cut", "fixed")
    assert (code, stdout) == (2, "")
    assert "built with --cut content, not 'fixed': omit --cut" in err
    assert call("index", book, "--out", out).code == 0  # without --cut, the stored value applies
    other = tmp_path / "d.e2g"
    code, _, err = call("index", book, "--out", other, "--cut", "content", "--chunk-overlap", "5")
    assert code == 2
    assert "--chunk-overlap 5" in err
    assert not other.exists()


@pytest.mark.parametrize("command", ["index", "update"])
def test_max_llm_calls_stops_before_the_first_call(index, folder, call, monkeypatch, command):
    fake = FakeSummarizer()
    monkeypatch.setattr(fake, "fingerprint", ExtractiveSummarizer().fingerprint, raising=False)
    monkeypatch.setattr(models, "make_summarizer", lambda *_, **__: fake)
    edit_texts(folder)
    index_command = ["index", folder, "--out", index]
    arguments = index_command if command == "index" else ["documents", "update", index, folder]
    before = index.read_bytes()
    code, out, err = call(*arguments, "--max-llm-calls", "0")
    assert (code, out, fake.calls) == (2, "", 0)
    assert "but --max-llm-calls 0" in err
    assert index.read_bytes() == before
    assert call(*arguments, "--max-llm-calls", "50")[0] == 0
    assert fake.calls


def test_repeating_the_index_command_also_resumes(failed_index, folder, call, summarizer):
    summarizer.rejects = False
    report = call("index", folder, "--out", failed_index, "--json").json()
    assert (report["documents"], len(report["skipped"])) == (1, 3)
    assert call("documents", "list", failed_index).code == 0


def test_interrupted_index_exits_with_130_and_can_be_resumed(
    folder, tmp_path, call, summarizer, monkeypatch
):
    def interrupt(texts, *, level, max_tokens):
        raise KeyboardInterrupt

    out = tmp_path / "x.e2g"
    with monkeypatch.context() as patch:
        patch.setattr(summarizer, "summarize", interrupt)
        code, printed, err = call("index", folder, "--out", out, *SMALL_CHUNKS)
    assert (code, printed) == (130, "")
    assert err.endswith("interrupted: repeat the command to continue\n")
    assert call("documents", "list", out).code == 3
    assert call("index", folder, "--out", out, *SMALL_CHUNKS).code == 0
    assert call("documents", "list", out).code == 0


def test_metadata_is_given_to_all_files_of_a_call_and_can_be_filtered(index, tmp_path, call):
    more = tmp_path / "more.txt"
    more.write_text("The Duchess nursed a baby that sneezed.")
    given = ("--metadata", "tenant=b", "--metadata", "year=1865", "--metadata", 'tags=["x", "y"]')
    assert call("index", more, "--out", index, *given)[0] == 0
    expected = {"tenant": "b", "year": 1865, "tags": ["x", "y"]}
    assert metadata_of(index)["more.txt"] == expected
    assert metadata_of(index)["queen.md"] == {}
    found = call(
        "query", index, "Who nursed a baby?", "--scope", '{"tenant": "b"}', "--json"
    ).json()
    assert {node["document_id"] for node in found["nodes"]} == {"more.txt"}


def test_a_file_that_is_read_again_keeps_the_title_and_metadata_of_its_document(
    folder, tmp_path, call
):
    path = tmp_path / "t.e2g"
    with E2GraphRAG.open(path) as rag:
        given = {"tenant": "a", "year": 1865}
        rag.add(SourceDocument("alice.txt", ALICE, title="Wonderland", metadata=given))
    edit_texts(folder)
    assert call("documents", "update", path, folder, "--metadata", "year=1872")[0] == 0
    with E2GraphRAG.open(path) as rag:
        alice = rag.document("alice.txt")
        assert "The Dodo" in alice.text
        assert (alice.title, dict(alice.metadata)) == ("Wonderland", {"tenant": "a", "year": 1872})
        assert dict(rag.document("new.txt").metadata) == {"year": 1872}
    report = call("index", folder, "--out", path, "--json").json()
    assert report["documents"] == 0  # so unchanged files need no `--metadata`


def test_a_failed_document_keeps_its_metadata_when_its_file_is_read_again(
    folder, tmp_path, call, summarizer
):
    path = tmp_path / "f.e2g"
    (folder / "jabber.txt").write_text(f"{SHIP} {FORBIDDEN} {QUEEN} {SHIP}")
    command = ("index", folder, "--out", path)
    assert call(*command, "--metadata", "tenant=a", *SMALL_CHUNKS)[0] == 3
    (folder / "jabber.txt").write_text(f"{SHIP} {QUEEN} {SHIP}")
    assert call(*command)[0] == 0
    assert metadata_of(path)["jabber.txt"] == {"tenant": "a"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["tenant"], "--metadata 'tenant' must be KEY=VALUE"),
        (["=a"], "--metadata '=a' must be KEY=VALUE"),
        (["tenant=a", "tenant=b"], "--metadata 'tenant=b': 'tenant' is given twice"),
        (["a=" + "[" * 100_000], "--metadata a: the value is nested too deeply"),
        (["score=NaN"], "metadata"),
        (["document_id=x"], "document_id"),
    ],
)
def test_invalid_metadata_is_refused_before_anything_is_written(
    index, folder, call, given, problem
):
    before = index.read_bytes()
    options = [part for one in given for part in ("--metadata", one)]
    for command in (("index", folder, "--out", index), ("documents", "update", index, folder)):
        code, out, err = call(*command, *options)
        assert (code, out) == (2, "")
        assert problem in err
    assert index.read_bytes() == before


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "options", [(), ("--language", "en"), ("--spacy-model", BUNDLED_PIPELINE)], ids=str
)
def test_entity_rules_add_names_with_types(tmp_path, call, options):
    (tmp_path / "a.txt").write_text("Anna got aspirin in the clinic of Oslo and left with Bert.")
    rules = tmp_path / "drugs.jsonl"
    rules.write_text('{"label": "drug", "pattern": "aspirin"}')
    out = tmp_path / "a.e2g"
    done = call("index", tmp_path / "a.txt", "--out", out, "--entity-rules", rules, *options)
    assert done.code == 0, done.err
    with E2GraphRAG.open(out) as rag:
        assert [one.name for one in rag.entities(types="drug")] == ["aspirin"]


def test_a_bad_entity_rule_is_named_by_its_line(tmp_path, book, call):
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"label": "drug", "pattern": "aspirin"}\n{"label": "drug"}')
    out = tmp_path / "a.e2g"
    code, _, err = call("index", book, "--out", out, "--entity-rules", rules)
    assert (code, "line 2 of" in err, out.exists()) == (2, True, False)
