"""The demo does what the README says, and every snippet of the README runs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, cli
from e2graphrag_integrations.demo import QUESTIONS, demo_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo once, on real vectors; return the index and what was printed."""
    path = tmp_path_factory.mktemp("demo") / "time_machine.e2g"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(["demo", "--out", str(path)]) == 0
    return path, printed.getvalue()


def test_the_demo_asks_six_questions_that_between_them_take_each_route(demo):
    _, printed = demo
    answers = printed.split("\n=== ")[1:]
    assert len(answers) == len(QUESTIONS) >= 6
    assert any("route: local\n" in answer for answer in answers)
    assert any("why: occurrence" in answer for answer in answers)
    assert any("why: no entity" in answer for answer in answers)
    for answer in answers:
        hits = re.findall(r"^\d+\. .*  span: \d+-\d+$", answer, re.MULTILINE)
        assert hits
        assert len(re.findall(r"^   reasons: .+", answer, re.MULTILINE)) == len(hits)


def test_the_spans_that_the_demo_prints_slice_back_to_the_novel(demo):
    path, _ = demo
    text = demo_text().read_text(encoding="utf-8")
    with E2GraphRAG.open(path) as rag:
        for question in QUESTIONS:
            for node in rag.retrieve(question, k=5).nodes:
                if node.level == 0:
                    assert [text[start:end] for start, end in node.spans] == [node.text]


def test_the_demo_run_again_indexes_nothing_anew(demo, capsys):
    path, _ = demo
    assert cli.main(["demo", "--out", str(path)]) == 0
    assert "nothing new, 1 document(s) unchanged" in capsys.readouterr().out


def test_a_summary_of_the_demo_is_found_by_its_words_and_expands_to_its_leaves(demo):
    path, _ = demo
    with E2GraphRAG.open(path) as rag:
        summary = next(n for n in rag.retrieve("time", k=40, mode="global").nodes if n.level)
        best = rag.retrieve(summary.text, k=1, mode="global").nodes[0]
        assert best.node_id == summary.node_id
        leaves = rag.retrieve(summary.text, k=1, mode="global", expand="leaves").nodes
        assert [node.level for node in leaves] == [0]
        assert summary.start <= leaves[0].start < leaves[0].end <= summary.end


@pytest.mark.parametrize(
    "code", [code for language, code in BLOCKS if language == "python"], ids=lambda c: c[:40]
)
def test_a_python_snippet_of_the_readme_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own README
    assert capsys.readouterr().out.strip()


def test_the_transcript_in_the_readme_is_what_is_printed(demo, capsys, monkeypatch):
    path, _ = demo
    [block] = [code for _, code in BLOCKS if code.startswith("$ e2graphrag")]
    command, _, expected = block.partition("\n")
    monkeypatch.chdir(path.parent)
    assert cli.main(shlex.split(command)[2:]) == 0
    printed = capsys.readouterr().out

    def without_times(text: str) -> str:
        return re.sub(r"^time: .*$", "time:", text, flags=re.MULTILINE).strip()

    assert without_times(printed) == without_times(expected)


def test_every_command_and_option_that_the_readme_names_exists(capsys):
    lines = [line for _, code in BLOCKS for line in code.splitlines() if "e2graphrag " in line]
    named = [line.partition("e2graphrag ")[2] for line in lines]
    assert named
    for line in named:
        words = line.split()
        with pytest.raises(SystemExit) as stop:
            cli.main([words[0], "--help"])
        assert stop.value.code == 0
        text = capsys.readouterr().out
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line.partition("#")[0]):
            assert option in text, f"{option} of {line!r}"


def test_the_readme_is_short_and_names_every_dependency():
    assert len(README.splitlines()) < 220
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project.partition("\ndependencies = [")[2].partition("]")[0]
    for name in re.findall(r'"([a-z-]+)', block):
        assert re.search(rf"^\|.*\b{name}\b", README, re.MULTILINE), name


def test_the_readmes_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).exists(), target
