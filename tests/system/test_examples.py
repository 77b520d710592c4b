"""Every example runs as its docstring says, prints what it promises, and asks no network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOVEL = (EXAMPLES / "data" / "the_time_machine.txt").read_text(encoding="utf-8")

NO_NETWORK = """
import os, socket, sys

def _refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["NETWORK_TRIED"], "a") as file:
            file.write(f"{event} {arguments}\\n")
        raise OSError(f"no network in tests: {event} {arguments}")

sys.addaudithook(_refuse)
"""


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it lies in
        return False


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not is_installed(package), reason=f"{package} is not installed")


needs_llama_index = needs("llama_index.core")
needs_langchain = needs("langchain_core")
needs_langgraph = needs("langchain.agents")
needs_classic = needs("langchain_classic.chains")


def run(name: str, tmp_path: Path) -> str:
    """Run an example from the root as a user would, cut off from any network; return its output."""
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    tried = tmp_path / "tried"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    environment |= {
        "PYTHONPATH": str(tmp_path),
        "NETWORK_TRIED": str(tried),
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not tried.exists(), tried.read_text(encoding="utf-8")
    return done.stdout


def test_the_guard_sees_a_connection(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    environment = {"PYTHONPATH": str(tmp_path), "NETWORK_TRIED": str(tmp_path / "tried")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"no network in tests" in done.stderr
    assert (tmp_path / "tried").exists()


@needs_llama_index
def test_the_query_engine_cites_characters_of_the_novel_with_route_and_reasons(tmp_path):
    answers = run("llama_index_query_engine", tmp_path).split("\n=== ")[1:]
    assert [re.search(r"^route: (\w+)", a, re.MULTILINE)[1] for a in answers] == ["local", "global"]
    for answer in answers:
        said = answer.splitlines()[1]
        sources = re.findall(
            r"^\[(\d)\] (\w+) of the_time_machine\.txt, characters (\d+)-(\d+)\n"
            r"    because: \w+.*\n    (.+)\.\.\.$",
            answer,
            re.MULTILINE,
        )
        cited = re.search(r"^(.+) \[(\d)\]$", said)
        assert cited, said
        assert cited[2] in [number for number, *_ in sources]
        for number, kind, start, end, quoted in sources:
            passage = NOVEL[int(start) : int(end)]
            if kind == "chunk":
                assert repr(passage[:80]) == quoted
                assert number != cited[2] or cited[1] in " ".join(passage.split())


@needs_llama_index
def test_the_agent_calls_the_tool_once_and_answers_from_the_novel(tmp_path):
    printed = run("llama_index_agent", tmp_path)
    assert re.findall(r"^tool call: (.*)$", printed, re.MULTILINE) == [
        "novel({'input': 'What did the Psychologist do with the lever?'})"
    ]
    assert re.search(r"^  source: the_time_machine\.txt, characters \d+-\d+", printed, re.MULTILINE)
    answer = re.search(r"^answer: (.+)$", printed, re.MULTILINE)[1]
    assert answer in " ".join(NOVEL.split())


@needs_llama_index
def test_ingestion_makes_only_the_changed_document_anew_and_leaves_no_trace(tmp_path):
    printed = run("llama_index_ingestion", tmp_path)
    runs = re.findall(
        r"^(.+): made anew (.+)\n  the index has (.+); (\d+) of", printed, re.MULTILINE
    )
    assert [(what, made, int(weena)) for what, made, _, weena in runs] == [
        ("first run", "chapter-1, chapter-2, chapter-3", 1),
        ("run again", "nothing", 1),
        ("chapter 2 changed", "chapter-2", 0),
        ("chapter 3 refreshed", "chapter-3", 1),
    ]
    assert runs[0][2] == runs[1][2]
    for _, _, held, _ in runs:
        assert held.startswith("3 documents, ")


@pytest.mark.skipif(not is_installed("llama_index.core"), reason="LlamaIndex is not installed")
def test_qdrant_is_opened_again_and_filtered_on_both_routes(tmp_path):
    printed = run("llama_index_qdrant", tmp_path)
    there = is_installed("llama_index.vector_stores.qdrant")
    store = "QdrantVectorStore" if there else "SimpleVectorStore"
    assert re.search(rf"^3 documents, [1-9]\d+ vectors in {store}$", printed, re.MULTILINE)
    answers = {
        heading: [int(number) for number in re.findall(r"^  chapter (\d),", hits, re.MULTILINE)]
        for heading, hits in re.findall(r"^(.+?, \w+): .+\n((?:  .+\n)+)", printed, re.MULTILINE)
    }
    assert set(answers) == {
        f"{where}, {mode}"
        for where in ("everywhere", "from chapter 2 on")
        for mode in ("adaptive", "global")
    }
    assert 1 in answers["everywhere, global"]
    for mode in ("adaptive", "global"):
        assert min(answers[f"from chapter 2 on, {mode}"]) > 1


def quoted(answer: str) -> tuple[str, str]:
    """Return what the stand-in quotes and the label of the passage that it cites."""
    cited = re.fullmatch(r"(.+) \[([\d-]+)\]", answer)
    assert cited, answer
    return cited[1], cited[2]


def passage(start: str, end: str) -> str:
    return " ".join(NOVEL[int(start) : int(end)].split())


@needs_langchain
def test_the_chain_cites_characters_of_the_novel_with_route_and_reasons(tmp_path):
    answers = run("langchain_chain", tmp_path).split("\n=== ")[1:]
    assert len(answers) == 2
    for answer in answers:  # of the first passage: the side that gave it most
        assert re.search(r"^route: (local|global)$", answer, re.MULTILINE)
        assert re.search(r"entities: rank \d", answer)  # both questions name Filby
    for answer in answers:
        said, cited = quoted(answer.splitlines()[1])
        passages = re.findall(
            r"^\[(\d)\] (\w+) of the_time_machine\.txt, characters (\d+)-(\d+)\n"
            r"    (.+)\n    (.+)\.\.\.$",
            answer,
            re.MULTILINE,
        )
        assert [number for number, *_ in passages] == ["1", "2", "3"]
        for number, kind, start, end, reasons, shown in passages:
            assert reasons
            if kind == "chunk":
                assert repr(NOVEL[int(start) : int(end)][:80]) == shown
                assert number != cited or said in passage(start, end)


@needs_langgraph
def test_the_agent_remembers_the_first_turn_and_cites_passages_in_both(tmp_path):
    printed = run("langchain_agent", tmp_path)
    first, second = re.findall(r"^=== (.+)$", printed, re.MULTILINE)
    assert re.findall(r"^tool call: (.+)$", printed, re.MULTILINE) == [
        f"search_corpus({{'query': '{first}'}})",
        f"search_corpus({{'query': '{first} {second}'}})",
    ]
    answers = re.findall(
        r"^answer: (.+)\n  \[(\d)\] the_time_machine\.txt, characters (\d+)-(\d+)$",
        printed,
        re.MULTILINE,
    )
    assert len(answers) == 2
    for answer, number, start, end in answers:
        said, cited = quoted(answer)
        assert cited == number
        assert said in passage(start, end)


@needs_classic
def test_a_question_that_leans_on_the_last_one_finds_what_it_means(tmp_path):
    answers = run("langchain_history", tmp_path).split("\n=== ")[1:]
    assert len(answers) == 2
    for answer in answers:
        said, cited = quoted(answer.splitlines()[1])
        places = re.findall(
            r"of the_time_machine\.txt, characters (\d+-\d+)$", answer, re.MULTILINE
        )
        assert cited in places
        assert said in passage(*cited.split("-"))
    assert "Filby" not in answers[1].splitlines()[0]  # who "he" is stands in the history alone
    assert "Filby" in passage(*quoted(answers[1].splitlines()[1])[1].split("-"))


@needs_langchain
def test_an_edited_page_alone_is_paid_for_again(tmp_path):
    printed = run("langchain_indexing", tmp_path)
    runs = re.findall(
        r"^(.+): pages (\d+) added, 0 updated, (\d+) skipped, (\d+) deleted\n"
        r"  LLM calls: (\d+) estimated, (\d+) made\n"
        r"  written: (\d+) chunks, (\d+) summaries\n"
        r"  the index has (\d+) pages$",
        printed,
        re.MULTILINE,
    )
    assert [(what, *map(int, counts[:3]), int(counts[-1])) for what, *counts in runs] == [
        ("first run", 10, 0, 0, 10),
        ("run again", 0, 10, 0, 10),
        ("page 6 edited", 1, 9, 1, 10),
        ("last page gone", 0, 9, 1, 9),
    ]
    assert [estimated for *_, estimated, _, _, _, _ in runs] == [made for *_, made, _, _, _ in runs]
    first, again, edited, shorter = [int(made) for *_, made, _, _, _ in runs]
    summaries = int(runs[0][-2])
    assert first == summaries > 2
    assert again == 0
    assert 1 <= edited < summaries
    assert shorter < summaries
    assert printed.splitlines()[-1] == "Weena was not there."


def test_every_example_is_run_here():
    run_here = set(re.findall(r'run\("(\w+)"', Path(__file__).read_text(encoding="utf-8")))
    examples = {path.stem for path in EXAMPLES.glob("*.py")}
    assert run_here == {name for name in examples if not name.startswith("stand_in_")}
    for face in ("llama_index_", "langchain_"):
        assert sum(name.startswith(face) for name in run_here) >= 4
