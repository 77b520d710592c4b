"""The commands `entities`, `entity` and `edit`."""

from __future__ import annotations


def test_entities_are_listed_and_shown(call, book_index):
    listed = call("entities", "list", book_index, "--prefix", "alice", "--json").json()["entities"]
    assert [one["name"] for one in listed] == ["alice"]
    first = call("entities", "list", book_index, "--top", 1)
    assert first.code == 0
    assert first.out.splitlines()[0].split("\t")[1:3] == ["3", "2"]
    shown = call("entities", "show", book_index, "Alice")
    assert "span: 0-5\n   Alice met the Hatter in the garden." in shown.out
    assert "neighbors" in shown.out
    details = call(
        "entities", "show", book_index, "Alice", "--where", "document_id=book.txt", "--json"
    ).json()
    assert details["documents"] == ["book.txt"]


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
