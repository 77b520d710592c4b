"""Files with questions and files with settings: every kind of bad input names its place."""

from __future__ import annotations

import json

import pytest

from e2graphrag_integrations import HybridStrategy, PaperStrategy
from e2graphrag_integrations.errors import EvaluationError, InvalidInputError
from e2graphrag_integrations.evaluation import (
    GoldSpan,
    Question,
    Setting,
    parse_settings,
    questions,
    read_questions,
    read_settings,
)

GOOD = {"question": "Who?", "gold_ids": ["d"]}


def write(folder, *lines):
    path = folder / "questions.jsonl"
    parts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    path.write_bytes(b"\n".join(parts))
    return path


def test_a_file_has_ids_spans_and_answers(tmp_path):
    path = write(
        tmp_path,
        b"\xef\xbb\xbf" + json.dumps(GOOD | {"type": "ignored"}).encode(),
        b"",
        {
            "question": "Where?",
            "gold_spans": [["d", 3, 9], {"document_id": "e", "start": 0, "end": 1}],
        },
        {"question": "什么?", "answer": "刘备", "answers": ["玄德"], "gold_ids": None, "id": 7},
    )
    first, second, third = read_questions(path)
    assert first == Question("Who?", gold_ids=["d"], line=1)
    assert second.gold_spans == (GoldSpan("d", 3, 9), GoldSpan("e", 0, 1))
    assert (third.answers, third.id, third.line) == (("刘备", "玄德"), "7", 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"question": "Who?",', "; write one JSON object per line"),
        (b'"Who?"', "must be a JSON object"),
        (b"[" * 5000, "not valid JSON: "),
        (b'{"question": "\xff"}', "not valid UTF-8"),
        (b'{"question": "\\ud800", "answer": "x"}', "lone surrogate"),
        ({"gold_ids": ["d"]}, 'key "question"'),
        ({"question": "  ", "answer": "x"}, "non-empty"),
        ({"question": 5, "answer": "x"}, "must be a string"),
        ({"question": "x" * 33_000, "answer": "x"}, "at most 32,000"),
        ({"question": "Who?"}, "no gold answer"),
        ({"question": "Who?", "gold_ids": []}, "no gold answer"),
        ({"question": "Who?", "gold_ids": "d"}, "must be a list"),
        ({"question": "Who?", "gold_ids": [5]}, "must be a string"),
        ({"question": "Who?", "gold_ids": ["d"] * 10_001}, "at most 10,000"),
        ({"question": "Who?", "gold_spans": [["d", 5, 5]]}, "end of a gold span=5"),
        ({"question": "Who?", "gold_spans": [["d", -1, 5]]}, "start of a gold span=-1"),
        ({"question": "Who?", "gold_spans": [["d", 1]]}, "must be [document_id, start, end]"),
        ({"question": "Who?", "answer": "..."}, "contains no word"),
        ({"question": "Who?", "answer": 5}, "must be a list"),
        ({"question": "Who?", "answer": "x", "id": ["x"]}, "id must be a string"),
        (b" " * 1_000_001, "longer than 1,000,000 bytes"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = write(tmp_path, GOOD, line, GOOD)
    with pytest.raises(EvaluationError) as caught:
        read_questions(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert caught.value.lines == (2,)


def test_bad_files_are_typed_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "MAX_QUESTIONS", 2)
    with pytest.raises(EvaluationError, match="line 3: the file has more than 2 questions"):
        read_questions(write(tmp_path, GOOD, GOOD, GOOD))
    with pytest.raises(EvaluationError, match="lines 1 and 2 have the same id 'x'"):
        read_questions(write(tmp_path, GOOD | {"id": "x"}, GOOD | {"id": "x"}))
    with pytest.raises(EvaluationError, match="contains no question"):
        read_questions(write(tmp_path, b"", b"  "))
    for path in (tmp_path, tmp_path / "missing.jsonl", "nul\0"):
        with pytest.raises(EvaluationError, match="cannot be read"):
            read_questions(path)


def test_settings_are_parsed_from_arguments_and_files(tmp_path):
    arguments = [
        "plain",
        'local mode=local where={"year": {"$gte": 1890}}  token_budget=200 fill=true',
        "weak bm25_weight=0.5 k=3",
        "paper strategy=paper",
    ]
    parsed = parse_settings(arguments)
    assert parsed["plain"] == Setting()
    expected = Setting(mode="local", where={"year": {"$gte": 1890}}, token_budget=200, fill=True)
    assert parsed["local"] == expected
    assert parsed["weak"] == Setting(k=3, strategy=HybridStrategy(bm25_weight=0.5))
    assert parsed["paper"] == Setting(strategy=PaperStrategy())
    assert parsed["weak"].describe()["k"] == 3
    (tmp_path / "s.toml").write_text("[weak]\nbm25_weight = 0.5\nk = 3\n[plain]\n")
    (tmp_path / "s.json").write_text('{"weak": {"bm25_weight": 0.5, "k": 3}, "plain": {}}')
    wanted = {name: parsed[name] for name in ("weak", "plain")}
    assert read_settings(tmp_path / "s.toml") == read_settings(tmp_path / "s.json") == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "a k=3"], "'a' is given twice"),
        (["a k"], "must be KEY=VALUE"),
        (["a k=3 k=4"], "k is given twice"),
        (["a k=0"], "setting 'a': k=0"),
        (["a k=2024-01-01"], "k='2024-01-01'"),
        (["a mode=both"], "mode='both'"),
        (["a bm25_wait=1"], "did you mean 'bm25_weight'?"),
        (["a strategy=magic"], "choose one of hybrid, paper, tree"),
        (["a where=" + "[" * 9000], "where"),
        (['a where={"$foo": 1}'], "setting 'a': "),
        (['a boost={"x": 1}'], "setting 'a': "),
        (["a fill=1"], "fill=1 must be True or False"),
        (["  "], "setting must be a non-empty string"),
        (["k=5 mode=local"], "must begin with a name of your choice, as in 'mine k=5'"),
    ],
)
def test_a_bad_setting_is_named(arguments, message):
    with pytest.raises(InvalidInputError) as caught:
        parse_settings(arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.json", '{"a": {"k": 1}, "a": {}}', "'a' is given twice"),
        ("s.json", "[1]", "must map names"),
        ("s.json", '{"a": 1}', "must map names"),
        ("s.json", "{}", "are empty"),
        ("s.json", "{", "cannot be read"),
        ("s.toml", "a = [", "cannot be read"),
        ("s.toml", "[a]\nk = 0", "setting 'a': k=0"),
    ],
)
def test_a_bad_settings_file_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(EvaluationError, match=message):
        read_settings(tmp_path / name)
