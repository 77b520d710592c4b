"""The group `shards`: an index in several files."""

from __future__ import annotations

from pathlib import Path


def test_an_index_in_shards_is_created_filled_asked_and_copied(tmp_path, call):
    shards, notes = tmp_path / "x.shards.json", tmp_path / "notes"
    notes.mkdir()
    for number in range(6):
        (notes / f"{number}.txt").write_text(f"Anna met Bert in room {number} of the castle.")
    code, out, _ = call("indexes", "create-shards", shards, 2, "--embedder", "hashing")
    assert (code, out) == (0, f"{shards}: 2 shards\n")
    code, out, _ = call("indexes", "add-to-shards", shards, notes)
    assert (code, out) == (0, f"{shards}: 6 documents indexed, 0 unchanged\n")
    (notes / "1.txt").write_text("Anna left.")
    assert call("indexes", "add-to-shards", shards, notes).code == 2
    report = call(
        "indexes", "add-to-shards", shards, notes, "--on-duplicate", "replace", "--json"
    ).json()
    assert (report["documents"], len(report["skipped"])) == (1, 5)
    rows = call("indexes", "list-shards", shards, "--json").json()["shards"]
    assert sum(row["indexed"] for row in rows.values()) == 6
    assert call("query", shards, "Where did Anna meet Bert?", "--json").json()["nodes"]
    target = tmp_path / "y.shards.json"
    code, out, _ = call("indexes", "rebalance-shards", shards, target, 3)
    assert (code, out) == (0, f"{target}: 3 shards\n")
    lines = call("indexes", "list-shards", target).out.splitlines()
    assert [line.rpartition(": ")[0] for line in lines] == [
        str(tmp_path / f"y.{number}.e2g") for number in range(3)
    ]
    assert call("indexes", "verify", target).code == 0


def test_what_shards_cannot_do_is_refused_without_harm(tmp_path, call):
    shards, notes = tmp_path / "x.shards.json", tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Anna met Bert.")
    (notes / "b.xyz").write_text("a file of an unknown kind is no failure")
    call("indexes", "create-shards", shards, 2, "--embedder", "hashing")
    content = shards.read_bytes()
    assert call("indexes", "add-to-shards", shards, tmp_path).code == 0
    assert call("documents", "list", shards).out.splitlines()[1:] == ["done\tnotes/a.txt"]
    assert call("documents", "resume", shards).out == f"{shards}: nothing new\n"
    for arguments, message in (
        (("index", notes, "--out", shards), "names a list of shards, not one index"),
        (("index", notes, "--out", tmp_path / "new.shards.json"), "names a list of shards"),
        (("documents", "update", shards, notes), "`e2graphrag indexes add-to-shards` adds"),
        (("indexes", "copy", shards, tmp_path / "y.e2g"), "each shard is an index of its own"),
        (("query", shards, "Who?", "--vectors", "int8"), "--vectors does not work across shards"),
        (("documents", "work", shards), "run the command on each shard"),
        (("indexes", "list-shards", tmp_path / "z"), "`e2graphrag indexes create-shards` creates"),
    ):
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        assert message in err
    assert shards.read_bytes() == content
    assert not (tmp_path / "new.shards.json").exists()


def test_status_names_a_shard_that_cannot_be_read(tmp_path, call):
    shards = tmp_path / "x.shards.json"
    call("indexes", "create-shards", shards, "a.e2g", "b.e2g", "--embedder", "hashing")
    Path(tmp_path / "b.e2g").unlink()
    code, out, _ = call("indexes", "list-shards", shards)
    assert code == 2
    assert "a.e2g: 0 documents, 0 pending" in out
    assert "b.e2g: 1 of 2 shards cannot be asked" in out
