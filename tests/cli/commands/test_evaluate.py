"""`e2graphrag evaluate`: tables, JSON, files and errors."""

from __future__ import annotations

import json
import os
import sys

QUESTIONS = [
    {"question": "Who gave Alice a cup of tea?", "gold_ids": ["book.txt"], "answer": "the Hatter"},
    {"question": "Where did the Queen live?", "answer": ["castle", "palace"]},
]


def test_settings_are_compared_in_a_table_as_json_and_in_a_file(call, book_index, tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)))
    arguments = (
        "evaluate",
        book_index,
        path,
        "--setting",
        "one k=1",
        "--setting",
        "names mode=local",
    )
    printed = call(*arguments, "--out", tmp_path / "scores.csv")
    assert printed.code == 0, printed
    lines = printed.out.splitlines()
    assert lines[:2] == [
        "2 question(s); mean [95% interval]",
        "one\trecall\t1.0000 [1.0000, 1.0000]\t1",
    ]
    assert "minus one; * the interval does not contain 0" in lines
    assert lines[-1].startswith("names\tanswer_in_context\t")
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 1 + 2 * 2
    report = call(*arguments, "--json").json()
    assert report["settings"]["one"]["arguments"] == {"k": 1}
    assert report["settings"]["one"]["measures"]["recall"]["mean"] == 1
    assert set(report["differences"]) == {"names"}
    assert call("evaluate", book_index, path, "--json").json()["baseline"] == "default"


def test_the_file_is_written_before_a_closed_pipe_ends_the_command(
    call, book_index, tmp_path, monkeypatch
):
    path, scores = tmp_path / "questions.jsonl", tmp_path / "scores.csv"
    path.write_text(json.dumps(QUESTIONS[0]))
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:  # noqa: PTH123 - a descriptor has no path
        monkeypatch.setattr(sys, "stdout", pipe)
        assert call("evaluate", book_index, path, "--out", scores).code == 0
    assert scores.exists()


def test_a_scope_hides_the_other_documents(call, book_index, tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(QUESTIONS[0]))
    own = ("--scope", '{"document_id": "book.txt"}')
    assert call("evaluate", book_index, path, *own).code == 0
    elsewhere = ("--scope", '{"document_id": "other.txt"}')
    assert "unknown gold id 'book.txt'" in call("evaluate", book_index, path, *elsewhere).err


def test_bad_input_ends_with_one_line_and_code_2(call, book_index, tmp_path):
    path, settings = tmp_path / "questions.jsonl", tmp_path / "s.json"
    path.write_text(json.dumps(QUESTIONS[0]) + '\n{"question": "x", "gold_ids": ["nowhere"]}')
    settings.write_text('{"one": {}}')
    for arguments, message in (
        ((path,), "line 2 ('x'): unknown gold id 'nowhere'"),
        ((tmp_path / "missing.jsonl",), "cannot be read: No such file"),
        ((path, "--settings", settings, "--setting", "one"), "'one' is also in"),
        ((path, "--out", tmp_path / "x.txt"), "must end in .csv or .json"),
    ):
        printed = call("evaluate", book_index, *arguments)
        assert (printed.code, printed.out) == (2, "")
        assert printed.err.startswith("error: ")
        assert message in printed.err
        assert len(printed.err.splitlines()) == 1
