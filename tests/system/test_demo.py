"""`e2graphrag demo` on real vectors: its answers, their spans, and its index."""

from __future__ import annotations

import re

import pytest

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.cli.demo import DEMOS, Demo, demo_text

QUESTIONS = DEMOS["en"].questions


def test_demo_of_the_first_chapter_answers_every_question(tmp_path, monkeypatch, capsys):
    chapter = tmp_path / "time_machine.txt"
    chapter.write_text(demo_text().read_text(encoding="utf-8")[:9_000], encoding="utf-8")
    monkeypatch.setattr(Demo, "path", lambda _: chapter)
    assert cli.main(["demo", "--out", str(tmp_path / "time_machine.e2g")]) == 0
    answers = capsys.readouterr().out.split("\n=== ")[1:]
    assert len(answers) == len(QUESTIONS)
    assert all(re.search(r"^1\. .*, characters \d+-\d+", one, re.MULTILINE) for one in answers)


@pytest.mark.slow
def test_demo_answers_six_questions_that_take_both_routes(demo):
    _, printed = demo
    answers = printed.split("\n=== ")[1:]
    assert len(answers) == len(QUESTIONS) >= 6
    assert any("route: local\n" in answer for answer in answers)
    assert any("route: global\n" in answer for answer in answers)
    assert any("why: the index knows" in answer for answer in answers)
    for answer in answers:
        hits = re.findall(r"^\d+\. .*, characters \d+-\d+, relevance \S+$", answer, re.MULTILINE)
        assert hits
        assert len(re.findall(r"^   reasons: .+", answer, re.MULTILINE)) == len(hits)


@pytest.mark.slow
def test_demo_spans_slice_back_to_the_novel(demo):
    path, _ = demo
    text = demo_text().read_text(encoding="utf-8")
    with E2GraphRAG.open(path) as rag:
        for question in QUESTIONS:
            for node in rag.retrieve(question, k=5).nodes:
                if node.level == 0:
                    assert [text[start:end] for start, end in node.spans] == [node.text]


@pytest.mark.slow
def test_second_demo_run_indexes_nothing(demo, capsys):
    path, _ = demo
    assert cli.main(["demo", "--out", str(path)]) == 0
    assert "nothing new, 1 document(s) unchanged" in capsys.readouterr().out


@pytest.mark.slow
def test_demo_summary_is_found_by_its_words_and_expands_to_its_leaves(demo):
    path, _ = demo
    with E2GraphRAG.open(path) as rag:
        (summary, *_) = rag.retrieve("time", k=1, mode="global", where={"e2_level": 1}).nodes
        best = rag.retrieve(summary.text, k=1, mode="global").nodes[0]
        assert best.node_id == summary.node_id
        leaves = rag.retrieve(summary.text, k=1, mode="global", expand="leaves").nodes
        assert [node.level for node in leaves] == [0]
        assert summary.start <= leaves[0].start < leaves[0].end <= summary.end
