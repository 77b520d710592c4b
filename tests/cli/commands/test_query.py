"""The command `query`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli_helpers import (
    SMALL_CHUNKS,
    TEA_PARTY,
)

QUESTION = "What did the Hatter give to Alice?"


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


def test_vectors_of_one_byte_give_the_same_hits(book_index, call):
    floats = call("query", book_index, QUESTION, "--json").json()["nodes"]
    rounded = call("query", book_index, QUESTION, "--json", "--vectors", "int8").json()["nodes"]
    assert [one["node_id"] for one in rounded] == [one["node_id"] for one in floats]
    for one, other in zip(rounded, floats, strict=True):
        assert one["relevance"] == pytest.approx(other["relevance"], abs=1e-6)
    code, _, err = call("export", "vectors", book_index, "int8")
    assert (code, "of a server" in err) == (2, True)


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
    query = "query", book_index, "Alice", "--where", "document_id=other.txt"
    code, out, _ = call(*query)
    assert code == 1
    assert "nothing found" in out
    assert call(*query, "--context") == (1, "", "nothing found\n")  # a prompt gets no such text


def test_query_exits_with_1_if_no_hit_fits_the_token_budget(book_index, call):
    code, out, _ = call("query", book_index, QUESTION, "--token-budget", "1")
    assert code == 1
    assert "nothing fits the token budget" in out


def test_a_relevance_floor_finds_nothing_where_nothing_is_relevant(tmp_path, book, call):
    index = tmp_path / "b.e2g"
    assert call("index", book, "--out", index).code == 0  # the default embedder is calibrated
    code, out, _ = call("query", index, QUESTION, "--min-relevance", "0.2")
    assert (code, "Hatter" in out) == (0, True)
    code, out, _ = call("query", index, "How does a nuclear reactor work?", "--min-relevance", ".2")
    assert (code, "nothing found" in out) == (1, True)


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
