"""The commands index, query, stats and verify."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cli_helpers import SMALL_CHUNKS, TEA_PARTY
from e2graphrag_integrations.cli.inputs import make_summarizer

QUESTION = "What did the Hatter give to Alice?"


def test_index_reports_its_work_as_json(tmp_path, book, call):
    out = tmp_path / "b.e2g"
    report = call("index", book, "--out", out, "--json", *SMALL_CHUNKS).json()
    assert report["documents"] == 1
    assert report["chunks"] > 2
    assert report["llm_calls"] == 0
    assert report["file"] == str(out)
    assert report["bytes"] == out.stat().st_size


@pytest.mark.slow
def test_index_answers_in_another_process(book_index, without_torch):
    command = [sys.executable, "-m", "e2graphrag_integrations.cli", "query", str(book_index)]
    done = subprocess.run(
        [*command, QUESTION, "--json", "--explain"],
        capture_output=True,
        text=True,
        check=False,
        env=without_torch,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    node = answer["nodes"][0]
    assert {"alice", "hatter"} <= set(node["entities"])
    [[start, end]] = node["spans"]
    assert TEA_PARTY[start:end] == node["text"]
    assert [link["entity"] for link in answer["trace"]["links"]] == ["hatter", "alice"]


def test_paper_strategy_reports_hops_as_json(book_index, call):
    answer = call(
        "query", book_index, QUESTION, "--json", "--explain", "--strategy", "paper"
    ).json()
    assert answer["route"] == "local"
    assert [node["score"] for node in answer["nodes"]][:2] == [1.0, 0.5]
    assert answer["nodes"][0]["relevance"] == 1.0  # it mentions both names
    assert answer["trace"]["pairs"][0]["hops"] == 1


def test_tree_strategy_reports_its_layers(book_index, call):
    code, out, _ = call("query", book_index, QUESTION, "--explain", "--strategy", "tree")
    assert code == 0
    assert "layer 1: " in out
    assert re.search(r"reasons: layer \d: rank \d of \d", out)


def test_query_prints_route_spans_and_reasons(book_index, call):
    code, out, _ = call("query", book_index, QUESTION, "--explain")
    assert code == 0
    assert out.startswith("route: ")
    assert "list entities: " in out
    assert re.search(r"reasons: relevance: rank \d; entities: rank 1", out)
    assert "   entities: hatter, alice" in out
    code, out, _ = call("query", book_index, QUESTION, "--explain", "--strategy", "paper")
    assert code == 0
    assert out.startswith("route: local\n")
    assert "1 hop(s)" in out
    assert re.search(
        r"^1\. book\.txt, characters \d+-\d+, names found \d\.\d\d$", out, re.MULTILINE
    )


def test_hits_are_printed_compactly_with_where_relevance_and_excerpt(tmp_path, book, call):
    (tmp_path / "copy.txt").write_text(TEA_PARTY, encoding="utf-8")
    index = tmp_path / "two.e2g"
    assert call("index", tmp_path, "--out", index, *SMALL_CHUNKS).code == 0
    code, out, _ = call("query", index, QUESTION)
    assert code == 0
    route, why, place, text, also_in, *others = out.splitlines()
    assert (route.startswith("route: "), why.startswith("why: ")) == (True, True)
    assert re.fullmatch(r"1\. book\.txt, characters \d+-\d+, relevance \d\.\d\d", place)
    assert text.startswith("   Alice met the Hatter")
    assert also_in == "   also in: copy.txt"
    assert all(others)
    _, out, _ = call("query", index, QUESTION, "--context")
    assert re.match(r"\[1\] book\.txt, characters 0-\d+ \(also in copy\.txt\)\nAlice met", out)
    answer = call("query", index, QUESTION, "--context", "--json").json()
    assert answer["context"] == out.removesuffix("\n")


def test_question_without_known_entities_goes_global(book_index, call):
    code, out, _ = call("query", book_index, "xyzzy?")
    assert code == 0
    assert out.startswith("route: global\n")


def test_context_prints_a_prompt_within_the_token_budget(book_index, call):
    code, out, _ = call("query", book_index, QUESTION, "--context", "--token-budget", "40")
    assert code == 0
    assert "hatter" in out.lower()
    passages = re.sub(r"^\[\d\] book\.txt, characters .*\n", "", out, flags=re.MULTILINE)
    assert len(passages.split()) <= 40


def test_query_exits_with_1_if_nothing_is_found(book_index, call):
    code, out, _ = call("query", book_index, "Alice", "--where", "document_id=other.txt")
    assert code == 1
    assert "nothing found" in out


def test_query_exits_with_1_if_no_hit_fits_the_token_budget(book_index, call):
    code, out, _ = call("query", book_index, QUESTION, "--token-budget", "1")
    assert code == 1
    assert "nothing fits the token budget" in out


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


def test_a_relevance_floor_finds_nothing_where_nothing_is_relevant(tmp_path, book, call):
    index = tmp_path / "b.e2g"
    assert call("index", book, "--out", index).code == 0  # the default embedder is calibrated
    code, out, _ = call("query", index, QUESTION, "--min-relevance", "0.2")
    assert (code, "Hatter" in out) == (0, True)
    code, out, _ = call("query", index, "How does a nuclear reactor work?", "--min-relevance", ".2")
    assert (code, "nothing found" in out) == (1, True)


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


def test_stats_prints_the_counts_of_an_index(book_index, call):
    stats = call("indexes", "stats", book_index, "--json").json()
    assert stats["documents"] == 1
    assert stats["chunks"] > stats["summaries"] > 0
    assert stats["entities"] > 5
    code, out, _ = call("indexes", "stats", book_index)
    assert code == 0
    assert f"chunks: {stats['chunks']}\n" in out
    assert stats["subjects"] == {"none": 1}
    assert "subjects: none 1\n" in out
    assert "trusted_sources: -\n" in out


def test_verify_distinguishes_intact_from_damaged_files(book_index, call):
    code, out, _ = call("indexes", "verify", book_index)
    assert (code, out.startswith(f"{book_index}: sound (")) == (0, True)
    with closing(sqlite3.connect(book_index)) as db, db:
        db.execute("UPDATE nodes SET text = 'changed' WHERE level = 0 AND position = 1")
    report = call("indexes", "verify", book_index, "--json").json(2)
    assert report["problems"]
    code, out, _ = call("indexes", "verify", book_index)
    assert (code, out.startswith(f"{book_index}: damaged (")) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "missing.e2g", "Q"], "index missing.e2g does not exist"),
        (["index", "missing.txt", "--out", "x.e2g"], "missing.txt does not exist"),
        (["index", "{book}", "--out", "x.e2g", "--llm-base-url", "u"], "require --llm-model"),
        (["index", "{book}", "--out", "no/such/x.e2g"], "does not exist"),
        (["index", "{book}", "--out", "{text}"], "e2graphrag index"),
        (["index", "{book}", "--out", "{book}"], "is one of the files to index"),
        (["index", ".", "--out", "{book}"], "is one of the files to index"),
        (["index", "{empty}", "--out", "{empty}"], "is one of the files to index"),
        (["index", "", "--out", "x.e2g"], "the path is empty"),
        (["index", "{book}", "--out", ""], "the path is empty"),
        (["index", "{book}", "--out", ":memory:"], "name a file"),
        (["index", "x\0y", "--out", "x.e2g"], "is not a valid path"),
        (["index", "{book}", "--out", "x\0y"], "is not a valid path"),
        (["query", "x\0y", "Q"], "is not a valid path"),
        (["index", "{long}", "--out", "x.e2g"], "cannot be used: File name too long"),
        (["index", "{book}", "--out", "{long}"], "cannot be used: File name too long"),
        (["indexes", "stats", "{long}"], "cannot be used: File name too long"),
        (["demo", "--out", "{long}"], "cannot be used: File name too long"),
        (["query", "{empty}", "Q"], "is an empty file"),
        (["indexes", "stats", "{empty}"], "is an empty file"),
        (["indexes", "verify", "{empty}"], "is an empty file"),
        (["index", "{book}", "--out", "x.e2g", "--chunk-size", "9" * 23], "--chunk-size 9999"),
        (["index", "{book}", "--out", "x.e2g", "--chunk-size", "0"], "--chunk-size 0"),
        (["index", "{book}", "--out", "x.e2g", "--spacy-model", "xx_no"], "spacy download xx_no"),
        (["query", "{index}", "  "], "question"),
        (["query", "{index}", "Q", "-k", "0"], "-k 0 must be"),
    ],
    ids=str,
)
def test_invalid_input_exits_with_2_and_changes_no_file(
    arguments, message, tmp_path, book, book_index, call, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    empty, text = tmp_path / "empty.e2g", tmp_path / "text.e2g"
    empty.touch()
    text.write_text("not an index" * 50)
    names = {
        "book": book, "index": book_index, "empty": empty, "text": text, "long": "n" * 300
    }  # fmt: skip
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = call(*(argument.format(**names) for argument in arguments))
    assert (code, out) == (2, "")
    assert {path: path.read_bytes() for path in before} == before
    assert err.startswith("error: ")
    assert message in err


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


def test_profile_prints_the_time_of_every_stage(tmp_path, call):
    (tmp_path / "a.txt").write_text("Anna met Bert in Oslo.", encoding="utf-8")
    path: Path = tmp_path / "p.e2g"
    code, out, _ = call(
        "index", tmp_path / "a.txt", "--out", path, "--embedder", "hashing", "--profile"
    )
    assert code == 0
    table = out[out.index("stage ") :].splitlines()
    assert {line.split()[0] for line in table[1:]} >= {"chunk", "extract", "embed", "write", "wall"}
    shares = [float(line.split()[2].rstrip("%")) for line in table[1:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    code, out, _ = call("query", path, "Who met Bert?", "--profile")
    assert code == 0
    stages = [line.split()[0] for line in out[out.index("stage ") :].splitlines()]
    assert stages[-1] == "sum"
    seconds = call("query", path, "Who met Bert?", "--profile", "--json").json()["seconds"]
    assert set(stages[1:-1]) == set(seconds) > {"entities"}


def test_query_prints_paths_with_their_sentences(book_index, call):
    question = "How does Alice know the Hatter?"
    code, out, _ = call("query", book_index, question, "--paths")
    assert code == 0
    assert "path: " in out
    answer = call("query", book_index, question, "--paths", "--json").json()
    hop = answer["paths"][0]["hops"][0]
    assert TEA_PARTY[hop["start"] : hop["end"]] == hop["text"]
    assert "paths" not in call("query", book_index, question, "--json").json()
    _, out, _ = call("query", book_index, "Was there tea?", "--paths")
    assert "no chain of sentences joins the names" in out


def test_communities_are_printed_with_entities_sources_and_reports(book_index, call):
    code, out, _ = call("entities", "communities", book_index)
    assert code == 0
    assert out.startswith("1. ")
    assert "book.txt" in out
    shown = call(
        "entities", "communities", book_index, "--json", "--top", "1", "--seed", "3"
    ).json()
    [community] = shown["communities"]
    assert community["report"]
    assert len(community["entities"]) >= 2
    estimate = call("entities", "communities", book_index, "--estimate", "--json").json()
    assert estimate["community_reports"]["llm_calls"] == estimate["llm_calls"] > 0
    _, out, _ = call("entities", "communities", book_index, "--estimate")
    assert out.startswith(f"{estimate['community_reports']['summaries']} community reports")
    code, out, _ = call(
        "entities", "communities", book_index, "--where", "kind=none", "--no-reports"
    )
    assert (code, out) == (1, "no communities\n")
    code, _, err = call("entities", "communities", book_index, "--level", "9")
    assert code == 2
    assert "--level 9 does not exist" in err
