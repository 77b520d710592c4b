"""The demo does what the README says, and every snippet of the README runs."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.cli.demo import QUESTIONS, demo_text
from stub_server import running_stub

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
SNIPPETS = [code for language, code in BLOCKS if language == "python"]


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
    assert any("route: global\n" in answer for answer in answers)
    assert any("why: its names are 0." in answer for answer in answers)
    assert any("why: no name of the question" in answer for answer in answers)
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


@pytest.mark.parametrize("code", SNIPPETS, ids=lambda code: code[:40])
def test_a_python_snippet_of_the_readme_runs(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for framework in re.findall(r"^from ((?:llama_index|langchain)\w*)", code, re.MULTILINE):
        pytest.importorskip(framework)
    if "create_agent(" in code:  # its model by name, the one thing here that asks the network
        monkeypatch.syspath_prepend(ROOT / "examples")
        factory = importlib.import_module("langchain.agents.factory")
        model = importlib.import_module("stand_in_chat_model").QuotingChatModel()
        named: list[str] = []
        monkeypatch.setattr(factory, "init_chat_model", lambda name: named.append(name) or model)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own README
    printed = capsys.readouterr().out.strip()
    assert printed
    if "create_agent(" in code:
        assert named == ["openai:gpt-5-mini"]
        assert re.fullmatch(r"(Alice met Bob in Paris|Bob gave Alice a map)\. \[1\]", printed)


@pytest.mark.parametrize("framework", ["llama_index", "langchain"])
def test_a_framework_is_reached_in_less_than_twelve_lines(framework):
    [code] = [code for code in SNIPPETS if f"e2graphrag_integrations.{framework}" in code]
    assert len(code.splitlines()) < 12


def test_a_file_opens_in_langchain_as_the_readme_says(tmp_path, monkeypatch):
    """The calls that its sentences name, in their order, on one file."""
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex, E2GraphRAGRetriever

    section = README.partition("## LangChain")[2].partition("\n## ")[0]
    calls = re.findall(r"`((?:index|E2GraphRAGIndex|E2GraphRAGRetriever)[.(][^`]+\))`", section)
    assert [re.match(r"[\w.]+", call)[0] for call in calls] == [
        "index.save_local",
        "E2GraphRAGIndex.load_local",
        "index.to_e2g",  # LlamaIndex's
        "E2GraphRAGRetriever",
    ]
    monkeypatch.chdir(tmp_path)
    names = {
        "E2GraphRAG": E2GraphRAG,
        "E2GraphRAGIndex": E2GraphRAGIndex,
        "E2GraphRAGRetriever": E2GraphRAGRetriever,
        "index": E2GraphRAGIndex.from_documents(
            [Document("Bob gave Alice a map.", id="letter-1")], embeddings="hashing"
        ),
    }
    eval(calls[0], names)  # noqa: S307 - our own README
    with contextlib.closing(eval(calls[1], names)) as loaded:  # noqa: S307
        found = loaded.invoke("Who has a map?")
    retriever = eval(calls[3], names)  # noqa: S307
    with retriever.index:
        assert retriever.invoke("Who has a map?") == found
    assert [document.page_content for document in found] == ["Bob gave Alice a map."]


def test_the_transcript_in_the_readme_is_what_is_printed(demo, capsys, monkeypatch):
    path, _ = demo
    [block] = [code for _, code in BLOCKS if code.startswith("$ e2graphrag query")]
    command, _, expected = block.partition("\n")
    monkeypatch.chdir(path.parent)
    assert cli.main(shlex.split(command)[2:]) == 0
    printed = capsys.readouterr().out

    def without_times(text: str) -> str:
        return re.sub(r"^time: .*$", "time:", text, flags=re.MULTILINE).strip()

    assert without_times(printed) == without_times(expected)


@pytest.mark.shared
def test_the_update_in_the_readme_costs_what_it_says(tmp_path, monkeypatch, capsys):
    [block] = [code for _, code in BLOCKS if code.startswith("$ e2graphrag index")]
    expected = [line for line in block.splitlines() if not line.startswith("$")]
    index, edit, update = (line[2:] for line in block.splitlines() if line.startswith("$"))
    assert edit == "sed -i '0,/Filby/s//young Filby/' the_time_machine.txt"
    monkeypatch.chdir(tmp_path)
    novel = Path("the_time_machine.txt")
    shutil.copy(demo_text(), novel)
    printed = []
    with running_stub(150) as url:
        model = f"--llm-model stub --llm-base-url {url}/v1"
        for command in (f"{index} --embedder hashing", update):
            assert cli.main(shlex.split(command.replace("--llm-model ...", model))[1:]) == 0
            lines = capsys.readouterr().out.splitlines()
            printed += [line for line in lines if line.startswith(("replaced", "tm.e2g"))]
            text = novel.read_text(encoding="utf-8")
            novel.write_text(text.replace("Filby", "young Filby", 1), encoding="utf-8")
    assert printed == expected


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
    for name in re.findall(r'"([a-z0-9-]+)', block):
        assert re.search(rf"^\|.*\b{name}\b", README, re.MULTILINE), name


def test_the_readmes_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).exists(), target
