"""The group `entities`: lists, edits, communities and another extractor."""

from __future__ import annotations

import spacy


def test_entities_are_listed_and_shown(call, book_index):
    listed = call("entities", "list", book_index, "--prefix", "alice", "--json").json()["entities"]
    assert [one["name"] for one in listed] == ["alice"]
    first = call("entities", "list", book_index, "--top", 1)
    assert first.code == 0
    assert first.out.splitlines()[0].split("\t")[2:4] == ["3", "2"]
    shown = call("entities", "show", book_index, "Alice")
    assert "span: 0-5\n   Alice met the Hatter in the garden." in shown.out
    assert "neighbors" in shown.out
    details = call(
        "entities", "show", book_index, "Alice", "--where", "document_id=book.txt", "--json"
    ).json()
    assert details["documents"] == ["book.txt"]


def test_entities_are_listed_by_type(call, book_index):
    listed = call("entities", "list", book_index, "--json").json()["entities"]
    types = {one["type"] for one in listed}
    assert types <= {"person", "place", "organization", "other", "noun"}
    for type_ in types:
        found = call("entities", "list", book_index, "--type", type_, "--json").json()["entities"]
        assert found == [one for one in listed if one["type"] == type_]
    first = call("entities", "list", book_index, "--type", "noun", "--type", "person").out
    assert {line.split("\t")[1] for line in first.splitlines()} <= {"noun", "person"}
    assert call("entities", "list", book_index, "--type", "drug").code == 1
    assert "type: " in call("entities", "show", book_index, "Alice").out


def test_nothing_found_and_unknown_names(call, book_index):
    assert call("entities", "list", book_index, "--prefix", "zz").code == 1
    unknown = call("entities", "show", book_index, "Zebra")
    assert (unknown.code, "no entity 'Zebra'" in unknown.err) == (2, True)
    hidden = call("entities", "show", book_index, "Alice", "--where", "document_id=x")
    assert (hidden.code, "match the filter" in hidden.err) == (2, True)


def test_edits_are_made_listed_and_undone(call, book_index):
    assert call("entities", "edit", book_index).out == "no edits\n"
    done = call(
        "entities", "edit", book_index, "--alias", "Al=Alice", "--stop", "Queen", "--stop", "King"
    )
    assert done.code == 0
    assert "'Al' means 'Alice'" in done.out
    assert len(done.out.splitlines()) == 3
    done = call("entities", "edit", book_index, "--separate", "Alice", "Alicia", "--json").json()[
        "edits"
    ]
    assert [one["kind"] for one in done] == ["alias", "separate", "stop", "stop"]
    assert "aliases: Al" in call("entities", "show", book_index, "Al").out
    ids = [one["id"] for one in done]
    undone = call(
        "entities", "edit", book_index, *[part for id_ in ids for part in ("--undo", id_)]
    )
    assert undone.out == "no edits\n"


def test_homonyms_are_proposed_and_accepted(call, tmp_path):
    texts = {
        "runner": "Ada Berg is a runner from Norway. She won the race of Bergen with Olaf Lund.",
        "banker": "Ada Berg is a banker in Rome. She leads the Bank of Lazio with Carlo Conti.",
    }
    for name, text in texts.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "Ada Berg.txt").write_text(text, encoding="utf-8")
    index = tmp_path / "people.e2g"
    assert call("index", "--out", index, tmp_path / "runner", tmp_path / "banker").code == 0
    found = call("entities", "homonyms", index, "--json").json()["homonyms"]
    assert [one["name"] for one in found] == ["ada berg"]
    shown = call("entities", "homonyms", index).out
    assert "1. ada berg  similarity: 0." in shown
    assert "(with " in shown
    done = call("entities", "homonyms", index, "--accept", "Ada Berg").out
    assert "homonym" in done
    assert call("entities", "homonyms", index).out == "no homonyms\n"
    unknown = call("entities", "homonyms", index, "--accept", "Ada Berg")
    assert (unknown.code, "no proposal" in unknown.err) == (2, True)


def test_invalid_edits_are_errors(call, book_index):
    for arguments, message in (
        (["--alias", "Al"], "--alias 'Al' must be NAME=\"ENTITY\""),
        (["--alias", "Al=Alice", "--alias", "Al=Hatter"], "is given twice"),
        (["--alias", "Al=Zebra"], "no entity 'Zebra'"),
        (["--undo", "x"], "there is no edit 'x'"),
    ):
        found = call("entities", "edit", book_index, *arguments)
        assert found.code == 2
        assert message in found.err


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


def test_calls_for_reports_are_told_before_the_first_one(book_index, call, summarizer):
    made = call("entities", "communities", book_index, "--json")
    assert made.err.startswith(f"community reports: {summarizer.calls} LLM call(s), with at most ")
    assert made.json()["communities"][0]["report"].startswith("Summary of ")
    assert call("entities", "communities", book_index).err == ""  # cached
    assert call("entities", "communities", book_index, "--no-reports").err == ""


def test_reindex_extracts_an_index_of_another_extractor_again(folder, tmp_path, call):
    index = tmp_path / "my index.e2g"
    call("index", folder, "--out", index, "--embedder", "hashing")
    blank = tmp_path / "blank"
    spacy.blank("en").to_disk(blank)
    code, out, err = call("entities", "reindex", index, "--spacy-model", blank)
    assert (code, err) == (0, "")
    assert out.startswith(f"{index}: 3 document(s) with 3 chunks extracted again; ")
    again = call("entities", "reindex", index, "--spacy-model", blank)
    assert again.out == f"{index}: nothing to do, 3 document(s) are current\n"
    report = call("entities", "reindex", index, "--json").json()
    assert (report["documents"], len(report["skipped"])) == (0, 3)
    assert call("indexes", "verify", index).code == 0
    assert call("entities", "reindex", tmp_path / "missing.e2g").code == 2
